"""Reading a table with Spark's own Parquet scan."""
