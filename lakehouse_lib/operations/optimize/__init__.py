"""Verbs that change files but no rows: compaction, Z-order, purge, and the computation of statistics."""
