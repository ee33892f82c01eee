"""Descriptions of a table: DESCRIBE DETAIL, live files, deletion vectors, and changes of the schema."""
