"""Data skipping: the files that may hold rows that match a condition."""

from lakehouse_lib.data_skipping.file_pruning import evaluate_partitions, may_match

__all__ = ["evaluate_partitions", "may_match"]
