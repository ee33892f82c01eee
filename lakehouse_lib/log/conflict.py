"""Whether a commit that won a race contradicts what a transaction has read and wants to write.

The rules are delta-spark's, in its order: protocol, metadata, domains, application transactions, adds, deletes against
reads, deletes against deletes. Where it gives up and need not, the loser goes on: see ``is_harmless`` and
``_still_writable``; and overlap is judged by file statistics besides partition values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib import features
from lakehouse_lib.actions import Metadata, Protocol
from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    UnsupportedFeatureError,
)
from lakehouse_lib.log import in_commit_time
from lakehouse_lib.log.commit import CommitActions
from lakehouse_lib.log.keys import KEY_COLUMNS, file_keys
from lakehouse_lib.predicates import Predicate, pruning
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.store.base import ObjectStore
from lakehouse_lib.table_properties import IsolationLevel

#: Properties that say nothing about how rows are written or which may be: a writer that has not seen them does no harm.
_UPKEEP = frozenset(
    {
        "delta.checkpointInterval",
        "delta.checkpointRetentionDuration",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
_AGAIN = "Nothing was changed; run it again on the new version"


@dataclass(frozen=True)
class Attempt:
    """What a transaction has read and wants to write.

    Attributes:
        protocol, metadata: of the version it was planned on; with ``schema``, ``partition_columns`` and ``mapping``.
        isolation: of this commit.
        reads: predicates of the rows it depended on; ``None`` among them is the whole table. Empty: a blind write.
        live: those of the snapshot's files (a files table) that have one of these keys; asked only when files went.
        removes: the files it removes (a files table).
        app_ids, domains: names it writes.
        writes_metadata, writes_protocol: whether it changes them.
    """

    protocol: Protocol
    metadata: Metadata
    schema: Schema
    partition_columns: tuple[str, ...]
    mapping: Mode
    isolation: IsolationLevel
    reads: tuple[Predicate | None, ...]
    live: Callable[[pa.Array], pa.Table]
    removes: pa.Table
    app_ids: frozenset[str]
    domains: frozenset[str]
    writes_metadata: bool
    writes_protocol: bool


def find_conflict(attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore) -> CommitFailedError | None:
    """The error that the first contradicting one of ``winners`` means for ``attempt``; None when all may stand."""
    appended = _appended(attempt, winners)
    removed = _Removed.of(winners, store)
    read, both = removed.meeting_reads(attempt, store), removed.meeting_removes(attempt, store)
    protocol, metadata = attempt.protocol, attempt.metadata
    for number, winner in enumerate(winners):

        def conflict(
            kind: type[CommitFailedError], what: str, hint: str = _AGAIN, winner: CommitActions = winner
        ) -> CommitFailedError:
            message = f"{winner.info.get('operation', 'a commit')} of version {winner.version} {what}"
            return kind(message, table=store.root, version=winner.version, hint=hint)

        after = winner.metadata or metadata
        if winner.protocol is not None:
            if attempt.writes_protocol or not _still_writable(protocol, winner.protocol, after, store):
                return conflict(ProtocolChangedError, "changed the protocol")
            protocol = winner.protocol
        if winner.metadata is not None:
            if attempt.writes_metadata or not is_harmless(metadata, winner.metadata):
                return conflict(MetadataChangedError, "changed the schema or the table properties")
            metadata = winner.metadata
        if domains := sorted(attempt.domains & {d.domain for d in winner.domains}):
            return conflict(ConcurrentTransactionError, f"wrote the domain {domains[0]} too")
        if app_ids := sorted(attempt.app_ids & {t.app_id for t in winner.transactions}):
            what = f"was written by the application {app_ids[0]} too"
            return conflict(ConcurrentTransactionError, what, "See what it wrote first")
        if number in appended:
            return conflict(ConcurrentAppendError, f"added rows that {_words(appended[number])} may cover")
        if number in read:
            return conflict(ConcurrentDeleteReadError, "removed files that were read")
        if number in both:
            return conflict(ConcurrentDeleteDeleteError, f"removed {both[number]} of the files that were to be removed")
    return None


def _appended(attempt: Attempt, winners: Sequence[CommitActions]) -> dict[int, Predicate | None]:
    """Winners that added rows which the transaction should have read, each with what read them."""
    if attempt.isolation is IsolationLevel.SNAPSHOT_ISOLATION or not attempt.reads:
        return {}
    # Under WriteSerializable what was appended blindly may count as appended afterwards.
    later = attempt.isolation is IsolationLevel.WRITE_SERIALIZABLE and not attempt.writes_metadata
    chosen = [
        (number, winner.adds)
        for number, winner in enumerate(winners)
        if len(winner.adds) and not (later and winner.info.get("isBlindAppend") is True)
    ]
    if not chosen:
        return {}
    # In one piece: what is asked of it is asked once, not once a winner.
    files = pa.concat_tables([adds for _, adds in chosen]).combine_chunks()
    owners = np.repeat([number for number, _ in chosen], [len(adds) for _, adds in chosen])
    changed = pc.fill_null(files["dataChange"], True)
    files, owners = files.filter(changed), owners[changed.to_numpy()]
    found: dict[int, Predicate | None] = {}
    for read in attempt.reads:
        for number in np.unique(owners[_may_hold(attempt, read, files)]).tolist():
            found.setdefault(number, read)
    return found


@dataclass(frozen=True)
class _Removed:
    """Keys of the files that winners removed, and the winner of each."""

    keys: pa.Array
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, winners: Sequence[CommitActions], store: ObjectStore) -> _Removed:
        keys = [file_keys(winner.removes, store) for winner in winners]
        owners = np.repeat(np.arange(len(winners)), [len(one) for one in keys])
        return cls(pa.concat_arrays([pa.array([], pa.string()), *keys]), owners)

    def meeting_reads(self, attempt: Attempt, store: ObjectStore) -> frozenset[int]:
        """Winners that removed files which the transaction has read."""
        if not attempt.reads or not len(self.keys):
            return frozenset()
        gone = attempt.live(self.keys)
        held = np.zeros(len(gone), np.bool_)
        for read in attempt.reads:
            held |= _may_hold(attempt, read, gone)
        read_keys = file_keys(gone.select(KEY_COLUMNS), store).filter(pa.array(held))
        return frozenset(np.unique(self.owners[_is_in(self.keys, read_keys)]).tolist())

    def meeting_removes(self, attempt: Attempt, store: ObjectStore) -> dict[int, int]:
        """Winners that removed files which the transaction removes, each with how many."""
        if not len(self.keys) or not len(attempt.removes):
            return {}
        hits = self.owners[_is_in(self.keys, file_keys(attempt.removes.select(KEY_COLUMNS), store))]
        return dict(zip(*(one.tolist() for one in np.unique(hits, return_counts=True)), strict=True))


def is_harmless(before: Metadata, after: Metadata) -> bool:
    """Whether only names, comments, upkeep and the time inside commits changed: a writer that had seen it would have
    written the same, but for the time, which every attempt has its own of."""
    if replace(after, name=before.name, description=before.description, configuration=before.configuration) != before:
        return False
    changed = {key for key, _ in set(before.configuration.items()) ^ set(after.configuration.items())}
    return all(key in _UPKEEP | in_commit_time.PROPERTIES or not key.lower().startswith("delta.") for key in changed)


def _still_writable(before: Protocol, after: Protocol, metadata: Metadata, store: ObjectStore) -> bool:
    """Whether files written under one protocol may be committed under the other: it dropped no feature, and asks for
    none that would have to be kept and is not here."""
    if not features.writer_features(before) <= features.writer_features(after):
        return False
    try:
        features.check_write(after, metadata, Schema.from_json(metadata.schema_string), table=store.root, version=0)
    except UnsupportedFeatureError:
        return False
    return True


def _may_hold(attempt: Attempt, read: Predicate | None, files: pa.Table) -> NDArray[np.bool_]:
    if read is None:
        return np.ones(len(files), np.bool_)
    keep = pruning.may_match(read, files, attempt.schema, attempt.partition_columns, attempt.mapping)
    return np.asarray(keep.to_numpy(zero_copy_only=False), np.bool_)


def _is_in(keys: pa.Array, wanted: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.is_in(keys, value_set=wanted).to_numpy(zero_copy_only=False), np.bool_)


def _words(read: Predicate | None) -> str:
    return "the whole table" if read is None else f"the predicate {read.sql}"
