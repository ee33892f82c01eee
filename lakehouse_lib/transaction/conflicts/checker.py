"""The conflict check of a transaction against the winning commits.

The rules are delta-spark's, in its order: protocol, metadata, domains, application transactions, added files against
reads, removed files against reads, removed files against removed files. Some changes that conflict in delta-spark do
not conflict here: see ``is_harmless`` and ``_still_writable``. Whether an added or removed file overlaps with a read is
decided by its statistics and its partition values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib import features
from lakehouse_lib.arrow.values import may_be_true
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
from lakehouse_lib.features import domain_metadata, row_tracking
from lakehouse_lib.features.computed_columns.identity_columns import without_marks
from lakehouse_lib.features.file_layout import clustering, materialize_partition_columns
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import PROPERTIES, IsolationLevel
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.conflicts.isolation_level import allows_append
from lakehouse_lib.transaction.conflicts.messages import (
    count_files,
    describe_commit,
    describe_read,
    metadata_change,
    protocol_change,
)

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Predicate

#: The domain of each feature that has one.
_DOMAINS = {clustering.FEATURE.name: clustering.DOMAIN, row_tracking.FEATURE.name: row_tracking.DOMAIN}
_NOTHING = "Nothing was changed"
_AGAIN = f"{_NOTHING}; run it again on the new version"
_AS_IT_IS_NOW = f"{_NOTHING}; open the table again, check that the data still fits it, and run it again"


@dataclass(frozen=True)
class Attempt:
    """A transaction before its next put: its read set, and the actions that it writes.

    Attributes:
        protocol, metadata, layout: those of the read version.
        isolation: the isolation level of this commit.
        reads: the predicates of the rows that the transaction read; ``None`` is the whole table. Empty: a blind write.
        live: returns the snapshot's files (a files table) that have one of the given keys. It is called only if a
            winning commit removed files.
        removes: the files that the transaction removes (a files table).
        applications: the txn version that the transaction writes for each application.
        domains: the names of the domains that the transaction writes.
        writes_metadata, writes_protocol: whether the transaction changes the metadata or the protocol.
        is_exclusive: any winning commit conflicts, even one that changes no file (VACUUM START).
        dropped_features: the names of the features that the transaction removes from the protocol.
    """

    protocol: Protocol
    metadata: Metadata
    layout: TableLayout
    isolation: IsolationLevel
    reads: tuple[Predicate | None, ...]
    live: Callable[[pa.Array], pa.Table]
    removes: pa.Table
    applications: Mapping[str, int]
    domains: frozenset[str]
    writes_metadata: bool
    writes_protocol: bool
    is_exclusive: bool = False
    dropped_features: frozenset[str] = frozenset()


def find_conflict(attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore) -> CommitFailedError | None:
    """The error for the first of ``winners`` that conflicts with ``attempt``; None: none of them conflicts."""
    append_conflicts = _append_conflicts(attempt, winners)
    removed_files = _RemovedFiles.of(winners, store)
    read_conflicts = removed_files.read_conflicts(attempt, store)
    remove_conflicts = removed_files.remove_conflicts(attempt, store)
    protocol, metadata = attempt.protocol, attempt.metadata
    for number, winner in enumerate(winners):

        def conflict(
            kind: type[CommitFailedError], what: str, hint: str = _AGAIN, winner: CommitActions = winner
        ) -> CommitFailedError:
            return kind(f"{describe_commit(winner)} {what}", table=store.root, version=winner.version, hint=hint)

        after = winner.metadata or metadata
        if winner.protocol is not None:
            if attempt.writes_protocol or not _still_writable(protocol, winner.protocol, after, store):
                return conflict(ProtocolChangedError, protocol_change(protocol, winner.protocol), _AS_IT_IS_NOW)
            protocol = winner.protocol
        if winner.metadata is not None:
            if attempt.writes_metadata or not is_harmless(metadata, winner.metadata):
                return conflict(MetadataChangedError, metadata_change(metadata, winner.metadata), _AS_IT_IS_NOW)
            metadata = winner.metadata
        if domains := sorted(attempt.domains & {d.domain for d in winner.domains}):
            return conflict(ConcurrentTransactionError, f"wrote the domain {excerpt(domains[0])} too")
        if attempt.writes_metadata and any(d.domain == clustering.DOMAIN for d in winner.domains):
            # The new metadata may drop a column by which the table is clustered now.
            return conflict(MetadataChangedError, "changed the clustering columns", _AS_IT_IS_NOW)
        rival = next((txn for txn in winner.transactions if txn.app_id in attempt.applications), None)
        if rival is not None:
            version = attempt.applications[rival.app_id]
            what = (
                f"has version {rival.version} of the application {excerpt(rival.app_id)}, "
                f"and this transaction writes version {version}"
            )
            next_step = (
                "this version is already committed: go on with its next version"
                if rival.version >= version
                else "open the table again, check what the other writer committed, and run it again"
            )
            return conflict(ConcurrentTransactionError, what, f"{_NOTHING}; {next_step}")
        if number in append_conflicts:
            what = f"added rows that may match {describe_read(append_conflicts[number])}"
            return conflict(ConcurrentAppendError, what)
        if number in read_conflicts:
            count, read = read_conflicts[number]
            what = f"removed {count_files(count)} that this transaction read ({describe_read(read)})"
            return conflict(ConcurrentDeleteReadError, what)
        if number in remove_conflicts:
            what = f"removed {count_files(remove_conflicts[number])} that this transaction removes"
            return conflict(ConcurrentDeleteDeleteError, what)
        if (name := _used_feature(winner, attempt.dropped_features)) is not None:
            return conflict(CommitFailedError, f"uses the feature {name}, which this transaction drops", _AS_IT_IS_NOW)
        if attempt.is_exclusive:
            return conflict(CommitFailedError, "is concurrent with this transaction, which allows no other commit")
    return None


def find_change(
    before: tuple[Protocol, Metadata], after: tuple[Protocol, Metadata], commits: range, store: ObjectStore
) -> CommitFailedError | None:
    """The error if a change of protocol or metadata invalidates files that were written before; None if it does not.

    Args:
        before, after: the protocol and metadata before and after the change.
        commits: the versions that made the change.
    """
    kind: type[CommitFailedError]
    if before[0] != after[0] and not _still_writable(before[0], after[0], after[1], store):
        kind, what = ProtocolChangedError, protocol_change(before[0], after[0])
    elif not is_harmless(before[1], after[1]):
        kind, what = MetadataChangedError, metadata_change(before[1], after[1])
    else:
        return None
    first, last = commits[0], commits[-1]
    subject = f"a commit of version {last}" if first == last else f"a commit of the versions {first} to {last}"
    return kind(f"{subject} {what}", table=store.root, version=last, hint=_AS_IT_IS_NOW)


def _append_conflicts(attempt: Attempt, winners: Sequence[CommitActions]) -> dict[int, Predicate | None]:
    """The positions of winning commits that added rows which the transaction should have read, and the predicates."""
    if not attempt.reads:
        return {}

    def allows(winner: CommitActions) -> bool:
        is_blind = winner.info.get("isBlindAppend") is True
        return allows_append(attempt.isolation, is_blind_append=is_blind, writes_metadata=attempt.writes_metadata)

    added_files = [
        (number, winner.adds) for number, winner in enumerate(winners) if len(winner.adds) and not allows(winner)
    ]
    if not added_files:
        return {}
    # One table of all winners, so that each predicate is evaluated once and not once for each winner.
    files = pa.concat_tables([adds for _, adds in added_files]).combine_chunks()
    owners = np.repeat([number for number, _ in added_files], [len(adds) for _, adds in added_files])
    has_new_rows = may_be_true(files["dataChange"])
    files, owners = files.filter(has_new_rows), owners[has_new_rows.to_numpy()]
    reads_by_winner: dict[int, Predicate | None] = {}
    for read in attempt.reads:
        for number in np.unique(owners[_may_hold(attempt, read, files)]).tolist():
            reads_by_winner.setdefault(number, read)
    return reads_by_winner


@dataclass(frozen=True)
class _RemovedFiles:
    """The files that the winning commits removed.

    Attributes:
        keys: the key of each file.
        owners: for each file the position of its winning commit.
    """

    keys: pa.Array
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, winners: Sequence[CommitActions], store: ObjectStore) -> _RemovedFiles:
        keys = [file_keys(winner.removes, store) for winner in winners]
        owners = np.repeat(np.arange(len(winners)), [len(winner_keys) for winner_keys in keys])
        return cls(pa.concat_arrays([pa.array([], pa.string()), *keys]), owners)

    def read_conflicts(self, attempt: Attempt, store: ObjectStore) -> dict[int, tuple[int, Predicate | None]]:
        """The winning commits that removed files which the transaction read.

        Returns:
            for the position of each such commit the number of the files, and the first predicate that matches them.
        """
        if not attempt.reads or not len(self.keys):
            return {}
        files = attempt.live(self.keys)
        keys = file_keys(files.select(KEY_COLUMNS), store)
        conflicts: dict[int, tuple[int, Predicate | None]] = {}
        for read in attempt.reads:
            for number, count in self._counts(keys.filter(pa.array(_may_hold(attempt, read, files)))).items():
                conflicts.setdefault(number, (count, read))
        return conflicts

    def remove_conflicts(self, attempt: Attempt, store: ObjectStore) -> dict[int, int]:
        """For the position of each winning commit the number of files that it and the transaction remove, if any."""
        if not len(self.keys) or not len(attempt.removes):
            return {}
        return self._counts(file_keys(attempt.removes.select(KEY_COLUMNS), store))

    def _counts(self, keys: pa.Array) -> dict[int, int]:
        """For the position of each winning commit the number of these files that it removed, if any."""
        hits = self.owners[_is_in(self.keys, keys)]
        return dict(zip(*(array.tolist() for array in np.unique(hits, return_counts=True)), strict=True))


def _used_feature(winner: CommitActions, names: frozenset[str]) -> str | None:
    """The first of the features that a winning commit uses, although it does not change the protocol; else None.

    Without this check, a drop would leave the metadata, domains or row ids of a feature in a table that lacks it.
    """
    domains = {domain.domain for domain in winner.domains if not domain.removed}
    metadata = winner.metadata
    for name in sorted(names):
        if _DOMAINS.get(name) in domains or (name == domain_metadata.FEATURE.name and domains):
            return name
        if name == row_tracking.FEATURE.name and row_tracking.have_ids(winner.adds):
            return name
        if metadata is not None:
            schema = Schema.from_json(metadata.schema_string)
            if features.FEATURES[name].is_used(metadata, schema):
                return name
    return None


def is_harmless(before: Metadata, after: Metadata) -> bool:
    """Whether only the name, the description, harmless properties and high water marks of identity columns changed.

    Such a change cannot affect the data files of this transaction. Properties that are not ``delta.*`` are harmless.
    """
    similar = replace(after, name=before.name, description=before.description, configuration=before.configuration)
    if replace(similar, schema_string=before.schema_string) != before:
        return False
    if similar != before and without_marks(before.schema_string) != without_marks(after.schema_string):
        return False
    changed = {key for key, _ in set(before.configuration.items()) ^ set(after.configuration.items())}
    return all(
        not key.lower().startswith("delta.") or (key in PROPERTIES and PROPERTIES[key].harmless) for key in changed
    )


def _still_writable(before: Protocol, after: Protocol, metadata: Metadata, store: ObjectStore) -> bool:
    """Whether files written under ``before`` may be committed under ``after``.

    True if ``after`` has all features of ``before``, and none that this library cannot write. Files that were written
    without copies of partition columns do not fit materializePartitionColumns.
    """
    copies = materialize_partition_columns.FEATURE
    if copies.is_supported(after) and not copies.is_supported(before):
        return False
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
    from lakehouse_lib.data_skipping import may_match

    keep = may_match(read, files, attempt.layout)
    return np.asarray(keep.to_numpy(zero_copy_only=False), np.bool_)


def _is_in(keys: pa.Array, value_set: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.is_in(keys, value_set=value_set).to_numpy(zero_copy_only=False), np.bool_)
