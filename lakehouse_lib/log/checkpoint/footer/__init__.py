"""The footers of a checkpoint's Parquet objects, and the row groups that they exclude."""
