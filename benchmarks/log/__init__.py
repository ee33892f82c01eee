"""Benchmarks of opening, listing, pruning and scanning tables of many files: ``python -m benchmarks.log``."""
