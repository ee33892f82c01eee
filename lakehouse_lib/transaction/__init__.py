"""Optimistic transactions (PROTOCOL.md, section Writing Data; isolation levels as in delta-spark)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.operations.write.add_actions import AddAction as AddAction
    from lakehouse_lib.operations.write.file_actions import RemoveAction as RemoveAction
    from lakehouse_lib.protocol.actions import Transaction as Transaction
    from lakehouse_lib.table.add_actions import create_table_with_add_actions as create_table_with_add_actions
    from lakehouse_lib.transaction.commit_info import commit_metadata as commit_metadata
    from lakehouse_lib.transaction.commit_info import engine_info as engine_info
    from lakehouse_lib.transaction.commit_properties import CommitProperties as CommitProperties
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties as PostCommitHookProperties
    from lakehouse_lib.transaction.optimistic_transaction import OptimisticTransaction as OptimisticTransaction
    from lakehouse_lib.transaction.outcome import Committed as Committed
    from lakehouse_lib.transaction.outcome import Conflict as Conflict
    from lakehouse_lib.transaction.outcome import Outcome as Outcome
    from lakehouse_lib.transaction.outcome import Unknown as Unknown
    from lakehouse_lib.transaction.outcome import version_of as version_of

#: The module of each name, below this package. The modules that begin with a dot are below ``lakehouse_lib``: the
#: ``deltalake`` package has their names in its module ``transaction``.
_MODULES = {
    "AddAction": ".operations.write.add_actions",
    "CommitProperties": "commit_properties",
    "Committed": "outcome",
    "Conflict": "outcome",
    "OptimisticTransaction": "optimistic_transaction",
    "Outcome": "outcome",
    "PostCommitHookProperties": "hook_properties",
    "RemoveAction": ".operations.write.file_actions",
    "Transaction": ".protocol.actions",
    "Unknown": "outcome",
    "commit_metadata": "commit_info",
    "create_table_with_add_actions": ".table.add_actions",
    "engine_info": "commit_info",
    "version_of": "outcome",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
