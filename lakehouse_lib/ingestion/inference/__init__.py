"""A schema and a suite for files that nobody has described yet."""
