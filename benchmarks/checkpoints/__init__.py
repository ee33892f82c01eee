"""Benchmarks of checkpoints beside delta-rs, on tables of many files: ``python -m benchmarks.checkpoints``."""
