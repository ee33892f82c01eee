"""Data files in Parquet: reading, writing, and fitting old files to today's schema."""
