"""Verbs that maintain a table: checkpoints, vacuum, log cleanup, pins, manifests and repair."""
