"""Data skipping: decides which files may have rows that match a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.data_skipping.file_pruning import evaluate_partitions as evaluate_partitions
    from lakehouse_lib.data_skipping.file_pruning import may_match as may_match
    from lakehouse_lib.data_skipping.generated_partitions import with_generated_partitions as with_generated_partitions

#: The module of each name, below this package.
_MODULES = {
    "evaluate_partitions": "file_pruning",
    "may_match": "file_pruning",
    "with_generated_partitions": "generated_partitions",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
