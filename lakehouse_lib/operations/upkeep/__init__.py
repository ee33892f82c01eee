"""Verbs that maintain a table: checkpoints, vacuum, log cleanup, log compaction, pins, manifests and repair."""
