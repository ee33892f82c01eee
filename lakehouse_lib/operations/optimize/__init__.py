"""Verbs that rewrite files without changing rows: compaction and Z-order."""
