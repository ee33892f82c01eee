"""Readers of source files: CSV, JSON lines and Parquet."""
