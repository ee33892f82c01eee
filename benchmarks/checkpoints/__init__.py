"""Checkpoints of tables of many files beside delta-rs: ``python -m benchmarks.checkpoints``."""
