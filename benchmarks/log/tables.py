"""Tables with a log of any number of files and without data: a checkpoint as Spark writes it, and ten commits.

pyarrow writes the log in bounded memory, so that ten million files take minutes. The files of a checkpoint are in
random order, as after Spark's shuffle, so statistics of its row groups select nothing. The tables are made once.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.log.file_statistics import COLUMNS, ROWS_A_FILE, as_json, statistics

#: The checkpoint's version; ten commits follow, and those before are cleaned up.
CHECKPOINT = 100
COMMITS = 10
ADDS, REMOVES = 10, 5  # of each commit

_BATCH = 100_000
_ROW_GROUP = 200_000  # about 128 MB, as in Spark's writer
_PART = 1_000_000
START = 1_700_000_000_000
_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _MAP),
        ("createdTime", pa.int64()),
    ]
)
_DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])


class Shape(NamedTuple):
    """The shape of a table.

    Attributes:
        files: the number of files in the checkpoint; the ten commits add 100 and remove 50.
        partitioned: whether the table is partitioned by ``key``, with a file for each partition.
        parsed: whether the checkpoint has statistics as structs beside the JSON, which is Spark's default.
    """

    files: int
    partitioned: bool = False
    parsed: bool = True

    @property
    def name(self) -> str:
        kind = "partitions" if self.partitioned else "files" if self.parsed else "json-files"
        return f"log-{self.files}-{kind}"

    @classmethod
    def of(cls, name: str) -> Shape:
        """The shape with this ``name``, the name of the table's folder."""
        _, files, kind = name.split("-", 2)
        return cls(int(files), kind == "partitions", kind != "json-files")

    @property
    def live(self) -> int:
        """The number of files of the latest version."""
        return self.files + COMMITS * (ADDS - REMOVES)


def make(home: Path, shape: Shape) -> Path:
    """The table's folder below ``home``; a missing one is made."""
    table = home / shape.name
    if table.exists():
        return table
    unfinished = home / f"{shape.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    log = unfinished / "_delta_log"
    log.mkdir(parents=True)
    size = _write_checkpoint(log, shape)
    hint = {"version": CHECKPOINT, "size": shape.files + 2, "sizeInBytes": size, "numOfAddFiles": shape.files}
    if len(_parts(shape)) > 1:
        hint["parts"] = len(_parts(shape))
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    gone = _paths(shape, 0, COMMITS * REMOVES)
    for number in range(COMMITS):
        removed = gone[number * REMOVES : (number + 1) * REMOVES]
        write_commit(unfinished, shape, number, removed)
    unfinished.rename(table)
    return table


def write_commit(table: Path, shape: Shape, number: int, removed: list[str] | None = None) -> None:
    """Write commit ``number`` after the checkpoint, which adds ten files and removes the files ``removed``."""
    version = CHECKPOINT + 1 + number
    moment = START + shape.files + number * 60_000
    info = {"timestamp": moment, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "isBlindAppend": True}
    lines: list[dict[str, Any]] = [{"commitInfo": info}]
    for path in removed or []:
        lines.append({"remove": {"path": path, "deletionTimestamp": moment, "dataChange": True}})
    lines += add_lines(Shape(shape.files, shape.partitioned, False), shape.files + number * ADDS, ADDS)
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (table / "_delta_log" / f"{version:020d}.json").write_text(text + "\n")


def add_lines(shape: Shape, start: int, count: int) -> list[dict[str, Any]]:
    """The add actions of the files ``start`` to ``start + count``, as a commit has them."""
    rows = _adds(shape, start, count).to_pylist(maps_as_pydicts="strict")
    return [
        {"add": {**{key: value for key, value in row.items() if value is not None}, "dataChange": True}} for row in rows
    ]


def copy(source: Path, target: Path) -> Path:
    """A copy of the table by hard links; commits to it do not change the source."""
    shutil.rmtree(target, ignore_errors=True)
    log = target / "_delta_log"
    log.mkdir(parents=True)
    for path in (source / "_delta_log").rglob("*"):
        own = log / path.relative_to(source / "_delta_log")
        own.parent.mkdir(exist_ok=True)
        if path.name == "_last_checkpoint":
            shutil.copyfile(path, own)  # the only file that is overwritten
        elif path.is_file():
            own.hardlink_to(path)
    return target


def point(shape: Shape, share: float = 0.5) -> str:
    """A condition that selects one file, or one partition of a partitioned table, at this ``share`` of the table."""
    number = int(shape.files * share)
    return f"key = {number}" if shape.partitioned else f"id = {number * ROWS_A_FILE + ROWS_A_FILE // 2}"


def point_of_commit(shape: Shape, number: int) -> str:
    """A condition that selects a file of commit ``number`` after the checkpoint."""
    return point(shape, (shape.files + number * ADDS) / shape.files)


def _parts(shape: Shape) -> list[tuple[int, int]]:
    """The first file and the number of files of each part; a part has a million files at most."""
    starts = range(0, shape.files, _PART)
    return [(start, min(_PART, shape.files - start)) for start in starts]


def _write_checkpoint(log: Path, shape: Shape) -> int:
    parts = _parts(shape)
    size = 0
    for number, (start, count) in enumerate(parts, start=1):
        middle = f".{number:010d}.{len(parts):010d}" if len(parts) > 1 else ""
        path = log / f"{CHECKPOINT:020d}.checkpoint{middle}.parquet"
        with pq.ParquetWriter(path, _schema(shape), compression="snappy") as writer:
            for group in _groups(shape, start, count, with_metadata=number == 1):
                writer.write_table(group, row_group_size=_ROW_GROUP + 2)
        size += path.stat().st_size
    return size


