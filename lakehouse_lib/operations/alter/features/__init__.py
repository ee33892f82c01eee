"""Add and drop table features, and prepare a table for it: row ids, files without column mapping, no old versions."""
