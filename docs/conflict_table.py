"""Write transactions.md's tables by running every pair of operations: ``python -m docs.conflict_table``.

A table of two partitions; one operation is planned, another one is committed, then the first one commits. The outcomes
of delta-spark are those of this library except for ``DIFFERENCES``, which ``make interop`` compares with delta-spark.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib.expressions import parse
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction

PAGE = Path(__file__).with_name("transactions.md")
LEVELS = ("Serializable", "WriteSerializable")
_BEGIN, _END = "<!-- from here: made by `make docs` -->\n", "<!-- up to here -->\n"

_COLUMNS = ("part", "string"), ("id", "long"), ("number", "long")
_MARK = "delta.identity.highWaterMark"
_IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True, _MARK: 20}
_FEATURES = frozenset({"appendOnly", "invariants", "identityColumns"})
_BOUNDS = {"a": (1, 10), "b": (11, 20)}


@dataclass(frozen=True)
class Operation:
    """One transaction, as data: another implementation can make the same of it.

    Attributes:
        name: commitInfo's operation.
        reads: conditions of the rows it depends on; None: the whole table.
        removes, adds: partitions; of the first all files, of the second a new one each.
        ids: the lowest and the highest id in the new files; None: those of the partition.
        data_change: False for a rearrangement of rows.
        application: also writes this application's first version.
        properties: sets these on the table.
        writes_metadata: writes the table's metadata even if it does not change.
        column: adds a column of this name.
        moves_mark: moves the high water mark of the identity column.
        feature: a writer feature that it adds to the protocol.
        is_exclusive: any other commit conflicts.
    """

    name: str
    reads: tuple[str | None, ...] = ()
    removes: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    ids: tuple[int, int] | None = None
    data_change: bool = True
    application: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    writes_metadata: bool = False
    column: str | None = None
    moves_mark: bool = False
    feature: str | None = None
    is_exclusive: bool = False

    @property
    def has_metadata(self) -> bool:
        return bool(self.properties) or self.column is not None or self.writes_metadata or self.moves_mark

    def begin(self, snapshot: Snapshot, label: str) -> OptimisticTransaction:
        """The transaction on ``snapshot``, not committed yet; ``label`` tells its files and columns from others'."""
        transaction = OptimisticTransaction(snapshot, snapshot.store, self.name, {})
        for sql in self.reads:
            transaction.read(None if sql is None else parse(sql, snapshot.schema))
        for part in self.removes:
            chosen = snapshot.prune(parse(f"part = '{part}'", snapshot.schema))
            transaction.remove(chosen, data_change=self.data_change)
        for part in self.adds:
            transaction.add(_files(self.new_file(label, part)))
        if self.application is not None:
            transaction.set_transaction(self.application, 1)
        if self.has_metadata:
            transaction.set_metadata(self.metadata(snapshot.metadata, label))
        if self.feature is not None:
            transaction.set_protocol(self.protocol(snapshot.protocol))
        transaction.is_exclusive = self.is_exclusive
        return transaction

    def new_file(self, label: str, part: str) -> dict[str, Any]:
        """The add action of its file in a partition; no data is ever read."""
        return _add_action(label, part, self.ids or _BOUNDS[part], data_change=self.data_change)

    def metadata(self, before: Metadata, label: str) -> Metadata:
        """The table's metadata after it."""
        schema = json.loads(before.schema_string)
        if self.moves_mark:
            schema["fields"][-1]["metadata"][_MARK] += 10
        if self.column is not None:
            schema["fields"].append(
                {"name": f"{self.column}_{label}", "type": "long", "nullable": True, "metadata": {}}
            )
        return replace(
            before, configuration={**before.configuration, **self.properties}, schema_string=json.dumps(schema)
        )

    def protocol(self, before: Protocol) -> Protocol:
        """The table's protocol after it."""
        names = {self.feature} if self.feature is not None else set()
        return replace(before, writer_features=(before.writer_features or frozenset()) | names)


