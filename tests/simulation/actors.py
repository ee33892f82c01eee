"""Writers, readers and maintainers: the library's own transactions, on row lists instead of Parquet files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaError,
    InvalidArgumentError,
    ObjectNotFoundError,
    RetentionError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lakehouse_lib.expressions import Predicate, parse
from lakehouse_lib.log.checkpoint.part import UnreadableCheckpointError
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.upkeep.cleanup import cleanup
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.simulation.ledger import Ledger, Violation
from tests.simulation.operations import RowIds, Rows, derived
from tests.simulation.refusals import Attempt
from tests.simulation.row_files import read_rows, write_rows
from tests.simulation.store import SimulatedStore

SCHEMA = Schema.from_json(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in (("key", "long"), ("id", "string"), ("value", "long"))
            ],
        }
    )
)
KEYS = 3


class Actor:
    """One process that works on the table. Its verbs rely only on the library's guarantees.

    Args:
        name: unique among the actors.
        store: the actor's own store.
        ledger: gets every answer that the actor gets.

    Attributes:
        outcomes: the outcome of each verb, in a word.
        retries: for each verb in turn, how many races it may lose.
        snapshot: the open version; a process keeps it for a while.
        is_held: whether the next verb uses the open version, even if it is not the latest.
        begun: the number of all calls before the present verb.
    """

    def __init__(self, name: str, store: SimulatedStore, ledger: Ledger) -> None:
        self.name = name
        self.store = store
        self.ledger = ledger
        self.outcomes: list[str] = []
        self.retries: tuple[int | None, ...] = (None, None, 1)
        self.snapshot: Snapshot | None = None
        self.is_held = False
        self.begun = 0
        self._random = random.Random(0)
        self._operations = 0
        self._batch = 0
        self._made = 0

    def do(self, verb: str, seed: int | str) -> None:
        """Run one verb of ``VERBS``; the seed makes its choices."""
        self._random = random.Random(seed)
        self.attempt(verb, getattr(self, verb))

    def attempt(self, verb: str, work: Callable[[], None]) -> None:
        """Run a verb that may fail; an error without an explanation is a violation."""
        self.store.trouble = False
        self.begun = len(self.store.simulation.history)
        try:
            work()
        except DeltaError as error:
            if not (self.store.trouble or self._is_explained(error)):
                raise Violation(f"{self.name} runs {verb} and gets an error without a reason: {error!r}") from error
            if isinstance(error, TableNotFoundError):
                self.snapshot, self.is_held = None, False
            self.outcomes.append(f"{verb}: {type(error).__name__}")

    @property
    def was_ahead(self) -> bool:
        """Whether the actor's clock was ahead at any time since its present verb began."""
        return self.store.simulation.was_ahead(self.name, self.begun)

    def _is_explained(self, error: DeltaError) -> bool:
        """Whether other actors' commits, or the actor's own clock, explain the error."""
        snapshot = self.snapshot
        match error:
            case CommitFailedError():
                return True  # the ledger checks whether the conflict was real
            case RetentionError():
                return self.was_ahead
            case TableNotFoundError():
                return snapshot is not None and snapshot.metadata.id != self.ledger.table_id
            case VersionNotFoundError() | UnreadableCheckpointError():
                return snapshot is not None and not self._knows(snapshot, self.ledger.is_kept)
        return False

    @property
    def at_hand(self) -> Snapshot:
        """The open version, or else the latest."""
        if self.snapshot is None:
            self.snapshot = load_snapshot(self.store)
        return self.snapshot

    def create(self, configuration: Mapping[str, str]) -> None:
        create_table(self.store, SCHEMA, configuration=configuration)

    def create_if_absent(self, configuration: Mapping[str, str]) -> None:
        """Create the table, unless another actor was first."""
        try:
            self.create(configuration)
        except InvalidArgumentError:
            if not self.ledger.states:
                raise
            self.outcomes.append("somebody was first")
        else:
            self.outcomes.append("created")

    def append(self) -> None:
        self.change("append", self._opened(), rows=self._new_rows())

    def increment(self) -> None:
        self.change("increment", self._opened(), key=self._random.randrange(KEYS))

    def delete(self) -> None:
        self.change("delete", self._opened(), key=self._random.randrange(KEYS))

    def overwrite(self) -> None:
        self.change("overwrite", self._opened(), rows=self._new_rows())

    def insert(self) -> None:
        """Add rows that are computed from existing rows: an INSERT ... SELECT."""
        key = self._random.choice((*range(KEYS), None))
        self.change("insert", self._opened(), key=key, rows=self._new_rows())

    def compact(self) -> None:
        self.change("compact", self._opened())

    def deliver(self) -> None:
        """Append a batch of a stream once, however often it is tried."""
        rows = self._new_rows()
        transaction = Transaction(self.name, self._batch)
        for _ in range(self._random.choice((1, 2))):
            self.change("append", self._opened(), rows=rows, transaction=transaction)
        self._batch += 1

    def share(self) -> None:
        """Deliver a batch that other actors also deliver, all as one application."""
        snapshot = self._opened()
        written = snapshot.transactions.get("shared")
        batch = 0 if written is None else written.version + self._random.choice((0, 1))
        self.change("append", snapshot, rows=self._new_rows(), transaction=Transaction("shared", batch))

    def count(self) -> None:
        """Increase a counter in the table's properties."""
        self.change("count", self._opened())

    def checkpoint(self) -> None:
        checkpoint(self._opened())

    def tear(self) -> None:
        """Write a checkpoint with a store that keeps half of an object when its process crashes."""
        checkpoint(load_snapshot(self.store))
        path = self._random.choice(self.ledger.newest_checkpoint())
        self.ledger.torn(path)
        self.store.bucket.tear(path)

    def vacuum(self) -> None:
        with self.store.simulation.at_once(self.name):
            vacuum(load_snapshot(self.store), dry_run=False)

    def cleanup(self) -> None:
        with self.store.simulation.at_once(self.name):
            cleanup(load_snapshot(self.store), dry_run=False)

    def wait(self) -> None:
        """Wait until replaced files are older than the retention."""
        self.store.simulation.sleep_for_hours(self._random.choice((2, 2, 50)))

    def look(self) -> None:
        """Read a version, another one, and the first one again, as long as each is guaranteed to be readable."""
        latest = self._opened()
        version = self._random.randint(max(0, latest.version - 3), latest.version)
        self._read(latest)
        try:
            self._read(load_snapshot(self.store, version))
        except (VersionNotFoundError, UnreadableCheckpointError):
            if self._knows(latest, lambda _: self.ledger.is_kept(version)) and not self.store.trouble:
                raise
        self._read(latest)
        self._read(latest.update())

    def read_version(self, version: int) -> None:
        """Load a version from the log and compare its rows."""
        self._read(load_snapshot(self.store, version))

    def _opened(self) -> Snapshot:
        """A snapshot of the process: a version opened some time ago, the same one updated, or a new one.

        The latest version can always be opened, whatever was cleaned up meanwhile.
        """
        choice = self._random.random()
        if self.is_held:
            self.is_held = False
            assert self.snapshot is not None
            return self.snapshot
        try:
            if self.snapshot is None or choice < 0.4:
                self.snapshot = load_snapshot(self.store)
            elif choice < 0.7:
                self.snapshot = self.snapshot.update()
        except DeltaError as error:
            snapshot = self.snapshot
            is_replaced = snapshot is not None and snapshot.metadata.id != self.ledger.table_id
            if not (self.store.trouble or (is_replaced and isinstance(error, TableNotFoundError))):
                raise Violation(f"{self.name} cannot open the table: {error!r}") from error
            raise
        return self.snapshot

    def _read(self, snapshot: Snapshot) -> None:
        rows = self._rows(snapshot, snapshot.files)
        if rows is not None and self._knows(snapshot, lambda _: True):
            self.ledger.check_rows(snapshot.version, rows)

    def _knows(self, snapshot: Snapshot, is_so: Callable[[int], bool]) -> bool:
        """Whether the version belongs to the present table, and the condition is true for it."""
        return snapshot.metadata.id == self.ledger.table_id and is_so(snapshot.version)

    def change(
        self,
        kind: str,
        snapshot: Snapshot,
        *,
        key: int | None = None,
        rows: Rows | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        operation: dict[str, Any] = {"kind": kind, "id": f"{self.name} {self._operations}", "key": key, "rows": rows}
        operation["table"] = snapshot.metadata.id
        self._operations += 1
        with self.store.simulation.at_once(self.name):
            work = OptimisticTransaction(snapshot, self.store, kind.upper(), {})
            removes = self._planned(work, snapshot, operation)
            if removes is not None:
                retries = self._random.choice(self.retries)
                self._commit(work, Attempt(operation, snapshot.version, removes, transaction, retries))
            else:
                self.outcomes.append("nothing to do")

    def _planned(
        self, work: OptimisticTransaction, snapshot: Snapshot, operation: Mapping[str, Any]
    ) -> frozenset[str] | None:
        """Add the reads and writes to the transaction. Returns the removed files; None: there is nothing to write."""
        kind, key, written = operation["kind"], operation["key"], operation["rows"]
        removes = snapshot.files.slice(0, 0)
        ids: RowIds = {}
        if kind in ("increment", "delete"):
            predicate = _where(key)
            work.read(predicate)
            files = snapshot.prune(predicate)
            rows, ids = self._held(snapshot, files) or ({}, {})
            if not any(k == key for k, _ in rows.values()):
                return None
            removes = files
            # A changed row keeps its id and gets a new row commit version.
            ids = {name: (row, None if rows[name][0] == key else version) for name, (row, version) in ids.items()}
            written = {name: (k, v + (k == key)) for name, (k, v) in rows.items() if kind == "increment" or k != key}
        elif kind == "overwrite":
            work.read(None)
            removes = snapshot.files
        elif kind == "insert":
            work.read(None if key is None else _where(key))
            rows = self._rows(snapshot, snapshot.files if key is None else snapshot.prune(_where(key)))
            if rows is None:
                return None
            written = derived(operation, rows)
        elif kind == "compact":
            files = snapshot.files
            if len(files) < 2:
                return None
            removes = files.slice(self._random.randrange(len(files) - 1), 2)
            held = self._held(snapshot, removes)
            if held is None:
                return None
            written, ids = held
        elif kind == "count":
            counted = int(snapshot.configuration.get("simulated.count", 0)) + 1
            configuration = {**snapshot.configuration, "simulated.count": str(counted)}
            work.set_metadata(replace(snapshot.metadata, configuration=configuration))
        work.remove(removes, data_change=kind != "compact")
        if written:
            work.add(write_rows(self.store, written, ids, data_change=kind != "compact"), keeps_row_ids=True)
        return frozenset(removes["path"].to_pylist())

    def _commit(self, work: OptimisticTransaction, attempt: Attempt) -> None:
        operation = attempt.operation
        properties = CommitProperties(
            custom_metadata={"simulated": operation},
            app_transactions=(attempt.transaction,) if attempt.transaction else (),
            max_commit_retries=attempt.retries,
        )
        try:
            outcome = work.commit(properties)
        except DeltaError:
            self.ledger.refused(operation["id"])
            raise
        if isinstance(outcome, Committed):
            self.ledger.acknowledged(operation["id"], outcome.version)
            self.outcomes.append("committed")
        elif isinstance(outcome, Conflict):
            self.ledger.conflicted(attempt, outcome.error)
            self.outcomes.append(type(outcome.error).__name__)
        else:
            self.outcomes.append("unknown")  # the commit may exist or not; the log shows it

    def _new_rows(self) -> Rows:
        self._made += 2
        return {
            f"{self.name}-{self._made - number}": (self._random.randrange(KEYS), 0)
            for number in range(self._random.randint(1, 2))
        }

    def _rows(self, snapshot: Snapshot, files: pa.Table) -> Rows | None:
        """The rows of some of its files; None if the files are gone and may be gone."""
        held = self._held(snapshot, files)
        return None if held is None else held[0]

    def _held(self, snapshot: Snapshot, files: pa.Table) -> tuple[Rows, RowIds] | None:
        """The rows, with their ids if the table has row tracking."""
        try:
            return read_rows(self.store, files)
        except ObjectNotFoundError as error:
            if self._knows(snapshot, self.ledger.is_promised):
                raise Violation(f"version {snapshot.version} cannot be read: {error}") from error
            self.outcomes.append("vacuumed")
            return None


@cache
def _where(key: int) -> Predicate:
    return parse(f"key = {key}", SCHEMA)


#: The verbs of an actor, and how often of a hundred times each is chosen.
VERBS: dict[str, int] = {
    "append": 14,
    "increment": 16,
    "delete": 10,
    "insert": 12,
    "overwrite": 3,
    "compact": 8,
    "deliver": 8,
    "share": 5,
    "count": 3,
    "checkpoint": 5,
    "vacuum": 5,
    "cleanup": 3,
    "wait": 6,
    "look": 7,
}
