"""Merge a source into a table that is much larger than the memory."""
