"""Spark's SQL as the syntax trees of sqlglot, and trees as SQL."""
