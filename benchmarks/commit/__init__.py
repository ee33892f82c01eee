"""Benchmarks of commits beside delta-rs: ``python -m benchmarks.commit``."""
