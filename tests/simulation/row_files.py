"""The data files of the simulation: JSON objects of rows instead of Parquet files."""

from __future__ import annotations

import json
import time
import uuid

import pyarrow as pa

from lakehouse_lib.arrow import values as arrow_values
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from tests.simulation.operations import RowIds, Rows, row_ids
from tests.simulation.store import SimulatedStore

_EMPTY_ADD = {field.name: pa.nulls(1, field.type) for field in FILE_SCHEMA}
_EMPTY_ADD["partitionValues"] = arrow_values.column([{}], FILE_SCHEMA.field("partitionValues").type)


def write_rows(store: SimulatedStore, rows: Rows, ids: RowIds, *, data_change: bool) -> pa.Table:
    """Write a data file, and return its row of a files table.

    Args:
        ids: row ids and row commit versions that are stored in the file.
    """
    path = f"part-{uuid.uuid4()}.parquet"
    data = json.dumps({name: (*row, *ids.get(name, ())) for name, row in rows.items()}).encode()
    store.put(path, data)
    keys = [key for key, _ in rows.values()]
    stats = {
        "numRecords": len(rows),
        "minValues": {"key": min(keys)},
        "maxValues": {"key": max(keys)},
        "nullCount": {"key": 0},
    }
    add = {
        "path": path,
        "size": len(data),
        "modificationTime": int(time.time() * 1000),
        "dataChange": data_change,
        "stats": json.dumps(stats),
    }
    columns = {name: arrow_values.column([value], FILE_SCHEMA.field(name).type) for name, value in add.items()}
    return pa.Table.from_arrays(list((_EMPTY_ADD | columns).values()), schema=FILE_SCHEMA)


def read_rows(store: SimulatedStore, files: pa.Table) -> tuple[Rows, RowIds]:
    """The rows of a files table, with their ids if the table has row tracking.

    Raises:
        ObjectNotFoundError: a file does not exist.
    """
    rows: dict[str, tuple[int, int]] = {}
    ids: dict[str, tuple[int, int | None]] = {}
    columns = (files[name].to_pylist() for name in ("path", "baseRowId", "defaultRowCommitVersion"))
    for path, base, version in zip(*columns, strict=True):
        content = json.loads(store.read(path))
        rows |= {name: (key, value) for name, (key, value, *_) in content.items()}
        if base is not None:
            ids |= row_ids(content, base, version)
    return rows, ids
