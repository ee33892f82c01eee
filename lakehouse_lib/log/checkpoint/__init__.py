"""Checkpoints: the state of a version in Parquet or JSON, in one object or several (PROTOCOL.md, Checkpoints)."""
