"""MERGE on Parquet files: the join by keys, its tasks, and the rows of the clauses."""
