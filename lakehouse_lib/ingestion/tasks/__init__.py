"""The tasks of a load, which read files and write rows in the workers of an engine."""
