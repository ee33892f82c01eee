"""Parquet data files: reading, writing, and conversion of old files to the table's current schema."""
