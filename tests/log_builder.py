"""Logs made by hand from the protocol's text: schemas, actions, commits and data files.

An action is the dictionary of its JSON form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import DeltaTable
from lakehouse_lib.log import file_names
from lakehouse_lib.store import LocalStore
from tests.peers import collected

Action = dict[str, Any]


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    """A field of a schema in the log; ``physical`` and ``id`` are for column mapping."""
    noted = {
        "physical": "delta.columnMapping.physicalName",
        "id": "delta.columnMapping.id",
        "changes": "delta.typeChanges",
    }
    body = {noted.get(key, key): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": body}


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def protocol(*features: str, writer: Iterable[str] = ()) -> Action:
    """A protocol with versions 3 and 7 and these features; ``writer`` has the features for writers only."""
    lists = {"readerFeatures": sorted(features), "writerFeatures": sorted([*features, *writer])}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}}


def metadata(
    *fields: Mapping[str, Any],
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    **more: Any,
) -> Action:
    """The metadata of a table with these fields; ``more`` are further members of the action."""
    body = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct(*fields)),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
    }
    return {"metaData": body | more}


PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA = metadata(field("id", "long"))["metaData"]
SCHEMA = METADATA["schemaString"]


def add(path: str, **more: Any) -> Action:
    body = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
    return {"add": body | more}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | more}


def statistics(low: int, high: int, rows: int = 1) -> str:
    """The ``stats`` of a file whose column ``id`` has these bounds and no nulls."""
    return json.dumps({"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}})


def lines(*actions: Action | str) -> bytes:
    """The text of a commit: one line an action; a string is a line as it is."""
    return "\n".join(action if isinstance(action, str) else json.dumps(action) for action in actions).encode()


def put(table: Path | LocalStore, version: int, *actions: Action) -> LocalStore:
    """Put one commit; the first commit of a table gets ``PROTOCOL`` and ``METADATA`` if it has no own."""
    store = table if isinstance(table, LocalStore) else LocalStore(str(table), fsync=False)
    own = {kind for action in actions for kind in action}
    defaults: list[Action] = [{"protocol": PROTOCOL}, {"metaData": METADATA}] if version == 0 else []
    first = [action for action in defaults if not own & action.keys()]
    store.put(file_names.commit(version), lines(*first, *actions))
    return store


def edit(root: Path, version: int, change: Callable[[Action], object]) -> None:
    """Put a commit again, with ``change`` applied to each action."""
    file = root / file_names.commit(version)
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        change(action)
    file.write_bytes(lines(*actions))


def with_id(column: pa.Field, number: int) -> pa.Field:
    """The field with the field id that a writer puts into Parquet files."""
    return column.with_metadata({b"PARQUET:field_id": str(number).encode()})


def data_file(root: Path, path: str, rows: pa.Table, log_path: str | None = None, **how: Any) -> dict[str, Any]:
    """Write a data file and return the body of its ``add``.

    Args:
        how: ``partition``, its partition values; other arguments are those of the Parquet writer.
    """
    partition: Mapping[str, str | None] = how.pop("partition", {})
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file, **how)
    body: dict[str, Any] = add(
        log_path or path,
        partitionValues=dict(partition),
        size=file.stat().st_size,
        modificationTime=1_700_000_000_000,
        stats=json.dumps({"numRecords": rows.num_rows}),
    )["add"]
    return body


def add_of_row(store: LocalStore, path: str, value: int) -> Action:
    """Write a data file with one row, whose ``id`` is this value; returns its ``add`` with all statistics."""
    body = data_file(Path(store.root), path, pa.table({"id": [value]}))
    return add(path, size=body["size"], stats=statistics(value, value))


def put_table(
    root: Path,
    fields: Sequence[Mapping[str, Any]],
    adds: Iterable[Mapping[str, Any]],
    *,
    partition_by: Sequence[str] = (),
    features: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> Path:
    """Put version 0 of a table with these fields and files; returns the table's folder."""
    head = metadata(*fields, partition_by=partition_by, configuration=configuration)
    first = protocol(*features) if features else {"protocol": PROTOCOL}
    put(root, 0, first, head, *({"add": dict(body)} for body in adds))
    return root


class Log:
    """A table with one column ``id``, partitioned by ``part``, with a change data feed; tests put its commits."""

    def __init__(self, root: Path, *, partitioned: bool = False) -> None:
        self.root = root
        self.version = -1
        properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        fields = [field("id", "long"), field("part", "long")]
        self.commit(
            protocol("deletionVectors", writer=["changeDataFeed"]),
            metadata(*fields, partition_by=["part"] if partitioned else [], configuration=properties),
        )

    def commit(self, *actions: Action) -> None:
        self.version += 1
        put(self.root, self.version, *actions)

    def add(self, path: str, rows: int | None = 10, **more: Any) -> Action:
        stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows, "tightBounds": False})}
        return add(path, **{"size": (self.root / path).stat().st_size} | stats | more)

    def remove(self, path: str, **more: Any) -> Action:
        size = (self.root / path).stat().st_size
        return remove(path, **{"extendedFileMetadata": True, "partitionValues": {}, "size": size} | more)

    def file(self, path: str, ids: Iterable[int], **columns: list[Any]) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), self.root / path)
        return path

    def changes(self, engine: Any = None, **range_: Any) -> list[tuple[Any, ...]]:
        """The changes as sorted tuples (version, change, id, part)."""
        columns = ["_commit_version", "_change_type", "id", "part"]
        feed = DeltaTable(self.root, engine=engine).load_cdf(columns=columns, **range_)
        return sorted(tuple(row.values()) for row in collected(feed).to_pylist())
