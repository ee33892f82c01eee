"""Checkpoints: the whole state of a version, in Parquet or JSON, in one object or many (PROTOCOL.md, Checkpoints)."""