OPERATIONS: Mapping[str, Operation] = {
    "append": Operation("WRITE", adds=("a",)),
    "numbered append": Operation("WRITE", adds=("a",), moves_mark=True),
    "append from a query of *a*": Operation("WRITE", reads=("part = 'a'",), adds=("a",)),
    "update *a*": Operation("UPDATE", reads=("part = 'a'",), removes=("a",), adds=("a",)),
    "update *b*": Operation("UPDATE", reads=("part = 'b'",), removes=("b",), adds=("b",)),
    "update id > 10": Operation("UPDATE", reads=("id > 10",), removes=("b",), adds=("b",)),
    "merge ids 1 to 5": Operation("MERGE", reads=("id >= 1 AND id <= 5",), removes=("a",), adds=("a",)),
    "merge new ids": Operation("MERGE", reads=("id >= 21 AND id <= 25",), adds=("b",), ids=(21, 25)),
    "replaceWhere *a*": Operation("WRITE", reads=("part = 'a'",), removes=("a",), adds=("a",)),
    "replacePartitions *a*": Operation("WRITE", reads=("part = 'a'",), removes=("a",), adds=("a",)),
    "overwrite": Operation("WRITE", reads=(None,), removes=("a", "b"), adds=("a",)),
    "restore": Operation(
        "RESTORE", reads=(None,), removes=("b",), adds=("a",), writes_metadata=True, is_exclusive=True
    ),
    "compact *a*": Operation("OPTIMIZE", removes=("a",), adds=("a",), data_change=False),
    "stream's batch": Operation("STREAMING UPDATE", adds=("b",), application="stream"),
    "set upkeep": Operation("SET TBLPROPERTIES", properties={"delta.checkpointInterval": "20"}),
    "set appendOnly": Operation("SET TBLPROPERTIES", properties={"delta.appendOnly": "true"}),
    "add a column": Operation("ADD COLUMNS", column="more"),
    "add a constraint": Operation(
        "ADD CONSTRAINT",
        reads=("id = 7",),
        properties={"delta.constraints.no_7": "id <> 7"},
        feature="checkConstraints",
    ),
    "upgrade protocol": Operation("UPGRADE PROTOCOL", feature="checkConstraints"),
}


_READERS = (
    "append from a query of *a*",
    "update *a*",
    "merge ids 1 to 5",
    "replaceWhere *a*",
    "replacePartitions *a*",
    "overwrite",
)
_CHANGES_OF_A = (*_READERS[:5], "compact *a*")
_CHANGES_OF_B = ("update *b*", "update id > 10")
#: Operations whose conflicts ``make interop`` does not compare: delta-spark commits a restore without a check of
#: conflicts, and fails with ConcurrentWriteException after any other commit.
UNCHECKED = ("restore",)


def _differences(level: str) -> dict[tuple[str, str], str]:
    """The outcomes of delta-spark that differ from those of this library, by the first and the second operation."""
    others = tuple(name for name in OPERATIONS if name not in UNCHECKED)
    ours = "numbered append", "set upkeep", "set appendOnly", "add a column", "add a constraint"
    appends_to_a = ("append", "numbered append") if level == "Serializable" else ()
    appends_to_b = ("stream's batch",) if level == "Serializable" else ()
    append, metadata = "ConcurrentAppendError", "MetadataChangedError"
    return {
        (winner, loser): spark_outcome
        for winners, losers, spark_outcome in (
            # A change of a maintenance property does not change what a concurrent transaction writes.
            (("set upkeep",), [name for name in others if name not in ours], metadata),
            # The files' statistics show that no such id was added or removed; delta-spark compares partitions.
            ((*_CHANGES_OF_A, "restore", *appends_to_a), ["update id > 10", "merge new ids"], append),
            ((*_CHANGES_OF_B, "overwrite", *appends_to_b), ["merge new ids"], append),
            ((*_CHANGES_OF_B, "merge new ids", *appends_to_b), ["merge ids 1 to 5"], append),
            ((*_CHANGES_OF_B, "merge new ids", "stream's batch"), ["add a constraint"], append),
            # The same conflict: a file that was read is removed, and its replacement may be found first.
            (("overwrite",), ["update id > 10"], append),
            (("compact *a*",), [*_READERS, "add a constraint"], append),
        )
        for winner in winners
        for loser in losers
    }


