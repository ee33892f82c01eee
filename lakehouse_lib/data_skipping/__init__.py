"""Data skipping: decides which files may have rows that match a condition."""

from lakehouse_lib.data_skipping.file_pruning import evaluate_partitions, may_match
from lakehouse_lib.data_skipping.generated_partitions import with_generated_partitions

__all__ = ["evaluate_partitions", "may_match", "with_generated_partitions"]
