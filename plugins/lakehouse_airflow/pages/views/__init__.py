"""The values that the templates show, made without I/O from records, logs and commits."""
