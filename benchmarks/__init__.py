"""Benchmarks of this library beside delta-rs, on the same data, in one run: ``python -m benchmarks``."""
