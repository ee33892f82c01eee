"""Optimistic transactions (PROTOCOL.md, section Writing Data; isolation levels as in delta-spark)."""

from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.transaction.commit_info import commit_metadata, engine_info
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties
from lakehouse_lib.transaction.optimistic_transaction import OptimisticTransaction
from lakehouse_lib.transaction.outcome import Committed, Conflict, Outcome, Unknown, version_of

__all__ = [
    "CommitProperties",
    "Committed",
    "Conflict",
    "OptimisticTransaction",
    "Outcome",
    "PostCommitHookProperties",
    "Transaction",
    "Unknown",
    "commit_metadata",
    "engine_info",
    "version_of",
]
