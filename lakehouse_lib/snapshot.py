"""A version of the table as Arrow: its files, its schema, its properties."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from lakehouse_lib import features
from lakehouse_lib.data_skipping import file_pruning
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError, VersionNotFoundError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import column_mapping, row_tracking
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.log import file_names as names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoint.part import UnreadableCheckpointError
from lakehouse_lib.log.checkpoint.read import forget_checkpoint
from lakehouse_lib.log.checksum import contradictions, read_checksum
from lakehouse_lib.log.history import commit_time, version_at
from lakehouse_lib.log.replay.live_files import FileSet, PathTwiceError
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.log.replay.table_state import OwnCommit, VersionState, give_up, later_state, load_state
from lakehouse_lib.log.segment import Checkpoint, Commit, commits_since
from lakehouse_lib.log.table_identity import Landmark, replaced
from lakehouse_lib.protocol.actions import FILE_SCHEMA, DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.schema import Field, Schema, TableLayout
from lakehouse_lib.statistics import WrittenStatistics
from lakehouse_lib.store.base import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

#: Files of a commit that is remembered at most.
_REMEMBERED_FILES = 1000


@dataclass(frozen=True)
class Snapshot:
    """One version, complete and unchanging. Of its files only what is asked for is read, and kept.

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
        """The checkpoint it is built from; None when from commits alone."""
        return self._loaded.checkpoint.version if self._loaded.checkpoint is not None else None

    @property
    def state(self) -> TableState:
        """What the log says."""
        return self._loaded.state

    @property
    def landmark(self) -> Landmark:
        """What shows that a log is the one this was read from."""
        loaded = self._loaded
        return Landmark(loaded.version, loaded.commit, loaded.info, self.metadata.id)

    @property
    def modified(self) -> int:
        """When its commit file was put by the store's clock, ms since the epoch."""
        return self._loaded.modified

    @cached_property
    def timestamp(self) -> int:
        """When its commit happened, ms since the epoch: the in-commit timestamp where the table has them."""
        loaded = self._loaded
        properties = effective_properties(self.configuration, self.protocol)
        return commit_time(self.store, self.version, loaded.modified, properties, loaded.info)

    @property
    def files(self) -> pa.Table:
        """The live files (``FILE_SCHEMA``). Of two questions the answers may come in different orders, where a
        checkpoint turns out unreadable in between: rows are joined by path, or asked for at once."""
        return self.ask(lambda state: state.files.table)

    @property
    def file_count(self) -> int:
        return self.ask(lambda state: state.files.num_rows)

    def file_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of the live files; nothing else of a checkpoint is read."""
        return self.ask(lambda state: state.files.columns(names))

    def map_files(self, names: Sequence[str], work: Callable[[pa.Table], _Answer]) -> list[_Answer]:
        """``work`` on some columns of the live files, piece by piece, while the next pieces are read. Where a
        checkpoint turns out unreadable it begins anew."""
        return self.ask(lambda state: [work(piece) for piece in state.files.pieces(names)])

    def statistics(self, selection: WrittenStatistics, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Statistics of the live files (``selection.schema``), and some columns of the same files in the same order.

        They are read from the struct form where a checkpoint has all of it, else from the JSON; neither is kept.
        """
        return self.ask(lambda state: (state.files.statistics(selection), state.files.columns(columns)))

    @property
    def tombstones(self) -> pa.Table:
        """Removed files that the log still remembers (``TOMBSTONE_SCHEMA``)."""
        return self.ask(lambda state: state.tombstones.table)

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
        return dict(self.state.transactions)

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        return dict(self.state.domains)

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
    def layout(self) -> TableLayout:
        """How its data files hold its rows, without the columns in which rows keep their ids."""
        mapping = column_mapping.mode_of(self.protocol, self.metadata, table=self.store.root)
        return TableLayout(self.schema, self.partition_columns, mapping)

    def layout_with_row_ids(self) -> TableLayout:
        """The layout of rows that are copied: with the columns in which they keep their ids, where they do.

        Raises:
            DeltaProtocolError: rows keep their ids, and the table does not say where.
        """
        columns = row_tracking.columns_of(self.protocol, self.metadata, table=self.store.root, version=self.version)
        return replace(self.layout, row_ids=columns)

    def field(self, name: str) -> Field:
        """The column of that name, regardless of case; InvalidArgumentError when there is none."""
        match = self.schema.get(name) if isinstance(name, str) else None
        if match is None:
            raise InvalidArgumentError(
                f"there is no column {name!r}",
                table=self.store.root,
                version=self.version,
                hint=f"The columns are {', '.join(self.schema.names)}",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        return match

    def names_of(self, columns: Sequence[str] | None) -> list[str]:
        """These columns as the schema spells them; None: all of them.

        Raises:
            InvalidArgumentError: no such column, or one that is named twice.
        """
        if isinstance(columns, str) or not (columns is None or isinstance(columns, Iterable)):
            raise InvalidArgumentError(
                f"the columns are {columns!r}",
                table=self.store.root,
                version=self.version,
                hint="Give a list of names",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        names = self.schema.names if columns is None else [self.field(name).name for name in columns]
        if len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"a column is asked for twice in {names}",
                table=self.store.root,
                version=self.version,
                hint="Name each column once",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        return names

    def prune(self, predicate: Predicate | None, columns: Sequence[str] | None = None) -> pa.Table:
        """The files that may hold a row for which ``predicate`` is true; all of them for None. No data is read.

        Of a checkpoint only what the predicate needs is read and parsed, and kept; the other columns only where there
        are files to keep.

        Args:
            columns: of ``FILE_SCHEMA``; None: all of them.
        """
        names = FILE_SCHEMA.names if columns is None else columns
        if predicate is None:
            return self.files if columns is None else self.file_columns(names)
        layout = self.layout
        needs = file_pruning.needs(predicate, layout)

        def decide(values: file_pruning.FileValues) -> pa.Array:
            return file_pruning.decide(predicate, values, layout)

        def may_match(files: pa.Table) -> pa.Array:
            return file_pruning.may_match(predicate, files, layout)

        return self.ask(lambda state: state.files.select(needs, decide, may_match, names))

    def update(self) -> Snapshot:
        """The latest version, reading only the commits after this one; this very snapshot when there are none.

        Where those commits are cleaned up already, or very many, the latest version is loaded whole.

        Raises:
            TableNotFoundError: the table was deleted, or deleted and created again.
        """
        commit_file, commits = commits_since(self.store, self.version)
        commit_file = commit_file or self.store.head(names.commit(self.version))
        is_there = False
        if commit_file is not None:
            with contextlib.suppress(VersionNotFoundError):  # cleaned up since they were listed
                self.landmark.check(self.store, commit_file)
                is_there = True
                if commits is not None:
                    with contextlib.suppress(PathTwiceError):  # this version's own sources may be wrong
                        return self._after(commits)
        latest = load_snapshot(self.store)
        # A listing that is behind may lack even this version.
        if latest.metadata.id != self.metadata.id or (latest.version < self.version and not is_there):
            raise replaced(self.store, self.version)
        return latest if latest.version > self.version else self

    def check_same_table(self) -> None:
        """Check that the table was not recreated since this version was read: a new table's versions are other ones.

        Raises:
            TableNotFoundError: the table was deleted, or deleted and created again.
        """
        commit_file = self.store.head(names.commit(self.version))
        if commit_file is not None:
            with contextlib.suppress(VersionNotFoundError):  # cleaned up since
                self.landmark.check(self.store, commit_file)
                return
        self.update()

    def remember(self, own: OwnCommit) -> None:
        """A later commit, so that ``update`` need not read back what this process has put; a large one is not kept."""
        if len(own.actions.adds) + len(own.actions.removes) <= _REMEMBERED_FILES:
            self.__dict__["_own"] = own

    def with_files(self, files: pa.Table, metadata: Metadata) -> Snapshot:
        """This version as if it had other files (``FILE_SCHEMA``) and metadata: to read files of its past, say."""
        state = replace(self.state, files=FileSet(self.store, FILE_SCHEMA, None, files), metadata=metadata)
        return Snapshot(self.store, replace(self._loaded, state=state))

    def check_writable(self) -> None:
        """Refuse to write what this library cannot keep right; ``UnsupportedFeatureError`` names the features."""
        features.check_write(self.protocol, self.metadata, self.schema, table=self.store.root, version=self.version)

    def compare_checksum(self) -> None:
        """Warn of a checksum that contradicts the log, which counts. Only files in memory are compared with it."""
        meta = self._loaded.checksum
        if meta is None:
            return
        try:
            recorded = CACHE.get(
                self.store, [meta], lambda: read_checksum(self.store, self.version), lambda _: meta.size
            )
            wrong = contradictions(recorded, self.state, counting=False) if recorded is not None else []
        except DeltaError as error:
            wrong = [error.message]
        if wrong:
            logger.warning(
                "the checksum %s of %s contradicts the log, which counts: %s. Other engines may refuse the table; "
                "repair(dry_run=False) deletes it",
                meta.path,
                self.store.root,
                "; ".join(wrong),
            )

    def ask(self, question: Callable[[TableState], _Answer]) -> _Answer:
        """The answer of this version's state.

        A checkpoint that turns out unreadable is opened once more, for a sidecar may have been put back since, and then
        skipped for other sources of the version. Where a path is live twice, the log compactions are passed over
        first, and then the checkpoint.
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
            if isinstance(first_error, PathTwiceError) and self._loaded.compactions:
                without |= self._loaded.compactions
            elif checkpoint is not None:
                forget_checkpoint(self.store, checkpoint)
                if checkpoint in opened_again:
                    without |= frozenset(checkpoint.parts)
                opened_again.add(checkpoint)
            try:
                again = load_state(self.store, self.version, without=without)
            except DeltaError as error:
                parts = checkpoint.parts if checkpoint is not None else ()
                give_up(self.store, error, first_error, parts)
            if again.state.metadata is None or again.state.metadata.id != self.metadata.id:
                raise replaced(self.store, self.version) from first_error
            object.__setattr__(self, "_loaded", again)

    def _after(self, commits: Sequence[Commit]) -> Snapshot:
        if not commits:
            return self
        own: OwnCommit | None = self.__dict__.get("_own")
        return _checked(Snapshot(self.store, later_state(self.store, self._loaded, commits, own)))

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
        InvalidArgumentError: a version that is not a whole number, a timestamp that is not a datetime, or both.
    """
    if timestamp is not None:
        if version is not None:
            raise InvalidArgumentError(
                f"both version {version} and timestamp {timestamp}",
                table=store.root,
                hint="Give one of them",
                code="DELTA_INVALID_VERSION",
            )
        if not isinstance(timestamp, datetime) or timestamp != timestamp:  # NaT of pandas is a datetime
            raise InvalidArgumentError(
                f"the timestamp {timestamp!r}",
                table=store.root,
                hint="Give a datetime; without a zone it is UTC",
                code="DELTA_INVALID_VERSION",
            )
        version = version_at(store, timestamp)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidArgumentError(
            f"the version {version!r}", table=store.root, hint="Give a whole number", code="DELTA_INVALID_VERSION"
        )
    snapshot = _checked(Snapshot(store, load_state(store, version)))
    snapshot.compare_checksum()
    return snapshot


def _checked(snapshot: Snapshot) -> Snapshot:
    features.check_read(
        snapshot.protocol, snapshot.metadata, snapshot.schema, table=snapshot.store.root, version=snapshot.version
    )
    return snapshot
