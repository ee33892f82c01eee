"""The optimistic transaction: its read set, its actions, and the loop of commit attempts.

A crash before the commit file is put leaves only data files that no version refers to.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaProtocolError,
    MetadataChangedError,
    StoreError,
    TooManyRetriesError,
    VersionNotFoundError,
)
from lakehouse_lib.features import domain_metadata, row_tracking
from lakehouse_lib.features.computed_columns.identity_columns import MARKS_TAG, moves_only_marks
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.log import clock
from lakehouse_lib.log.commits.commit_file import CommitActions, serialize
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.log.replay.table_state import OwnCommit
from lakehouse_lib.log.retention.tombstones import removals
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import (
    CHANGE_FILE_SCHEMA,
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.protocol.table_properties import IsolationLevel
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.application_transactions import add_transaction, duplicate_error
from lakehouse_lib.transaction.commit_base import CommitBase
from lakehouse_lib.transaction.commit_info import commit_info
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.conflicts.checker import Attempt, find_conflict
from lakehouse_lib.transaction.conflicts.isolation_level import level_of
from lakehouse_lib.transaction.conflicts.winning_commits import read_winning_commits
from lakehouse_lib.transaction.freed_names import check_name
from lakehouse_lib.transaction.outcome import Committed, Conflict, Outcome, Unknown
from lakehouse_lib.transaction.post_commit import run_hooks
from lakehouse_lib.transaction.put_commit import put_commit
from lakehouse_lib.transaction.read_version import check_read_version, cleaned_up_error, may_follow_a_cleanup

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Predicate

_DEFAULT_RETRIES = 50
_FIRST_WAIT_SECONDS = 0.01
_LONGEST_WAIT_SECONDS = 1.0
#: The time limit of all attempts together, even if retries are left.
_DEADLINE_SECONDS = 600.0


class OptimisticTransaction:
    """A transaction that collects the actions of the next version and commits them.

    Args:
        snapshot: the read version; None to create the table.
        store: the table's store.
        operation: the operation in commitInfo, as delta-spark names it ("WRITE", "DELETE", "OPTIMIZE", ...).
        parameters: the operationParameters in commitInfo.

    ``metrics`` becomes the operationMetrics in commitInfo. If ``is_exclusive`` is true, any winning commit conflicts.
    If ``is_serializable`` is true, the isolation level is Serializable, whatever the level of the table.
    """

    def __init__(
        self, snapshot: Snapshot | None, store: ObjectStore, operation: str, parameters: Mapping[str, Any]
    ) -> None:
        self._snapshot = snapshot
        self._store = store
        self._operation = operation
        self._parameters = dict(parameters)
        self._adds: list[pa.Table] = []
        self._keeps_row_ids = True
        self._removes: list[pa.Table] = []  # files tables; dataChange says whether rows are removed
        self._change_files: list[pa.Table] = []
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._transactions: dict[str, Transaction] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._reads: list[Predicate | None] = []
        self.metrics: dict[str, Any] = {}
        self.is_exclusive = False
        self.is_serializable = False

    def add(self, files: pa.Table, *, keeps_row_ids: bool = False) -> None:
        """Add files (FILE_SCHEMA); their ``dataChange`` says whether they have new rows.

        Args:
            keeps_row_ids: whether copied rows in these files have their row ids in the materialized row tracking
                columns, if the table has row tracking enabled.
        """
        self._keeps_row_ids &= keeps_row_ids or not len(files)
        if len(files):
            self._adds.append(files.select(FILE_SCHEMA.names).cast(FILE_SCHEMA))

    def remove(self, files: pa.Table, *, data_change: bool = True) -> None:
        """Remove live files of the snapshot (FILE_SCHEMA); ``data_change=False`` if added files have the same rows."""
        if len(files):
            change = pa.repeat(literal(data_change, pa.bool_()), len(files))
            self._removes.append(files.set_column(files.column_names.index("dataChange"), "dataChange", change))

    def add_change_files(self, files: pa.Table) -> None:
        """Add files of the change data feed (CHANGE_FILE_SCHEMA), with the changes of each row."""
        if len(files):
            self._change_files.append(files.cast(CHANGE_FILE_SCHEMA))

    def set_metadata(self, metadata: Metadata) -> None:
        """Change the schema, the properties or the partitioning.

        Raises:
            DeltaProtocolError: the transaction has changed them before.
        """
        if self._metadata is not None:
            raise DeltaProtocolError("the metadata may change only once in a commit", table=self._store.root)
        self._metadata = metadata

    def set_protocol(self, protocol: Protocol) -> None:
        self._protocol = protocol

    def set_transaction(self, app_id: str, version: int) -> None:
        """Make the write idempotent: ``commit`` returns a conflict if ``app_id`` has committed this or a later version.

        Raises:
            InvalidArgumentError: the transaction has another version of ``app_id``.
        """
        add_transaction(self._transactions, Transaction(app_id, version, clock.now()), self._store.root)

    def set_domain(self, domain: DomainMetadata) -> None:
        self._domains[domain.domain] = domain

    def read(self, predicate: Predicate | None) -> None:
        """Record the predicate of the rows that the operation read; None: the whole table.

        Without a call, the write is blind.
        """
        self._reads.append(predicate)

    def commit(self, properties: CommitProperties | None = None) -> Outcome:
        """Commit as the next version; retry after winning commits that do not conflict.

        Raises:
            UnsupportedFeatureError: the table uses a feature that this library cannot write.
            DeltaProtocolError: the commit breaks a rule of the table (append-only, ...).
            InvalidArgumentError: readers could not parse the commit (a line is too long, a time is after the year
                9999, a file is both added and removed); nothing is put.
            TableNotFoundError: the log of the snapshot no longer exists, or belongs to another table.
            LogCorruptedError: a winning commit or the row id high water mark is not valid; nothing was committed.
            StoreError: the store failed, and nothing was committed.
        """
        properties = properties or CommitProperties()
        for transaction in properties.app_transactions or ():
            dated_transaction = replace(transaction, last_updated=transaction.last_updated or clock.now())
            add_transaction(self._transactions, dated_transaction, self._store.root)
        self._check_rules()
        transaction_conflict = duplicate_error(self._transactions.values(), self._snapshot, self._store.root)
        if transaction_conflict is not None:
            return Conflict(transaction_conflict)
        sync_error: StoreError | None = None
        try:
            # Sync before listing the log, to keep the time between listing and put short.
            for table in (*self._adds, *self._change_files):
                self._store.sync(file_paths.decode_all(table["path"], self._store).to_pylist())
        except StoreError as error:
            sync_error = error  # raised below, unless the table or the read version is gone
        log_read_at = clock.now()
        base_conflict = check_read_version(self._snapshot, self._store) if self._snapshot is not None else None
        if base_conflict is not None:
            return Conflict(base_conflict)
        if sync_error is not None:
            raise sync_error
        return self._attempts(properties, log_read_at)

    def _attempts(self, properties: CommitProperties, log_read_at: int) -> Outcome:
        retries = _DEFAULT_RETRIES if properties.max_commit_retries is None else properties.max_commit_retries
        deadline = time.monotonic() + _DEADLINE_SECONDS
        before = CommitBase.of(self._snapshot)
        txn_id = str(uuid.uuid4())
        if self._snapshot is not None and may_follow_a_cleanup(self._snapshot, self._store, clock.now()):
            # The name of a commit file that was cleaned up is free again. No reader would see a commit of this name.
            next_base = self._after_winners(self._snapshot, before)
            if isinstance(next_base, Conflict):
                return next_base
            before = next_base
        for attempt in range(1, retries + 2):
            now = clock.now()
            try:
                commit = before.complete(self._draft(txn_id, properties, now), now, self._store)
            except VersionNotFoundError as error:
                return self._cleaned_up(before, error)
            data = serialize(commit, self._store.root)
            put = put_commit(self._store, commit.version, data, txn_id)
            if isinstance(put, StoreError):
                return Unknown.of(commit.version, txn_id, put, table=self._store.root)
            if put:
                if self._snapshot is not None:
                    assert before.metadata is not None
                    freed_name_error = check_name(commit, log_read_at, before.metadata.configuration, self._store)
                    if isinstance(freed_name_error, CommitFailedError):
                        return Conflict(freed_name_error)
                    if freed_name_error is not None:
                        return Unknown.of(commit.version, txn_id, freed_name_error, table=self._store.root)
                    self._snapshot.remember(OwnCommit(commit, len(data)))
                run_hooks(self._snapshot, commit, properties.post_commithook_properties, self._store)
                return Committed(commit.version, attempt)
            if self._snapshot is None:
                return Conflict(
                    MetadataChangedError(
                        "another writer created the table first",
                        table=self._store.root,
                        version=0,
                        hint="Open the table and append to it",
                    )
                )
            # Wait before the winning commits are read, not after, so that the next put follows the latest version.
            time.sleep(random.uniform(0, min(_FIRST_WAIT_SECONDS * 2**attempt, _LONGEST_WAIT_SECONDS)))  # noqa: S311
            log_read_at = clock.now()
            next_base = self._after_winners(self._snapshot, before)
            if isinstance(next_base, Conflict):
                return next_base
            before = next_base
            if attempt <= retries and time.monotonic() > deadline:
                limit = f"in the {_DEADLINE_SECONDS:.0f} seconds that a commit may take"
                hint = "More retries would not help: write less often or more at a time, or let writers take turns"
                break
        else:
            limit = "and no retry is left"
            hint = "Raise CommitProperties(max_commit_retries=...), or write less often or more at a time"
        return Conflict(
            TooManyRetriesError(
                f"{attempt} attempts lost the race to other writers {limit}",
                table=self._store.root,
                version=before.version + 1,
                hint=f"Nothing was changed. {hint}",
            )
        )

    def _after_winners(self, snapshot: Snapshot, before: CommitBase) -> CommitBase | Conflict:
        """The last winning commit after ``before``, or the conflict of this transaction with one of them."""
        assert before.fingerprint is not None
        try:
            winners, fingerprint = read_winning_commits(self._store, before.fingerprint)
        except VersionNotFoundError as error:
            return self._cleaned_up(before, error)
        conflict = find_conflict(self._attempt(snapshot), winners, self._store)
        if conflict is not None:
            return Conflict(conflict)
        return replace(before.after(winners, self._store.root), fingerprint=fingerprint)

    def _cleaned_up(self, before: CommitBase, error: VersionNotFoundError) -> Conflict:
        cleanup_error = cleaned_up_error(self._store, before.version + 1)
        cleanup_error.__cause__ = error
        return Conflict(cleanup_error)

    def _draft(self, txn_id: str, properties: CommitProperties, now: int) -> CommitActions:
        """The commit without the fields that depend on the preceding version (in-commit timestamp, row ids)."""
        info = commit_info(
            properties.custom_metadata or {},
            tags={MARKS_TAG: "true"} if self._moves_only_marks() else {},
            operation=self._operation,
            parameters=self._parameters,
            metrics=self.metrics,
            isolation=self._isolation(),
            is_blind_append=not self._reads and not self._removes,
            read_version=None if self._snapshot is None else self._snapshot.version,
            txn_id=txn_id,
            timestamp=now,
        )
        # If this clock is behind, tombstones of its time would look old, and vacuum would delete the files too early.
        removed_at = now if self._snapshot is None else max(now, self._snapshot.modified)
        return CommitActions(
            0,
            pa.concat_tables([pa.Table.from_batches([], FILE_SCHEMA), *self._adds]),
            pa.concat_tables(
                [pa.Table.from_batches([], TOMBSTONE_SCHEMA), *(removals(table, removed_at) for table in self._removes)]
            ),
            pa.concat_tables([pa.Table.from_batches([], CHANGE_FILE_SCHEMA), *self._change_files]),
            self._metadata,
            self._protocol,
            tuple(self._transactions.values()),
            tuple(self._domains.values()),
            info,
        )

    def _moves_only_marks(self) -> bool:
        if self._snapshot is None or self._metadata is None:
            return False
        return moves_only_marks(self._snapshot.metadata, self._metadata)

    def _check_rules(self) -> None:
        metadata = self._metadata or (self._snapshot.metadata if self._snapshot else None)
        protocol = self._protocol or (self._snapshot.protocol if self._snapshot else None)
        if metadata is None or protocol is None:
            raise DeltaProtocolError(
                "the first commit of a table needs a protocol and metadata", table=self._store.root, version=0
            )
        version = self._snapshot.version if self._snapshot else 0
        schema = Schema.from_json(metadata.schema_string)
        if self._snapshot is not None:
            self._snapshot.check_writable()
        features.check_write(protocol, metadata, schema, table=self._store.root, version=version)
        row_tracking.check_table(protocol, metadata, schema, table=self._store.root, version=version)
        if not self._keeps_row_ids and not all(_any_change(table) for table in self._removes):
            row_tracking.check_row_ids_preserved(protocol, metadata, table=self._store.root, version=version)
        domain_metadata.check_domains(self._domains, protocol, table=self._store.root, version=version)
        if self._adds or self._metadata or self._protocol or self._domains:
            domains = {**(self._snapshot.domains if self._snapshot else {}), **self._domains}
            clustering.check_commit(protocol, metadata, domains, table=self._store.root, version=version)
            if self._adds and self._snapshot is not None and not self.is_exclusive:  # a restore adds older files
                snapshot, added = self._snapshot, pa.concat_tables(self._adds)
                clustering.check_statistics(
                    *(protocol, domains, added, lambda: snapshot.file_columns(["path"])["path"]),
                    table=self._store.root,
                    version=version,
                )
        if self._removes_rows():
            before = self._snapshot.metadata if self._snapshot else metadata
            features.check_removal(before, table=self._store.root, version=version)

    def _attempt(self, snapshot: Snapshot) -> Attempt:
        def live(keys: pa.Array) -> pa.Table:
            def have_key(files: pa.Table) -> pa.Array:
                return pc.is_in(file_keys(files.select(KEY_COLUMNS), self._store), value_set=keys)

            if not pc.any(have_key(snapshot.file_columns(KEY_COLUMNS)), min_count=0).as_py():
                return pa.Table.from_batches([], FILE_SCHEMA)
            files = snapshot.files  # read the keys again, because two calls may return the files in different orders
            return files.filter(have_key(files))

        return Attempt(
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            layout=snapshot.layout,
            isolation=self._isolation(),
            reads=tuple(self._reads),
            live=live,
            removes=pa.concat_tables(self._removes) if self._removes else pa.Table.from_batches([], FILE_SCHEMA),
            applications={transaction.app_id: transaction.version for transaction in self._transactions.values()},
            domains=frozenset(self._domains),
            writes_metadata=self._metadata is not None,
            writes_protocol=self._protocol is not None,
            is_exclusive=self.is_exclusive,
            dropped_features=self._dropped_features(snapshot.protocol),
        )

    def _dropped_features(self, before: Protocol) -> frozenset[str]:
        if self._protocol is None:
            return frozenset()
        return features.writer_features(before) - features.writer_features(self._protocol)

    def _isolation(self) -> IsolationLevel:
        if self.is_serializable:
            return IsolationLevel.SERIALIZABLE
        before = self._snapshot.metadata if self._snapshot is not None else None
        other_actions = self._metadata or self._protocol or self._transactions or self._domains
        changes_only_files = not (self._changes_data() or other_actions)
        return level_of(before, self._metadata, changes_only_files=changes_only_files, table=self._store.root)

    def _changes_data(self) -> bool:
        return any(_any_change(table) for table in (*self._adds, *self._removes))

    def _removes_rows(self) -> bool:
        return any(_any_change(table) for table in self._removes)


def _any_change(files: pa.Table) -> bool:
    return bool(pc.any(pc.fill_null(files["dataChange"], literal(True, pa.bool_())), min_count=0).as_py())
