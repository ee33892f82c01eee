"""Whether a commit that won a race contradicts what a transaction has read and wants to write.

The first rules, all at isolation level Serializable (SnapshotIsolation for what changes no data), in delta-spark's
order: protocol, metadata, domains, application transactions, adds, deletes against reads, deletes against deletes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from lakehouse_lib.log.commit import CommitActions
from lakehouse_lib.log.keys import file_keys
from lakehouse_lib.predicates import Predicate, pruning
from lakehouse_lib.schema import Schema
from lakehouse_lib.store.base import ObjectStore


@dataclass(frozen=True)
class Attempt:
    """What a transaction has read and wants to write.

    Attributes:
        reads: predicates of the rows it depended on; ``None`` among them is the whole table. Empty: a blind write.
        files: the live files of its snapshot.
        removes: the files it removes (a files table).
        app_ids, domains: names it writes.
        changes_data: False for a rearrangement, which any append may run beside.
    """

    schema: Schema
    partition_columns: tuple[str, ...]
    reads: tuple[Predicate | None, ...]
    files: pa.Table
    removes: pa.Table
    app_ids: frozenset[str]
    domains: frozenset[str]
    changes_data: bool


def find_conflict(attempt: Attempt, winner: CommitActions, store: ObjectStore) -> CommitFailedError | None:
    """The error that ``winner`` means for ``attempt``, or None when both may stand."""

    def conflict(kind: type[CommitFailedError], what: str, hint: str) -> CommitFailedError:
        operation = winner.info.get("operation", "a commit")
        message = f"{operation} of version {winner.version} {what}"
        return kind(message, table=store.root, version=winner.version, hint=hint)

    again = "Nothing was changed; run it again on the new version"
    if winner.protocol is not None:
        return conflict(ProtocolChangedError, "changed the protocol", again)
    if winner.metadata is not None:
        return conflict(MetadataChangedError, "changed the schema or the table properties", again)
    domains = sorted(attempt.domains & {d.domain for d in winner.domains})
    if domains:
        return conflict(ConcurrentTransactionError, f"wrote the domain {domains[0]} too", again)
    app_ids = sorted(attempt.app_ids & {t.app_id for t in winner.transactions})
    if app_ids:
        return conflict(
            ConcurrentTransactionError, f"was written by the application {app_ids[0]} too", "See what it wrote first"
        )
    if attempt.changes_data:
        added = winner.adds.filter(pc.fill_null(winner.adds["dataChange"], True))
        for read in attempt.reads:
            if _may_hold(attempt, read, added):
                return conflict(ConcurrentAppendError, f"added rows that {_words(read)} may cover", again)
    removed = file_keys(winner.removes, store)
    if len(removed):
        if attempt.changes_data and _removes_what_was_read(attempt, removed, store):
            return conflict(ConcurrentDeleteReadError, "removed files that were read", again)
        both = pc.sum(pc.is_in(file_keys(attempt.removes, store), value_set=removed)).as_py() or 0
        if both:
            return conflict(ConcurrentDeleteDeleteError, f"removed {both} of the files that were to be removed", again)
    return None


def _removes_what_was_read(attempt: Attempt, removed: pa.Array, store: ObjectStore) -> bool:
    if not attempt.reads:
        return False
    gone = attempt.files.filter(pc.is_in(file_keys(attempt.files, store), value_set=removed))
    return any(_may_hold(attempt, read, gone) for read in attempt.reads)


def _may_hold(attempt: Attempt, read: Predicate | None, files: pa.Table) -> bool:
    if not len(files):
        return False
    if read is None:
        return True
    # Tables with column mapping are not written, so names are the same on both sides.
    keep = pruning.may_match(read, files, attempt.schema, attempt.partition_columns, "none")
    return bool(pc.any(keep, min_count=0).as_py())


def _words(read: Predicate | None) -> str:
    return "the whole table" if read is None else f"the predicate {read.sql}"
