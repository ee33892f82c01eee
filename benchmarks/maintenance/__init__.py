"""Benchmarks of maintenance."""