def _add_action(label: str, part: str, ids: tuple[int, int], *, data_change: bool = True) -> dict[str, Any]:
    low, high = ids
    stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    return {
        "path": f"part={part}/{label}.parquet",
        "partitionValues": {"part": part},
        "size": 10,
        "modificationTime": 1,
        "dataChange": data_change,
        "stats": json.dumps(stats),
    }


def create(folder: Path, level: str) -> Snapshot:
    """The table at its first version: a file in each partition."""
    store = LocalStore(str(folder), fsync=False)
    first = OptimisticTransaction(None, store, "CREATE TABLE", {})
    first.set_protocol(Protocol(1, 7, writer_features=_FEATURES))
    schema = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS]
    schema[-1]["metadata"] = _IDENTITY
    first.set_metadata(
        Metadata(
            "t",
            json.dumps({"type": "struct", "fields": schema}),
            partition_columns=("part",),
            configuration={"delta.isolationLevel": level},
        )
    )
    for part in _BOUNDS:
        first.add(_files(_add_action("first", part, _BOUNDS[part])))
    assert isinstance(first.commit(), Committed)
    return load_snapshot(store)


def outcome(folder: Path, level: str, winner: Operation, loser: Operation) -> str:
    """The error's name, or "" when both are committed."""
    snapshot = create(folder, level)
    late, early = loser.begin(snapshot, "late"), winner.begin(snapshot, "early")
    won = early.commit()
    assert isinstance(won, Committed), won
    result = late.commit()
    return type(result.error).__name__ if isinstance(result, Conflict) else ""


#: Level -> first and second operation -> delta-spark's outcome, if this library has another.
DIFFERENCES = {level: _differences(level) for level in LEVELS}


def _files(add: Mapping[str, Any]) -> pa.Table:
    row = {**add, "partitionValues": list(add["partitionValues"].items())}
    return pa.Table.from_pylist([row], schema=FILE_SCHEMA)


def tables() -> str:
    """The Markdown of both tables."""
    parts = []
    for level in LEVELS:
        rows = [f"\n### {level}\n"]
        rows.append("| first ↓, then → | " + " | ".join(OPERATIONS) + " |")
        rows.append("|---|" + "---|" * len(OPERATIONS))
        for name, winner in OPERATIONS.items():
            with tempfile.TemporaryDirectory() as folder:
                cells = [
                    _cell(
                        outcome(Path(folder, str(number)), level, winner, loser), DIFFERENCES[level].get((name, then))
                    )
                    for number, (then, loser) in enumerate(OPERATIONS.items())
                ]
            rows.append(f"| **{name}** | " + " | ".join(cells) + " |")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def _cell(outcome_here: str, spark_outcome: str | None) -> str:
    """The short name of an outcome, with delta-spark's in parentheses if it is another."""
    other = "" if spark_outcome is None else f"({_SHORT[spark_outcome]})"
    return " ".join(filter(None, (_SHORT[outcome_here], other)))


#: What a cell says.
_SHORT = {
    "": "",
    "CommitFailedError": "any",
    "ConcurrentAppendError": "append",
    "ConcurrentDeleteReadError": "read",
    "ConcurrentDeleteDeleteError": "delete",
    "ConcurrentTransactionError": "app",
    "MetadataChangedError": "meta",
    "ProtocolChangedError": "protocol",
}


def page() -> str:
    """The page with its tables made anew."""
    text = PAGE.read_text()
    head, tail = text.split(_BEGIN)[0], text.split(_END)[1]
    return f"{head}{_BEGIN}{tables()}\n{_END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page())
