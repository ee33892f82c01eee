"""The conversion of a folder of Parquet files to a table."""
