"""Infer a schema and a suite from files, and the columns that files add to a table."""
