"""The footers of a checkpoint's Parquet objects, and data skipping of row groups by their statistics."""
