"""The interface for users: ``DeltaTable``, its verbs and ``write_deltalake``.

Names are imported when they are first used, as in ``lakehouse_lib``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.table.delta_table import DeltaTable
    from lakehouse_lib.table.metadata import ProtocolVersions, TableMetadata
    from lakehouse_lib.table.verbs.merger import TableMerger
    from lakehouse_lib.table.verbs.optimizer import TableOptimizer

_HOMES = {
    "DeltaTable": "delta_table",
    "ProtocolVersions": "metadata",
    "TableMerger": "verbs.merger",
    "TableMetadata": "metadata",
    "TableOptimizer": "verbs.optimizer",
}

__all__ = ["DeltaTable", "ProtocolVersions", "TableMerger", "TableMetadata", "TableOptimizer"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
