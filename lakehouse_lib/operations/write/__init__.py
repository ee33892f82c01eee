"""Create, append and overwrite."""
