"""JSON lines and JSON arrays, read as blocks of columns."""
