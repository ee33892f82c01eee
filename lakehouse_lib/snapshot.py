"""The snapshot of a version: its files as Arrow, its schema, its properties."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakehouse_lib import features
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError, VersionNotFoundError
from lakehouse_lib.features import column_mapping, row_tracking
from lakehouse_lib.features.file_layout import clustering, materialize_partition_columns
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.log import clock
from lakehouse_lib.log import file_names as names
from lakehouse_lib.log.checkpoint.part import UnreadableCheckpointError
from lakehouse_lib.log.checkpoint.read import forget_checkpoint
from lakehouse_lib.log.checksum import warn_of_contradictions
from lakehouse_lib.log.history import commit_time, version_at
from lakehouse_lib.log.replay.live_files import DuplicatePathError, FileSet
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.log.replay.table_state import OwnCommit, VersionState, give_up, later_state, load_state
from lakehouse_lib.log.replay.transaction_retention import unexpired_transactions
from lakehouse_lib.log.segment import Checkpoint, Commit, commits_since
from lakehouse_lib.log.table_identity import CommitFingerprint, replaced_error
from lakehouse_lib.protocol.actions import FILE_SCHEMA, DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.schema import Field, Schema, TableLayout
from lakehouse_lib.statistics import ColumnPath, WrittenStatistics
from lakehouse_lib.store import ObjectMeta, ObjectStore

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Predicate

_Answer = TypeVar("_Answer")

#: ``remember`` keeps a commit with at most this many adds and removes.
_REMEMBERED_FILES = 1000


@dataclass(frozen=True)
class Snapshot:
    """One version of the table, immutable. File columns are read when they are first needed, and then kept.

    Attributes:
        store: the table's store.
    """

    store: ObjectStore
    _loaded: VersionState = field(repr=False)

    @property
    def version(self) -> int:
        return self._loaded.version

    @property
    def checkpoint_version(self) -> int | None:
        """The version of the checkpoint that this snapshot is built from; None when it is built from commits alone."""
        return self._loaded.checkpoint.version if self._loaded.checkpoint is not None else None

    @property
    def state(self) -> TableState:
        """The table state: protocol, metadata, live files, tombstones, transactions and domains."""
        return self._loaded.state

    @property
    def fingerprint(self) -> CommitFingerprint:
        """The identity of this version's commit, by which a later read of the log detects a recreated table."""
        return CommitFingerprint(self.version, self._loaded.commit, self._loaded.info, self.metadata.id)

    @property
    def modified(self) -> int:
        """The modification time of the commit file by the store's clock, ms since the epoch."""
        return self._loaded.modified

    @cached_property
    def timestamp(self) -> int:
        """The commit timestamp, ms since the epoch: the in-commit timestamp, or ``modified`` if there is none."""
        loaded = self._loaded
        properties = effective_properties(self.configuration, self.protocol)
        return commit_time(self.store, self.version, loaded.modified, properties, loaded.info)

    @property
    def files(self) -> pa.Table:
        """The live files (``FILE_SCHEMA``).

        Two calls may return them in different orders, if a checkpoint becomes unreadable in between. So join rows by
        path, or read all columns in one call.
        """
        return self.query(lambda state: state.files.table)

    @property
    def max_file_count(self) -> int:
        """An upper bound for the number of live files, from the footers of the checkpoint."""
        return self.query(lambda state: state.files.max_row_count)

    @property
    def file_count(self) -> int:
        return self.query(lambda state: state.files.num_rows)

    def file_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of the live files, as a files table with only these columns. Other columns are not read."""
        return self.query(lambda state: state.files.columns(names))

    def map_files(self, names: Sequence[str], work: Callable[[pa.Table], _Answer]) -> list[_Answer]:
        """Call ``work`` with some columns of each batch of the live files, and return the results.

        Later batches are read ahead. If a checkpoint becomes unreadable, the work starts again from the first batch.
        """
        return self.query(lambda state: [work(piece) for piece in state.files.pieces(names)])

    def statistics(self, selection: WrittenStatistics, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Statistics of the live files (``selection.schema``), and some columns of the same files in the same order.

        The statistics are read from the structs if the checkpoint has all of them, else from the JSON; nothing is kept.
        """
        return self.query(lambda state: (state.files.statistics(selection), state.files.columns(columns)))

    @property
    def tombstones(self) -> pa.Table:
        """The tombstones of this version (``TOMBSTONE_SCHEMA``); a checkpoint leaves out expired tombstones."""
        return self.query(lambda state: state.tombstones.table)

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

    @cached_property
    def transactions(self) -> dict[str, Transaction]:
        """The last transaction of each application, unless it has expired (``log.replay.transaction_retention``)."""
        return unexpired_transactions(self.state.transactions, self.metadata.configuration, clock.now())

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        return dict(self.state.domains)

    @cached_property
    def clustering_columns(self) -> tuple[ColumnPath, ...]:
        """The paths of the columns by which the table is clustered (CLUSTER BY); empty if it is not clustered."""
        table, version = self.store.root, self.version
        return clustering.clustering_columns(self.protocol, self.domains, self.layout, table=table, version=version)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def configuration(self) -> dict[str, str]:
        """The table properties, ``delta.*`` and others."""
        return dict(self.metadata.configuration)

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_json(self.metadata.schema_string)

    @cached_property
    def layout(self) -> TableLayout:
        """The layout of the data files, without the materialized row tracking columns."""
        mapping = column_mapping.mode_of(self.protocol, self.metadata, table=self.store.root)
        copies = materialize_partition_columns.FEATURE.is_supported(self.protocol)
        return TableLayout(self.schema, self.partition_columns, mapping, copies_partition_columns=copies)

    def layout_with_row_ids(self) -> TableLayout:
        """The layout for copying rows: with the materialized row tracking columns if row tracking is enabled.

        Raises:
            DeltaProtocolError: row tracking is enabled and the table does not configure those columns.
        """
        columns = row_tracking.columns_of(self.protocol, self.metadata, table=self.store.root, version=self.version)
        return replace(self.layout, row_ids=columns)

    def field(self, name: str) -> Field:
        """The column with this name, regardless of case; raises InvalidArgumentError if the table has none."""
        match = self.schema.get(name) if isinstance(name, str) else None
        if match is None:
            around = self.schema.get(name.partition(".")[0]) if isinstance(name, str) else None
            problem = (
                "does not exist" if around is None else f"is nested in the column {around.name!r}; expected a column"
            )
            raise InvalidArgumentError(
                f"the column {name!r} {problem}",
                table=self.store.root,
                version=self.version,
                hint=f"The columns are {', '.join(self.schema.names)}",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        return match

    def names_of(self, columns: Sequence[str] | None) -> list[str]:
        """The names of these columns as the schema spells them; for None all names.

        Raises:
            InvalidArgumentError: a column does not exist, or is named twice.
        """
        if isinstance(columns, str) or not (columns is None or isinstance(columns, Iterable)):
            raise InvalidArgumentError(
                f"columns is {columns!r}; expected a list of names",
                table=self.store.root,
                version=self.version,
                hint="Leave it out for all columns",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        names = self.schema.names if columns is None else [self.field(name).name for name in columns]
        if len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"columns names a column twice: {names}",
                table=self.store.root,
                version=self.version,
                hint="Name each column once",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        return names

    def prune(self, predicate: Predicate | None, columns: Sequence[str] | None = None) -> pa.Table:
        """The files that may hold a row for which ``predicate`` is true; all files for None. No data file is read.

        Columns that the predicate needs are read and cached, other columns only from row groups that may match.

        Args:
            columns: the columns of ``FILE_SCHEMA`` to return; None: all of them.
        """
        names = FILE_SCHEMA.names if columns is None else columns
        if predicate is None:
            return self.files if columns is None else self.file_columns(names)
        from lakehouse_lib.data_skipping import file_pruning, with_generated_partitions

        layout = self.layout
        condition = with_generated_partitions(predicate, layout, self.protocol)
        needs = file_pruning.needs(condition, layout)
        decide = partial(file_pruning.decide, condition, layout=layout)
        may_match = partial(file_pruning.may_match, condition, layout=layout)
        return self.query(lambda state: state.files.select(needs, decide, may_match, names))

    def update(self) -> Snapshot:
        """The latest version, from the commits after this version; this snapshot itself if there are none.

        It is loaded from scratch if some commits were cleaned up, or if a checkpoint is more than 100 versions newer.

        Raises:
            TableNotFoundError: the table was deleted, or deleted and created again.
        """
        commit_file, commits = commits_since(self.store, self.version)
        commit_file = commit_file or self.store.head(names.commit(self.version))
        is_there = False
        if commit_file is not None:
            with contextlib.suppress(VersionNotFoundError):  # cleaned up after they were listed
                self.fingerprint.check(self.store, commit_file)
                is_there = True
                if commits is not None:
                    with contextlib.suppress(DuplicatePathError):  # the sources of this snapshot may be wrong
                        return self._after(commits)
        latest = load_snapshot(self.store)
        # A stale listing may end before this version.
        if latest.metadata.id != self.metadata.id or (latest.version < self.version and not is_there):
            raise replaced_error(self.store, self.version)
        return latest if latest.version > self.version else self

    def after_commit(self, version: int | None) -> Snapshot:
        """``update`` after this process committed ``version``; one HEAD request if the commit was remembered."""
        own: OwnCommit | None = self.__dict__.get("_own")
        if own is not None and own.actions.version == version == self.version + 1:
            commit_file = self.store.head(names.commit(version))
            if commit_file is not None and commit_file.size == own.size:
                with contextlib.suppress(DuplicatePathError):  # the sources of this snapshot may be wrong
                    return self._after([Commit.of(version, commit_file)])
        return self.update()

    def check_same_table(self) -> None:
        """Check that the table was not deleted and recreated since this version was read.

        Raises:
            TableNotFoundError: the table was deleted, or deleted and created again.
        """
        commit_file = self.store.head(names.commit(self.version))
        if commit_file is not None:
            with contextlib.suppress(VersionNotFoundError):  # cleaned up since
                self.fingerprint.check(self.store, commit_file)
                return
        self.update()

    def remember(self, own: OwnCommit) -> None:
        """Keep a later commit of this process that has at most 1000 file actions, so that it is not read again."""
        if len(own.actions.adds) + len(own.actions.removes) <= _REMEMBERED_FILES:
            self.__dict__["_own"] = own

    def with_files(self, files: pa.Table, metadata: Metadata) -> Snapshot:
        """This version with other files (``FILE_SCHEMA``) and metadata, for example to read files of older versions."""
        state = replace(self.state, files=FileSet(self.store, FILE_SCHEMA, None, files), metadata=metadata)
        return Snapshot(self.store, replace(self._loaded, state=state))

    def check_writable(self) -> None:
        """Raise ``UnsupportedFeatureError`` if the table uses a feature that this library cannot write."""
        features.check_write(self.protocol, self.metadata, self.schema, table=self.store.root, version=self.version)

    def compare_checksum(self) -> None:
        """Warn if the checksum file differs from the log. The log is used. Only files in memory are compared."""
        if self._loaded.checksum is not None:
            warn_of_contradictions(self.store, self.version, self._loaded.checksum, self.state)

    def query(self, question: Callable[[TableState], _Answer]) -> _Answer:
        """The result of ``question`` on this version's state.

        If a checkpoint turns out to be unreadable, it is opened once more, because a sidecar may have been restored. If
        it is still unreadable, the version is loaded without it. If a path is live twice, the version is loaded
        without its log compactions first, then without the checkpoint.
        """
        opened_again: set[Checkpoint] = set()
        without: frozenset[ObjectMeta] = frozenset()
        first_error: UnreadableCheckpointError | None = None
        while True:
            try:
                return question(self._loaded.state)
            except UnreadableCheckpointError as error:
                first_error = first_error or error
            checkpoint = self._loaded.checkpoint
            if isinstance(first_error, DuplicatePathError) and self._loaded.compactions:
                without |= self._loaded.compactions
            elif checkpoint is not None:
                forget_checkpoint(self.store, checkpoint)
                if checkpoint in opened_again:
                    without |= frozenset(checkpoint.parts)
                opened_again.add(checkpoint)
            try:
                reloaded = load_state(self.store, self.version, without=without)
            except DeltaError as error:
                parts = checkpoint.parts if checkpoint is not None else ()
                give_up(self.store, error, first_error, parts)
            if reloaded.state.metadata is None or reloaded.state.metadata.id != self.metadata.id:
                raise replaced_error(self.store, self.version) from first_error
            object.__setattr__(self, "_loaded", reloaded)

    def _after(self, commits: Sequence[Commit]) -> Snapshot:
        if not commits:
            return self
        return _checked(Snapshot(self.store, later_state(self.store, self._loaded, commits, self.__dict__.get("_own"))))

    def _incomplete(self, action: str) -> LogCorruptedError:
        return LogCorruptedError(
            f"the log has no {action} action up to this version",
            table=self.store.root,
            version=self.version,
            hint="Restore the first commit or a checkpoint from a backup",
        )


def load_snapshot(store: ObjectStore, version: int | None = None, *, timestamp: datetime | None = None) -> Snapshot:
    """Load a version from the log.

    Args:
        version: None for the latest.
        timestamp: instead of a version: load the latest version committed at or before this time (without a zone: UTC).

    Raises:
        TableNotFoundError: the location has no table.
        VersionNotFoundError: the version or time does not exist, or was cleaned up.
        LogCorruptedError: a file of the log is missing or not valid.
        UnsupportedFeatureError: the table uses a feature that this library cannot read.
        InvalidArgumentError: the version is not a whole number, the timestamp is not a datetime, or both are given.
    """
    if timestamp is not None:
        if version is not None:
            raise InvalidArgumentError(
                f"version is {version} and timestamp is {timestamp}; expected only one of them",
                table=store.root,
                hint="Leave one of them out",
                code="DELTA_INVALID_VERSION",
            )
        version = version_at(store, timestamp)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidArgumentError(
            f"version is {version!r}; expected a whole number",
            table=store.root,
            hint="history() lists the versions",
            code="DELTA_INVALID_VERSION",
        )
    snapshot = _checked(Snapshot(store, load_state(store, version)))
    snapshot.compare_checksum()
    return snapshot


def _checked(snapshot: Snapshot) -> Snapshot:
    features.check_read(
        snapshot.protocol, snapshot.metadata, snapshot.schema, table=snapshot.store.root, version=snapshot.version
    )
    return snapshot
