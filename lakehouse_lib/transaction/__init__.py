"""Optimistic transactions (PROTOCOL.md, section Writing Data; isolation levels as in delta-spark)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use
from lakehouse_lib.protocol.actions import Transaction as Transaction

if TYPE_CHECKING:
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

#: The module of each name, below this package.
_MODULES = {
    "CommitProperties": "commit_properties",
    "Committed": "outcome",
    "Conflict": "outcome",
    "OptimisticTransaction": "optimistic_transaction",
    "Outcome": "outcome",
    "PostCommitHookProperties": "hook_properties",
    "Unknown": "outcome",
    "commit_metadata": "commit_info",
    "engine_info": "commit_info",
    "version_of": "outcome",
}

__all__ = ["Transaction", *_MODULES]

__getattr__ = import_on_use(__name__, _MODULES)
