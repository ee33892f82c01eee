"""Write transactions.md's tables by running every pair of operations: ``python -m docs.conflict_table``.

A table of two partitions; one operation is planned, another one is committed, then the first one commits.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.actions import FILE_SCHEMA, Metadata, Protocol
from lakehouse_lib.predicates import parse
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction

PAGE = Path(__file__).with_name("transactions.md")
LEVELS = ("Serializable", "WriteSerializable")
_BEGIN, _END = "<!-- from here: made by `make docs` -->\n", "<!-- up to here -->\n"

_COLUMNS = ("part", "string"), ("id", "long")
_BOUNDS = {"a": (1, 10), "b": (11, 20)}


def begin(snapshot: Snapshot, operation: str) -> OptimisticTransaction:
    return OptimisticTransaction(snapshot, snapshot.store, operation, {})


def new_file(name: str, part: str, *, data_change: bool = True) -> pa.Table:
    """A file of partition ``part``; no data is ever read."""
    low, high = _BOUNDS[part]
    stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    row = {
        "path": f"part={part}/{name}.parquet",
        "partitionValues": [("part", part)],
        "size": 10,
        "modificationTime": 1,
        "dataChange": data_change,
        "stats": json.dumps(stats),
    }
    return pa.Table.from_pylist([row], schema=FILE_SCHEMA)


def _append(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "WRITE")
    transaction.add(new_file(name, "a"))
    return transaction


def _append_what_was_read(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "WRITE")
    transaction.read(parse("part = 'a'", snapshot.schema))
    transaction.add(new_file(name, "a"))
    return transaction


def _update(snapshot: Snapshot, name: str, sql: str, part: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "UPDATE")
    predicate = parse(sql, snapshot.schema)
    transaction.read(predicate)
    transaction.remove(snapshot.prune(predicate))
    transaction.add(new_file(name, part))
    return transaction


def _overwrite(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "WRITE")
    transaction.read(None)
    transaction.remove(snapshot.files)
    transaction.add(new_file(name, "a"))
    return transaction


def _compact(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "OPTIMIZE")
    transaction.remove(snapshot.prune(parse("part = 'a'", snapshot.schema)), data_change=False)
    transaction.add(new_file(name, "a", data_change=False))
    return transaction


def _batch(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "STREAMING UPDATE")
    transaction.add(new_file(name, "b"))
    transaction.set_transaction("stream", 1)
    return transaction


def _set(snapshot: Snapshot, key: str, value: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "SET TBLPROPERTIES")
    before = snapshot.metadata
    transaction.set_metadata(replace(before, configuration={**before.configuration, key: value}))
    return transaction


def _add_column(snapshot: Snapshot, name: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "ADD COLUMNS")
    schema = json.loads(snapshot.metadata.schema_string)
    schema["fields"].append({"name": name, "type": "long", "nullable": True, "metadata": {}})
    transaction.set_metadata(snapshot.metadata.with_schema(json.dumps(schema)))
    return transaction


def _upgrade(snapshot: Snapshot, _: str) -> OptimisticTransaction:
    transaction = begin(snapshot, "UPGRADE PROTOCOL")
    transaction.set_protocol(replace(snapshot.protocol, min_writer_version=3))
    return transaction


Operation = Callable[[Snapshot, str], OptimisticTransaction]
OPERATIONS: Mapping[str, Operation] = {
    "append": _append,
    "append from a query of *a*": _append_what_was_read,
    "update *a*": lambda snapshot, name: _update(snapshot, name, "part = 'a'", "a"),
    "update *b*": lambda snapshot, name: _update(snapshot, name, "part = 'b'", "b"),
    "update id > 10": lambda snapshot, name: _update(snapshot, name, "id > 10", "b"),
    "overwrite": _overwrite,
    "compact *a*": _compact,
    "stream's batch": _batch,
    "set upkeep": lambda snapshot, _: _set(snapshot, "delta.checkpointInterval", "20"),
    "set appendOnly": lambda snapshot, _: _set(snapshot, "delta.appendOnly", "true"),
    "add a column": _add_column,
    "upgrade protocol": _upgrade,
}


def outcome(folder: Path, level: str, winner: Operation, loser: Operation) -> str:
    """The error's name, or "" when both are committed."""
    store = LocalStore(str(folder), fsync=False)
    first = OptimisticTransaction(None, store, "CREATE TABLE", {})
    first.set_protocol(Protocol(1, 2))
    schema = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS]
    first.set_metadata(
        Metadata(
            "t",
            json.dumps({"type": "struct", "fields": schema}),
            partition_columns=("part",),
            configuration={"delta.isolationLevel": level},
        )
    )
    for part in _BOUNDS:
        first.add(new_file("first", part))
    assert isinstance(first.commit(), Committed)
    snapshot = load_snapshot(store)
    late, early = loser(snapshot, "late"), winner(snapshot, "early")
    won = early.commit()
    assert isinstance(won, Committed), won
    result = late.commit()
    return type(result.error).__name__ if isinstance(result, Conflict) else ""


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
                    _SHORT[outcome(Path(folder, str(number)), level, winner, loser)]
                    for number, loser in enumerate(OPERATIONS.values())
                ]
            rows.append(f"| **{name}** | " + " | ".join(cells) + " |")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


#: What a cell says.
_SHORT = {
    "": "",
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
