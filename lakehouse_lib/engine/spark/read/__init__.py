"""Read a table by Spark's own scan."""
