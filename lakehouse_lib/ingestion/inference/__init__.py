"""A schema and a suite for files without a description."""
