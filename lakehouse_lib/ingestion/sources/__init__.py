"""Readers of source files: CSV, JSON lines, JSON arrays, Parquet and ORC."""
