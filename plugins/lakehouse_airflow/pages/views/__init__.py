"""Values that the templates show, made from records, logs and commits without I/O."""
