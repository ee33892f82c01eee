"""Small tables to corrupt: golden tables of Spark, tables of delta-rs, and tables written by hand.

Together they have every kind of log object: commits, checkpoints, deletion vectors, column mapping, partitions.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from tests.deletion_vector_bytes import in_file, inline
from tests.log_builder import data_file, field, lines, metadata, protocol, put, struct
from tests.table_builder import longs

_DATA = Path(__file__).parents[1] / "data"
#: Some of the golden tables; of two similar tables, the smaller one.
_GOLDEN = (
    "basic-decimal-table",
    "basic-with-inserts-deletes-checkpoint",
    "basic-with-inserts-merge",
    "basic-with-inserts-overwrite-restore",
    "data-reader-array-complex-objects",
    "data-reader-date-types-utc",
    "data-reader-map",
    "data-reader-nested-struct",
    "data-reader-primitives",
    "data-skipping-basic-stats-all-types",
    "data-skipping-partition-and-data-column",
    "snapshot-data2-deleted",
    "snapshot-repartitioned",
)
_LARGEST = 300_000  # bytes of a table; each input copies what it corrupts, and readers need time


def build(folder: Path) -> list[Path]:
    """Create the tables below ``folder`` unless they exist, and return their paths."""
    done = folder / ".done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _GOLDEN:
            _copy(_DATA / "golden" / name / "delta", folder / f"golden-{name}")
        for log in sorted(_DATA.glob("delta_spark/**/_delta_log")):
            name = str(log.parent.relative_to(_DATA / "delta_spark")).replace("/", "-")
            _copy(log.parent, folder / f"delta_spark-{name}")
        for make in (_appended, _partitioned, _checkpointed, _change_feed):
            make(folder / f"delta-rs-{make.__name__[1:]}")
        for make in (_vectors, _mapped, _void, _sidecars, _compacted):
            make(folder / f"hand-{make.__name__[1:]}")
        done.touch()
    return sorted(log.parent for log in folder.glob("*/_delta_log"))


def _copy(source: Path, target: Path) -> None:
    files = [file for file in source.rglob("*") if file.is_file()]
    if sum(file.stat().st_size for file in files) <= _LARGEST:
        shutil.copytree(source, target)


def _rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([None if i % 5 == 0 else f"t{i} é" for i in ids]),
            "day": pa.array([dt.date(2020, 1, 1 + i % 28) for i in ids]),
            "moment": pa.array([dt.datetime(2020, 1, 1, i % 24, 0, 0, i) for i in ids], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(i) / 4 for i in ids], pa.decimal128(10, 2)),
            "part": pa.array([None if i % 4 == 3 else f"p {i % 4}" for i in ids]),
        }
    )


def _appended(root: Path) -> None:
    for start in (0, 5):
        deltalake.write_deltalake(root, _rows(start, 5), mode="append")
    deltalake.DeltaTable(root).delete("id = 3")


def _partitioned(root: Path) -> None:
    for start in (0, 6):
        deltalake.write_deltalake(root, _rows(start, 6), mode="append", partition_by=["part", "day"])


def _checkpointed(root: Path) -> None:
    for start in range(0, 8, 2):
        deltalake.write_deltalake(root, _rows(start, 2), mode="append", partition_by=["part"])
        if start == 4:
            deltalake.DeltaTable(root).delete("id = 1")
            deltalake.DeltaTable(root).create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020d}.json").unlink()


def _change_feed(root: Path) -> None:
    deltalake.write_deltalake(root, _rows(0, 5), configuration={"delta.enableChangeDataFeed": "true"})
    deltalake.DeltaTable(root).update({"text": "'new'"}, predicate="id < 2")


def _first(*fields: dict[str, Any], features: tuple[str, ...], properties: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}},
        protocol(*features),
        metadata(
            *fields, configuration=properties, id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9", createdTime=1_700_000_000_000
        ),
    ]


def _file(root: Path, name: str, rows: pa.Table, **more: Any) -> dict[str, Any]:
    return {"add": data_file(root, name, rows) | more}


def _removed(added: dict[str, Any]) -> dict[str, Any]:
    return {"remove": added["add"] | {"deletionTimestamp": 1_700_000_001_000, "extendedFileMetadata": True}}


_ID = field("id", "long")


def _vectors(root: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    first = [_file(root, f"{n}.parquet", longs(id=range(n, n + 5))) for n in (0, 10, 20)]
    put(root, 0, *_first(_ID, features=("deletionVectors",), properties=properties), *first)
    (stored,) = in_file(root, [0, 2])
    again = [
        {"add": first[0]["add"] | {"deletionVector": stored}},
        {"add": first[1]["add"] | {"deletionVector": inline([1, 4])}},
    ]
    put(root, 1, *again, _removed(first[0]), _removed(first[1]))


def _mapped(root: Path) -> None:
    def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
        return field(name, kind, id=number, physical=f"col-{number}")

    inner = struct(mapped("b", "string", 3))
    data = pa.table(
        {
            "col-1": pa.array([1, 2, None], pa.int64()),
            "col-2": pa.array([{"col-3": "x"}, None, {"col-3": None}], pa.struct([("col-3", pa.string())])),
        }
    )
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    stats = json.dumps(
        {"numRecords": 3, "minValues": {"col-1": 1}, "maxValues": {"col-1": 2}, "nullCount": {"col-1": 1}}
    )
    head = _first(mapped("a b", "long", 1), mapped("s", inner, 2), features=("columnMapping",), properties=properties)
    put(root, 0, *head, _file(root, "a%20b.parquet", data, path="a%2520b.parquet", stats=stats))
    renamed = _first(mapped("a", "long", 1), mapped("s", inner, 2), features=("columnMapping",), properties=properties)
    put(root, 1, renamed[2])


def _void(root: Path) -> None:
    nothing = field("nothing", "void")
    put(root, 0, *_first(_ID, nothing, features=(), properties={}), _file(root, "0.parquet", longs(id=[1, 2])))


def _sidecars(root: Path) -> None:
    """Write a v2 checkpoint as JSON with one sidecar, and delete its commits."""
    files = [_file(root, f"{n}.parquet", longs(id=[n, n + 1])) for n in (0, 10)]
    folder = root / "_delta_log" / "_sidecars"
    folder.mkdir(parents=True)
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    )
    bodies = [action["add"] | {"partitionValues": []} for action in files]
    name = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet"
    pq.write_table(pa.table({"add": pa.array(bodies, kind)}), folder / name)
    sidecar = {"path": name, "sizeInBytes": (folder / name).stat().st_size, "modificationTime": 1_700_000_000_000}
    head = _first(_ID, features=("v2Checkpoint",), properties={"delta.checkpointPolicy": "v2"})
    actions = [{"checkpointMetadata": {"version": 1}}, *head[1:], {"sidecar": sidecar}]
    checkpoint = "00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (root / "_delta_log" / checkpoint).write_bytes(lines(*actions))
    put(root, 2, head[0], _file(root, "20.parquet", longs(id=[20])))


def _compacted(root: Path) -> None:
    files = [_file(root, f"{n}.parquet", longs(id=[n])) for n in range(4)]
    head = _first(_ID, features=(), properties={})
    put(root, 0, *head, files[0])
    put(root, 1, files[1], files[2])
    put(root, 2, _removed(files[1]), files[3])
    name = "00000000000000000001.00000000000000000002.compacted.json"
    (root / "_delta_log" / name).write_bytes(lines(files[2], files[3], _removed(files[1])))
