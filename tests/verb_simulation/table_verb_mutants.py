"""Possible bugs of restores, constraints, identity columns, commits and pins, each put into the library for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log.retention import cleanup, file_records
from lakehouse_lib.log.retention.file_records import FileRecord
from lakehouse_lib.log.retention.pins import KIND
from lakehouse_lib.operations import replanning, restore
from lakehouse_lib.operations.alter import constraints
from lakehouse_lib.operations.dml import row_change
from lakehouse_lib.operations.dml.update import _Update
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.operations.optimize import compact
from lakehouse_lib.operations.optimize.deletion_vector_rebase import RebasedGroup
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.upkeep import pins
from lakehouse_lib.operations.upkeep.unneeded_files import recorded_files
from lakehouse_lib.operations.write import identity_values, write
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.deletion_vector import load
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction, Outcome
from lakehouse_lib.transaction.conflicts import checker as conflict_checker
from tests.simulation.hunting import Mutant, Patch, instead


def _reported_as_error(self: OptimisticTransaction, *arguments: Any) -> Outcome:
    outcome = _commit(self, *arguments)
    if isinstance(outcome, Committed) and self._store.trouble:  # type: ignore[attr-defined]
        raise StoreError("no answer", table=self._store.root)
    return outcome


_commit = OptimisticTransaction.commit


def _by_the_first_rules(
    self: _Update, snapshot: Snapshot, files: pa.Table, _metadata: Metadata | None
) -> row_change.MatchedRows:
    metadata = _first_metadata.setdefault(id(self), (self, snapshot.metadata))[1]
    return _match(self, snapshot, files, metadata)


_match = _Update.match
_first_metadata: dict[int, tuple[_Update, Metadata]] = {}


def _rules_skipped_on_retry() -> list[Patch]:
    return [(replanning, "find_change", lambda *_: None), (_Update, "match", _by_the_first_rules)]


def _or_a_new_constraint(before: Metadata, after: Metadata) -> bool:
    def without_constraints(metadata: Metadata) -> Metadata:
        others = {name: value for name, value in metadata.configuration.items() if "constraints" not in name}
        return replace(metadata, configuration=others)

    return _is_harmless(without_constraints(before), without_constraints(after))


_is_harmless = conflict_checker.is_harmless


def _without_reads(*arguments: Any, reads: object = (), **named: Any) -> OperationResult:
    return _commit_change(*arguments, **named)


_commit_change = constraints.commit_change


def _without_metadata(self: OptimisticTransaction, snapshot: Snapshot) -> conflict_checker.Attempt:
    return replace(_attempt(self, snapshot), writes_metadata=False, writes_protocol=False)


_attempt = OptimisticTransaction._attempt


def _beside_others(*arguments: Any, **named: Any) -> TableChange:
    return TableChange(*arguments, **{**named, "reads": (), "is_exclusive": False})


def _with_restored_rows_lost(store: ObjectStore, groups: Mapping[int, RebasedGroup]) -> dict[int, list[BitMap64]]:
    """The places of deleted rows, also if rows that were not copied are live again."""
    places = {}
    for number, group in groups.items():
        marks, start = BitMap64(), 0
        for (old, new), count in zip(group.vectors, live_records(group.copied).to_pylist(), strict=True):
            was, now = load(store, old), load(store, new)
            marks |= BitMap64([start + place - was.rank(place) for place in now - was])
            start += count
        places[number] = [marks][: len(group.added)]
    return places


def _vacuum_forgets_pins() -> list[Patch]:
    def without_pins(source: ObjectStore, records: Mapping[str, bytes]) -> dict[str, list[FileRecord]]:
        listed = file_records.list_records(source, records)
        return {kind: [] if kind == KIND else of_kind for kind, of_kind in listed.items()}

    return [(recorded_files, "file_records", SimpleNamespace(list_records=without_pins))]


TABLE_VERB_MUTANTS = (
    Mutant(
        "a restore does not conflict with concurrent commits",
        instead(restore, "TableChange", _beside_others),
        ("restore", "append", "delete"),
    ),
    Mutant(
        "compaction loses the rows that a concurrent restore has brought back by an older deletion vector",
        instead(compact, "positions_by_count", _with_restored_rows_lost),
        ("restore", "mark", "compact"),
    ),
    Mutant(
        "an update that is planned again follows the constraints of its first plan",
        _rules_skipped_on_retry,
        ("constrain", "update"),
    ),
    Mutant(
        "a new constraint does not conflict with concurrent writes",
        instead(conflict_checker, "is_harmless", _or_a_new_constraint),
        ("constrain", "append", "update"),
    ),
    Mutant(
        "a new constraint reads nothing, so it does not conflict with rows that violate it",
        instead(constraints, "commit_change", _without_reads),
        ("constrain", "append", "update"),
    ),
    Mutant(
        "changes of metadata do not conflict with each other",
        instead(OptimisticTransaction, "_attempt", _without_metadata),
        ("constrain", "alter", "unconstrain"),
    ),
    Mutant(
        "an append keeps the numbers of its identity column after a lost race",
        instead(identity_values, "_with_later_numbers", lambda files, *_: files),
        ("append", "merge"),
    ),
    Mutant(
        "an append does not move the high water mark of its identity column",
        instead(write, "with_high_water_marks", lambda metadata, *_: metadata),
        ("append", "merge"),
    ),
    Mutant(
        "a restore moves the high water mark of an identity column back",
        instead(restore, "with_marks_of", lambda schema_string, _: schema_string),
        ("restore", "append", "delete"),
    ),
    Mutant(
        "a successful commit is reported as an error after a fault of the store",
        instead(OptimisticTransaction, "commit", _reported_as_error),
        ("delete", "append"),
    ),
    Mutant("vacuum forgets the pins", _vacuum_forgets_pins, ("pin", "delete", "compact", "vacuum", "wait")),
    Mutant(
        "a pin is not checked after it is written, so a running vacuum deletes its files",
        instead(pins, "_check_kept", lambda *_, **__: None),
        ("pin", "delete", "compact", "vacuum", "wait"),
    ),
    Mutant(
        "an expired version is pinned while a log cleanup deletes it",
        instead(pins, "_check_unexpired", lambda *_: None),
        ("pin", "append", "checkpoint", "cleanup", "days"),
    ),
    Mutant(
        "a log cleanup forgets the pins",
        instead(cleanup, "oldest_pinned", lambda _: None),
        ("pin", "append", "checkpoint", "cleanup", "days"),
    ),
)