def _groups(shape: Shape, start: int, count: int, *, with_metadata: bool) -> Iterator[pa.Table]:
    schema = _schema(shape)
    for first in range(start, start + count, _ROW_GROUP):
        end = min(first + _ROW_GROUP, start + count)
        tables = [
            _rows(schema, "add", _adds(shape, at, min(_BATCH, end - at)).to_struct_array())
            for at in range(first, end, _BATCH)
        ]
        if with_metadata and first == start:
            protocol = pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}], _PROTOCOL)
            tables = [
                _rows(schema, "protocol", protocol),
                _rows(schema, "metaData", pa.array([metadata(shape)], _METADATA)),
                *tables,
            ]
        yield pa.concat_tables(tables)


def _rows(schema: pa.Schema, name: str, actions: pa.Array | pa.ChunkedArray) -> pa.Table:
    columns = [actions if field.name == name else pa.nulls(len(actions), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _schema(shape: Shape) -> pa.Schema:
    add = pa.struct(list(_adds(shape, 0, 1).schema))
    return pa.schema(
        [
            ("txn", _TXN),
            ("add", add),
            ("remove", _REMOVE),
            ("metaData", _METADATA),
            ("protocol", _PROTOCOL),
            ("domainMetadata", _DOMAIN),
        ]
    )


def metadata(shape: Shape) -> dict[str, Any]:
    kinds = ["long", "long", "double", "date", "timestamp", "string"]
    columns = [*zip(COLUMNS, kinds, strict=True), *([("key", "integer")] if shape.partitioned else [])]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return {
        "id": "5f1c7e1c-6b1f-4b59-9df0-6f6f2f1f0c11",
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["key"] if shape.partitioned else [],
        "configuration": [],
        "createdTime": START,
    }


def _adds(shape: Shape, start: int, count: int) -> pa.Table:
    """The add actions of files ``start`` to ``start + count`` as in Spark's checkpoints; reproducible."""
    random = np.random.default_rng([11, start])
    numbers = _scattered(shape, np.arange(start, start + count))
    paths = _names(random, start, count)
    values = pa.nulls(count, _MAP)
    if shape.partitioned:
        keys = pa.array(numbers).cast(pa.string())
        paths = pc.binary_join_element_wise("key=", keys, "/", paths, "")
        values = _map("key", keys)
    else:
        values = pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), *(pa.array([], pa.string()),) * 2)
    structs = statistics(random, numbers)
    columns = {
        "path": paths,
        "partitionValues": values,
        "size": pa.array(random.integers(1 << 20, 1 << 27, count)),
        "modificationTime": pa.array(START + np.arange(start, start + count)),
        "dataChange": pa.repeat(pa.scalar(False), count),
        "tags": pa.nulls(count, _MAP),
        "deletionVector": pa.nulls(count, _VECTOR),
        "baseRowId": pa.nulls(count, pa.int64()),
        "defaultRowCommitVersion": pa.nulls(count, pa.int64()),
        "clusteringProvider": pa.nulls(count, pa.string()),
        "stats": as_json(structs),
    }
    if shape.parsed:
        columns["stats_parsed"] = structs
        if shape.partitioned:
            columns["partitionValues_parsed"] = pa.StructArray.from_arrays(
                [pa.array(numbers.astype(np.int32))], ["key"]
            )
    return pa.table(columns)


def _paths(shape: Shape, start: int, count: int) -> list[str]:
    """The paths of the first ``count`` files of a batch that starts at ``start``."""
    paths: list[str] = _adds(shape, start, min(_BATCH, shape.files))["path"].to_pylist()[:count]
    return paths


def _scattered(shape: Shape, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A permutation of the checkpoint's files; the files of the commits keep their order."""
    step = int(shape.files * 0.618) | 1
    while math.gcd(step, shape.files) != 1:
        step += 2
    return np.where(numbers < shape.files, numbers * step % shape.files, numbers)


def _names(random: np.random.Generator, start: int, count: int) -> pa.Array:
    """File names ``part-NNNNN-<uuid>-c000.snappy.parquet``, with the number of one of two hundred tasks."""
    task = (start + np.arange(count)) % 200
    digits = np.stack([task // 10**power % 10 for power in (4, 3, 2, 1, 0)], axis=1) + ord("0")
    parts = [
        _text(count, "part-"),
        digits,
        _text(count, "-"),
        _uuids(random, count),
        _text(count, "-c000.snappy.parquet"),
    ]
    text = np.ascontiguousarray(np.concatenate(parts, axis=1).astype(np.uint8))
    offsets = np.arange(count + 1, dtype=np.int32) * text.shape[1]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def _uuids(random: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    nibbles = random.integers(0, 16, (count, 32), dtype=np.uint8)
    nibbles[:, 12] = 4
    nibbles[:, 16] = 8
    hexadecimal = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    dash = _text(count, "-")
    ends = (0, 8, 12, 16, 20, 32)
    parts: list[np.ndarray[Any, Any]] = []
    for first, last in pairwise(ends):
        parts += [hexadecimal[:, first:last], dash]
    return np.concatenate(parts[:-1], axis=1)


def _text(count: int, text: str) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (count, len(text)))


def _map(key: str, values: pa.Array) -> pa.Array:
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.repeat(pa.scalar(key), len(values)), values)
