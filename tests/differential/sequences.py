"""Random sequences of verbs, run by this library on one table and by delta-rs on another; the rows stay equal.

A sequence is a function of its seed. delta-rs runs each verb first. A verb that it refuses is recorded and left out.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from tests.peers import duckdb_delta, plain, read_delta_rs, read_duckdb

#: Features of this library's table; delta-rs' own table has none of them.
FEATURES: list[dict[str, str]] = [
    {},
    {"delta.enableDeletionVectors": "true"},
    {"delta.columnMapping.mode": "name"},
    {"delta.enableRowTracking": "true"},
    {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
    {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
]
KINDS = {"id": pa.int64(), "part": pa.string(), "name": pa.string(), "amount": pa.float64(), "day": pa.date32()}
PARTS = ["a", "b", "c/d e", None]
CONDITIONS = [
    "id < 40",
    "id >= 100 AND id < 140",
    "id IN (3, 5, 77, 120)",
    "part = 'a'",
    "part IS NULL",
    "name LIKE 'n1%'",
    "amount > 10.5",
    "amount IS NULL OR id = 7",
    "day >= '2024-03-01'",
    "id % 7 = 2",
]
VALUES = [
    {"amount": "amount * 2"},
    {"name": "name || '+' || part"},
    {"part": "'b'"},
    {"id": "id + 1", "amount": "amount - 1"},
    {"name": "coalesce(name, 'none')", "day": "CAST('2024-05-05' AS DATE)"},
]
CLAUSES: list[tuple[str, dict[str, Any]]] = [
    ("when_matched_update_all", {}),
    ("when_matched_update", {"updates": {"amount": "target.amount + source.amount"}}),
    ("when_matched_update", {"updates": {"name": "source.name"}, "predicate": "source.amount > 20"}),
    ("when_matched_delete", {"predicate": "source.id % 3 = 0"}),
    ("when_matched_delete", {}),
    ("when_not_matched_insert_all", {}),
    ("when_not_matched_insert_all", {"predicate": "source.id < 150"}),
    ("when_not_matched_insert", {"updates": {"id": "source.id", "part": "source.part"}}),
    ("when_not_matched_by_source_delete", {"predicate": "target.id % 11 = 1"}),
    ("when_not_matched_by_source_update", {"updates": {"amount": "0.0"}, "predicate": "target.id % 13 = 2"}),
]
#: Conditions for which the data of a replaceWhere is made, with the values that make them true.
REPLACED: list[tuple[str, dict[str, Any]]] = [
    ("part = 'a'", {"part": "a"}),
    ("id >= 60 AND id < 80", {"id": range(60, 80)}),
    ("part = 'b' AND id < 30", {"part": "b", "id": range(30)}),
    ("name = 'n5'", {"name": "n5"}),
]
VERBS = [
    "append",
    "wider append",
    "delete",
    "update",
    "merge",
    "replace",
    "overwrite",
    "compact",
    "z_order",
    "checkpoint",
    "restore",
    "vacuum",
]


@dataclass
class Outcome:
    """The result of a sequence.

    Attributes:
        verbs: how often each verb was run.
        refused: how often delta-rs refused each verb, with the beginning of its error.
        difference: the first difference; "": there is none.
    """

    verbs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    difference: str = ""


def run_sequence(
    seed: int,
    folder: Path,
    connection: duckdb.DuckDBPyConnection,
    *,
    steps: int = 12,
    engine: Engine | None = None,
) -> Outcome:
    """Run a sequence in an empty folder, and compare the rows after each verb."""
    run = _Run(seed, folder, engine)
    outcome = Outcome()
    done: list[str] = []
    for _ in range(steps):
        name, verb = run.next_verb()
        done.append(name)
        try:
            verb(run.peer, False)
        except Exception as error:  # delta-rs has no common class for refusals
            text = re.sub(r"\d+", "N", str(error))[:80]
            outcome.refused[f"{re.split(r'[ (]', name)[0]}: {text}"] += 1
            done[-1] += " (refused by delta-rs)"
            continue
        try:
            verb(run.own, True)
        except Exception as error:
            outcome.difference = f"only this library refuses: {error!r}"
        outcome.verbs[name.partition("(")[0].strip()] += 1
        outcome.difference = outcome.difference or run.difference(connection)
        if outcome.difference:
            outcome.difference = f"seed {seed}, {run.title}: {'; '.join(done)}: {outcome.difference}"
            return outcome
        run.note_versions()
    return outcome


def run_sequences(seeds: range, steps: int) -> list[Outcome]:
    """Run the sequences of some seeds, each in a folder of its own."""
    outcomes = []
    with duckdb_delta() as connection:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="lakehouse-differential-") as folder:
                outcomes.append(run_sequence(seed, Path(folder), connection, steps=steps))
    return outcomes


class _Run:
    """Both tables, and the random choices of a sequence."""

    def __init__(self, seed: int, folder: Path, engine: Engine | None) -> None:
        self.own, self.peer = folder / "own", folder / "peer"
        self._engine = engine
        self._chance = random.Random(seed)
        self._extra = 0
        partition_by = self._chance.choice([None, ["part"]])
        features = self._chance.choice(FEATURES)
        self.title = f"partition_by={partition_by}, {features}"
        self._is_read_by_delta_rs = features == {}
        # DuckDB shows NULL for partition columns of tables that were created with column mapping (docs/interop.md).
        self._is_read_by_duckdb = partition_by is None or "delta.columnMapping.mode" not in features
        first = self._rows(KINDS)
        deltalake.write_deltalake(self.peer, first, partition_by=partition_by)
        write_deltalake(self.own, first, partition_by=partition_by, configuration=features, engine=engine)
        self._versions: list[tuple[int, int]] = []
        self.note_versions()

    def note_versions(self) -> None:
        self._versions.append((self._table().version(), deltalake.DeltaTable(self.peer).version()))

    def difference(self, connection: duckdb.DuckDBPyConnection) -> str:
        """The difference between the tables, or between the readers of this library's table; "": they are equal."""
        own = plain(self._table().to_pyarrow_table())
        expected = read_delta_rs(self.peer).select(own.column_names)
        own_rows, peer_rows = (Counter(map(repr, table.to_pylist())) for table in (own, expected))
        if own_rows != peer_rows:
            return f"only here {_some(own_rows - peer_rows)}, only in delta-rs' table {_some(peer_rows - own_rows)}"
        if self._is_read_by_duckdb and not read_duckdb(self.own, connection=connection).equals(own):
            return "DuckDB reads other rows"
        if self._is_read_by_delta_rs and not read_delta_rs(self.own).equals(own):
            return "delta-rs reads other rows of this library's table"
        peer_rows_here = plain(DeltaTable(self.peer).to_pyarrow_table().select(own.column_names))
        return "" if peer_rows_here.equals(own) else "this library reads other rows of delta-rs' table"

    def next_verb(self) -> tuple[str, Callable[[Path, bool], None]]:
        """The next verb with its arguments as text, and a function that runs it on a table."""
        chance = self._chance
        verb = chance.choice(VERBS)
        if verb in ("append", "overwrite"):
            return self._write(verb, {}, mode=verb)
        if verb == "wider append":
            self._extra += 1
            return self._write(verb, {f"extra{self._extra}": pa.int64()}, mode="append", schema_mode="merge")
        if verb == "replace":
            condition, values = chance.choice(REPLACED)
            name, run = self._write(verb, {}, values, mode="overwrite", predicate=condition)
            return f"{name} {condition}", run
        if verb == "merge":
            return self._merge()
        if verb == "restore":
            return self._restore()
        condition = chance.choice([None, *CONDITIONS])
        values = chance.choice(VALUES)
        arguments = {"delete": f"({condition})", "update": f"({values}, {condition})"}.get(verb, "")

        def run(root: Path, is_own: bool) -> None:
            table = self._table() if is_own else deltalake.DeltaTable(root)
            if verb == "delete":
                table.delete(condition)
            elif verb == "update":
                table.update(values, predicate=condition)
            elif verb == "compact":
                table.optimize.compact()
            elif verb == "z_order":
                table.optimize.z_order(["id"])
            elif verb == "checkpoint":
                table.create_checkpoint()
            else:
                table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
                if is_own:
                    self._versions.clear()  # data files of older versions do not exist any more

        return f"{verb}{arguments}", run

    def _write(
        self, verb: str, more: dict[str, pa.DataType], values: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, Callable[[Path, bool], None]]:
        data = self._rows(self._kinds() | more, values or {})

        def run(root: Path, is_own: bool) -> None:
            if is_own:
                write_deltalake(root, data, engine=self._engine, **options)
            else:
                deltalake.write_deltalake(root, data, **options)

        return f"{verb}({len(data)} rows)", run

    def _merge(self) -> tuple[str, Callable[[Path, bool], None]]:
        chance = self._chance
        clauses = chance.sample(CLAUSES, chance.randint(1, 4))
        condition = "target.id = source.id" + chance.choice(["", "", " AND target.part = 'a'", " AND target.id < 90"])
        ids = chance.sample(range(200), chance.choice([0, 1, 20]))
        rows = self._rows(self._kinds(), {"id": ids}, count=len(ids))

        def run(root: Path, is_own: bool) -> None:
            table = self._table() if is_own else deltalake.DeltaTable(root)
            merger = table.merge(rows, condition, source_alias="source", target_alias="target")
            for method, arguments in clauses:
                merger = getattr(merger, method)(**arguments)
            merger.execute()

        return f"merge({condition}, {clauses}, ids {ids})", run

    def _restore(self) -> tuple[str, Callable[[Path, bool], None]]:
        own, peer = self._chance.choice(self._versions) if self._versions else (self._table().version(), None)

        def run(root: Path, is_own: bool) -> None:
            if is_own:
                self._table().restore(own)
            elif peer is not None:
                deltalake.DeltaTable(root).restore(peer)

        return f"restore({own})", run

    def _table(self) -> DeltaTable:
        return DeltaTable(self.own, engine=self._engine)

    def _kinds(self) -> dict[str, pa.DataType]:
        return {name: KINDS.get(name, pa.int64()) for name in self._table().schema().names}

    def _rows(self, kinds: dict[str, pa.DataType], values: dict[str, Any] | None = None, count: int = -1) -> pa.Table:
        """Random rows; ``values`` has a value, or the values to choose from, for some columns."""
        chance = self._chance
        count = count if count >= 0 else chance.choice([0, 1, 30, 60])
        columns = {}
        for name, kind in kinds.items():
            choice = (values or {}).get(name)
            if isinstance(choice, list):
                column: list[Any] = choice
            elif isinstance(choice, range):
                column = [chance.choice(choice) for _ in range(count)]
            elif choice is not None:
                column = [choice] * count
            else:
                column = [self._value(name) for _ in range(count)]
            columns[name] = pa.array(column, kind)
        return pa.table(columns)

    def _value(self, name: str) -> Any:
        chance = self._chance
        if name == "id":
            return chance.randrange(200)
        if chance.random() < 0.1:
            return None
        if name == "part":
            return chance.choice(PARTS)
        if name == "name":
            return f"n{chance.randrange(20)}"
        if name == "amount":
            return chance.randrange(80) / 2
        return chance.randrange(19_700, 19_900) if name == "day" else chance.randrange(9)


def _some(rows: Counter[str]) -> str:
    return f"{rows.total()} rows, {sorted(rows)[:2]} among them"
