"""A version of the table as Arrow: its files, its schema, its properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.actions import DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, UnsupportedFeatureError, VersionNotFoundError
from lakehouse_lib.log.checkpoint import read_checkpoint
from lakehouse_lib.log.commit import read_commit
from lakehouse_lib.log.history import version_at
from lakehouse_lib.log.replay import EMPTY, TableState, replay
from lakehouse_lib.log.segment import Commit, LogSegment, commits_after, load_segment
from lakehouse_lib.predicates import Predicate, pruning
from lakehouse_lib.schema import Field, Schema, column_mapping
from lakehouse_lib.store.base import ObjectStore


@dataclass(frozen=True)
class Snapshot:
    """One version, complete and unchanging.

    Attributes:
        store: the table's store.
        version: the version.
        timestamp: when its commit was written, ms since the epoch.
        checkpoint_version: the checkpoint it was built from; None when from commits alone.
        state: what the log says.
    """

    store: ObjectStore
    version: int
    timestamp: int
    checkpoint_version: int | None
    state: TableState = field(repr=False)

    @property
    def files(self) -> pa.Table:
        """The live files (``FILE_SCHEMA``)."""
        return self.state.files

    @property
    def tombstones(self) -> pa.Table:
        """Removed files that the log still remembers (``TOMBSTONE_SCHEMA``)."""
        return self.state.tombstones

    @property
    def metadata(self) -> Metadata:
        if self.state.metadata is None:
            raise self._incomplete("metaData")
        return self.state.metadata

    @property
    def protocol(self) -> Protocol:
        if self.state.protocol is None:
            raise self._incomplete("protocol")
        return self.state.protocol

    @property
    def transactions(self) -> dict[str, Transaction]:
        return self.state.transactions

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        return self.state.domains

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def configuration(self) -> dict[str, str]:
        """The table properties (``delta.*``)."""
        return dict(self.metadata.configuration)

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_json(self.metadata.schema_string)

    @cached_property
    def column_mapping(self) -> column_mapping.Mode:
        """By what columns are found in files, statistics and partition values; "none" unless the protocol has it."""
        listed = self.protocol.reader_features or frozenset()
        has_mapping = self.protocol.min_reader_version == 2 or "columnMapping" in listed
        return column_mapping.mode_of(self.configuration, table=self.store.root) if has_mapping else "none"

    def field(self, name: str) -> Field:
        """The column of that name, regardless of case; InvalidArgumentError when there is none."""
        found = self.schema.get(name)
        if found is None:
            raise InvalidArgumentError(
                f"there is no column {name!r}",
                table=self.store.root,
                version=self.version,
                hint=f"The columns are {', '.join(self.schema.names)}",
            )
        return found

    def prune(self, predicate: Predicate | None) -> pa.Table:
        """The files that may hold a row for which ``predicate`` is true; all of them for None. No data is read."""
        if predicate is None:
            return self.files
        keep = pruning.may_match(predicate, self.files, self.schema, self.partition_columns, self.column_mapping)
        return self.files.filter(keep)

    def update(self) -> Snapshot:
        """The latest version, reading only the commits after this one; this very snapshot when there are none.

        Where those commits are cleaned up already, the latest version is loaded whole.
        """
        commits = commits_after(self.store, self.version)
        if commits is None:
            return load_snapshot(self.store)
        return _advance(self, commits) if commits else self

    def check_writable(self) -> None:
        """Refuse to write what this library cannot keep right; ``UnsupportedFeatureError`` names the features."""
        features.check_write(self.protocol, self.metadata, self.schema, table=self.store.root, version=self.version)

    def _incomplete(self, action: str) -> LogCorruptedError:
        return LogCorruptedError(
            f"the log has no {action} action up to this version",
            table=self.store.root,
            version=self.version,
            hint="Restore the first commit or a checkpoint from a backup",
        )


def load_snapshot(store: ObjectStore, version: int | None = None, *, timestamp: datetime | None = None) -> Snapshot:
    """Build a version from the log.

    Args:
        version: None for the latest.
        timestamp: instead of a version: the latest version committed at or before this time (without a zone: UTC).

    Raises:
        TableNotFoundError: no table there.
        VersionNotFoundError: a version or time that never was, or is cleaned up.
        LogCorruptedError: the log is torn.
        UnsupportedFeatureError: the table cannot be read right.
        InvalidArgumentError: a version that is no whole number, a timestamp that is no datetime, or both given.
    """
    if timestamp is not None:
        if version is not None:
            raise InvalidArgumentError(
                f"both version {version} and timestamp {timestamp}", table=store.root, hint="Give one of them"
            )
        if not isinstance(timestamp, datetime):
            raise InvalidArgumentError(
                f"the timestamp {timestamp!r}", table=store.root, hint="Give a datetime; without a zone it is UTC"
            )
        version = version_at(store, timestamp)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidArgumentError(f"the version {version!r}", table=store.root, hint="Give a whole number")
    segment, base = _base(store, version)
    commits = [read_commit(store, c.version) for c in segment.commits]
    snapshot = Snapshot(
        store,
        segment.version,
        _modified(segment),
        segment.checkpoint.version if segment.checkpoint else None,
        replay(base, commits, store),
    )
    _check_readable(snapshot)
    return snapshot


def _base(store: ObjectStore, version: int | None) -> tuple[LogSegment, TableState]:
    """The segment and what its checkpoint holds; an unreadable checkpoint falls back to what lies before it."""
    unreadable: frozenset[int] = frozenset()
    first_error: LogCorruptedError | None = None
    while True:
        try:
            segment = load_segment(store, version, without=unreadable)
        except (LogCorruptedError, VersionNotFoundError) as error:
            raise (first_error or error) from None
        if segment.checkpoint is None:
            return segment, EMPTY
        try:
            return segment, read_checkpoint(store, segment.checkpoint)
        except LogCorruptedError as error:
            first_error = first_error or error
            unreadable |= {segment.checkpoint.version}


def _advance(snapshot: Snapshot, commits: tuple[Commit, ...]) -> Snapshot:
    actions = [read_commit(snapshot.store, c.version) for c in commits]
    later = Snapshot(
        snapshot.store,
        commits[-1].version,
        commits[-1].modified,
        snapshot.checkpoint_version,
        replay(snapshot.state, actions, snapshot.store),
    )
    _check_readable(later)
    return later


def _modified(segment: LogSegment) -> int:
    if segment.commits:
        return segment.commits[-1].modified
    assert segment.checkpoint is not None
    return segment.checkpoint.modified


def _check_readable(snapshot: Snapshot) -> None:
    features.check_read(
        snapshot.protocol,
        snapshot.metadata,
        snapshot.schema,
        table=snapshot.store.root,
        version=snapshot.version,
    )
    vectors = snapshot.files["deletionVector"]
    if vectors.null_count != len(vectors):
        raise UnsupportedFeatureError(
            f"{len(vectors) - vectors.null_count} files have deletion vectors (deletionVectors), not read here yet",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Purge them with the engine that wrote them (REORG TABLE ... APPLY (PURGE))",
        )
    if pc.any(pc.is_null(snapshot.files["path"]), min_count=0).as_py():
        raise LogCorruptedError(
            "the log has a file action without a path", table=snapshot.store.root, version=snapshot.version
        )
