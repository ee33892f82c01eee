"""The interface for users: ``DeltaTable``, its verbs and ``write_deltalake``.

Names are imported when they are first used, as in ``lakehouse_lib``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.table.delta_table import DeltaTable as DeltaTable
    from lakehouse_lib.table.metadata import Metadata as Metadata
    from lakehouse_lib.table.metadata import ProtocolVersions as ProtocolVersions
    from lakehouse_lib.table.verbs.alterer import TableAlterer as TableAlterer
    from lakehouse_lib.table.verbs.merger import TableMerger as TableMerger
    from lakehouse_lib.table.verbs.optimizer import TableOptimizer as TableOptimizer

#: The module of each name, below this package.
_MODULES = {
    "DeltaTable": "delta_table",
    "Metadata": "metadata",
    "ProtocolVersions": "metadata",
    "TableAlterer": "verbs.alterer",
    "TableMerger": "verbs.merger",
    "TableOptimizer": "verbs.optimizer",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
