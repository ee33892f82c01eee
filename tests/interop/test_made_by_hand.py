"""Logs that no available writer creates, made from the protocol's text: both engines agree.

DuckDB (delta-kernel-rs) must agree if it can read the table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import LogCorruptedError
from tests.deletion_vector_bytes import in_file, inline
from tests.log_builder import Action, array, data_file, field, lines, mapping, metadata, protocol, put, remove, struct
from tests.peers import read_duckdb, read_engine
from tests.table_builder import longs

MODIFIED = 1_700_000_000_000
UUIDS = ["80a083e8-7026-4e79-81be-64bd76c43a11", "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"]


def put_named(root: Path, name: str, actions: Sequence[Action]) -> None:
    """Put a log object that is not a commit."""
    file = root / "_delta_log" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lines(*actions))


def removal(added: Mapping[str, Any], path: str | None = None) -> Action:
    """The remove of a file with its deletion vector, optionally under another path."""
    vector = {name: added[name] for name in ("deletionVector",) if name in added}
    return remove(path or added["path"], deletionTimestamp=MODIFIED, **vector)


def ids(root: Path, path: str, *values: int | None, log_path: str | None = None, **how: Any) -> dict[str, Any]:
    return data_file(root, path, longs(id=values), log_path, **how)


def read(root: Path, engine: Engine, version: int | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_engine(engine, root, version=version).to_pylist()
    return rows


def ids_of(root: Path, engine: Engine, version: int | None = None) -> list[int | None]:
    return [row["id"] for row in read(root, engine, version)]


# --- paths


def test_one_file_has_many_spellings(tmp_path: Path, engine: Engine) -> None:
    root = tmp_path / "a table"
    adds = [
        ids(root, "a b.parquet", 1, log_path="a%20b.parquet"),
        ids(root, "a%20b.parquet", 2, log_path="a%2520b.parquet"),
        ids(root, "ü=/c#d.parquet", 3, log_path="%C3%BC=/c%23d.parquet"),
        ids(root, "plain+plus.parquet", 4),
        ids(root, "absolute.parquet", 5, log_path=(root / "absolute.parquet").as_uri()),
        ids(root, "one slash.parquet", 6, log_path=(root / "one slash.parquet").as_uri().replace("file://", "file:")),
        ids(root, "bare.parquet", 7, log_path=str(root).replace(" ", "%20") + "/bare.parquet"),
        ids(root, "漢字.parquet", 8),
    ]
    put(root, 0, protocol(), metadata(field("id", "long")), *({"add": add} for add in adds))
    assert ids_of(root, engine) == [1, 2, 3, 4, 5, 6, 7, 8]
    # DuckDB reads an absolute path as a relative one.
    assert {Path(path).name for path in DeltaTable(root).file_uris()} == {path.name for path in root.rglob("*.parquet")}

    # One writer adds a file, and another removes it with another spelling of the path.
    put(
        root,
        1,
        removal(adds[0], (root / "a b.parquet").as_uri()),
        removal(adds[4], "absolute.parquet"),
        removal(adds[5], (root / "one slash.parquet").as_uri()),
        removal(adds[6], (root / "bare.parquet").as_uri()),
    )
    assert ids_of(root, engine) == [2, 3, 4, 8]
    assert ids_of(root, engine, 0) == [1, 2, 3, 4, 5, 6, 7, 8]


# --- partition values


def partitioned(root: Path, kind: str, spellings: Sequence[str | None]) -> None:
    adds = [ids(root, f"{n}.parquet", n, partition={"part": text}) for n, text in enumerate(spellings)]
    put(root, 0, protocol("timestampNtz"), metadata(field("id", "long"), field("part", kind), partition_by=["part"]))
    put(root, 1, *({"add": add} for add in adds))


@pytest.mark.parametrize(
    ("kind", "spellings", "value"),
    [
        (
            "timestamp",
            [
                "2024-05-01T10:00:00.000000Z",
                "2024-05-01T10:00:00Z",
                "2024-05-01 10:00:00",
                "2024-05-01 10:00:00.000000",
            ],
            dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC),
        ),
        (
            "timestamp_ntz",
            ["2024-05-01 10:00:00", "2024-05-01 10:00:00.0", "2024-05-01 10:00:00.000000"],
            dt.datetime(2024, 5, 1, 10),
        ),
        ("decimal(10,2)", ["1.50", "1.5"], Decimal("1.50")),
        ("binary", ["\\u0000\\u00ff\\u000A"], b"\0\xff\n"),
        ("binary", ["abc"], b"abc"),
        ("boolean", ["true"], True),
        ("double", ["1.0E10", "10000000000"], 1e10),
        ("date", ["2024-02-29"], dt.date(2024, 2, 29)),
        ("string", [" 2024 "], " 2024 "),
        ("string", ["__HIVE_DEFAULT_PARTITION__"], "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_spellings_of_a_partition_value(
    tmp_path: Path, engine: Engine, kind: str, spellings: list[str], value: object
) -> None:
    partitioned(tmp_path, kind, spellings)
    assert [row["part"] for row in read(tmp_path, engine)] == [value] * len(spellings)


@pytest.mark.parametrize("kind", ["string", "binary", "integer", "date", "timestamp"])
def test_no_value_an_empty_one_and_a_missing_key_are_null(tmp_path: Path, engine: Engine, kind: str) -> None:
    adds = [
        ids(tmp_path, "null.parquet", 0, partition={"part": None}),
        ids(tmp_path, "empty.parquet", 1, partition={"part": ""}),
    ]
    put(tmp_path, 0, protocol(), metadata(field("id", "long"), field("part", kind), partition_by=["part"]))
    put(tmp_path, 1, *({"add": add} for add in adds))
    assert read(tmp_path, engine) == [{"id": 0, "part": None}, {"id": 1, "part": None}]


# --- deletion vectors


def test_vectors_in_the_log_in_files_and_at_absolute_paths(tmp_path: Path, engine: Engine) -> None:
    adds = [ids(tmp_path, f"{start}.parquet", *range(start, start + 10)) for start in (0, 10, 20, 30)]
    put(tmp_path, 0, protocol("deletionVectors"), metadata(field("id", "long")), *({"add": add} for add in adds))
    first, second = in_file(tmp_path, [0], [9], prefix="Zz")
    (elsewhere,) = in_file(tmp_path, [3, 4], absolute=True)
    marked = [
        {**add, "deletionVector": vector}
        for add, vector in zip(adds, [inline([1, 2]), first, second, elsewhere], strict=True)
    ]
    put(tmp_path, 1, *(removal(add) for add in adds), *({"add": add} for add in marked))
    gone = {1, 2, 10, 29, 33, 34}
    assert ids_of(tmp_path, engine) == [n for n in range(40) if n not in gone]
    # A vector is replaced by a larger one: the path stays the same, but the pair of path and vector is the key.
    larger = {**adds[0], "deletionVector": inline([0, 1, 2, 9])}
    put(tmp_path, 2, removal(marked[0]), {"add": larger})
    gone |= {0, 9}
    assert ids_of(tmp_path, engine) == [n for n in range(40) if n not in gone]
    assert [row["id"] for row in read_duckdb(tmp_path).to_pylist()] == [n for n in range(40) if n not in gone]
    # Without the vector, all rows are live again.
    put(tmp_path, 3, removal(larger), {"add": adds[0]})
    assert ids_of(tmp_path, engine) == [n for n in range(40) if n not in gone - {0, 1, 2, 9}]
    assert ids_of(tmp_path, engine, 0) == list(range(40))


# --- compacted logs


@pytest.fixture
def commits(tmp_path: Path) -> list[dict[str, Any]]:
    """Version n adds the file of id n, and version 5 also removes the file of id 2."""
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(7)]
    put(tmp_path, 0, protocol(), metadata(field("id", "long")), {"add": adds[0]})
    for n in range(1, 7):
        put(tmp_path, n, {"add": adds[n]}, *([removal(adds[2])] if n == 5 else []))
    return adds


VERSIONS = {0: [0], 1: [0, 1], 2: [0, 1, 2], 4: [0, 1, 2, 3, 4], 5: [0, 1, 3, 4, 5], 6: [0, 1, 3, 4, 5, 6]}


def test_compacted_logs_that_overlap(tmp_path: Path, commits: list[dict[str, Any]], engine: Engine) -> None:
    compacted = {
        (1, 2): [{"add": commits[1]}, {"add": commits[2]}],
        (1, 4): [{"add": commits[n]} for n in (1, 2, 3, 4)],
        (2, 5): [removal(commits[2]), *({"add": commits[n]} for n in (3, 4, 5))],
        (4, 6): [removal(commits[2]), *({"add": commits[n]} for n in (4, 5, 6))],
    }
    for (first, last), actions in compacted.items():
        put_named(tmp_path, f"{first:020}.{last:020}.compacted.json", actions)
    for version, expected in VERSIONS.items():
        assert ids_of(tmp_path, engine, version) == expected, version
    assert ids_of(tmp_path, engine) == VERSIONS[6]


def test_a_compacted_log_keeps_what_removes_a_file_of_the_checkpoint(
    tmp_path: Path, commits: list[dict[str, Any]], engine: Engine
) -> None:
    DeltaTable(tmp_path, version=2).create_checkpoint()
    put_named(tmp_path, f"{3:020}.{6:020}.compacted.json", [removal(commits[2]), *({"add": a} for a in commits[3:7])])
    for version, expected in VERSIONS.items():
        assert ids_of(tmp_path, engine, version) == expected, version


# --- checkpoints

PATH = pa.field("path", pa.string())
ADD = pa.struct(
    [
        PATH,
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
STRINGS = pa.list_(pa.string())
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", STRINGS),
        ("writerFeatures", STRINGS),
    ]
)
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
        ("schemaString", pa.string()),
        ("partitionColumns", STRINGS),
        ("configuration", pa.map_(pa.string(), pa.string())),
    ]
)
SIDECAR = pa.struct([PATH, ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
CHECKPOINT_METADATA = pa.struct([("version", pa.int64())])


def parquet(root: Path, name: str, actions: Sequence[Action], **kinds: pa.DataType) -> Path:
    """A checkpoint's Parquet file with exactly these columns, one action in each row."""
    columns = {
        kind: pa.array([_maps(action.get(kind), struct_type) for action in actions], struct_type)
        for kind, struct_type in kinds.items()
    }
    file = root / "_delta_log" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return file


def _maps(value: Any, kind: pa.DataType) -> Any:
    """Maps as lists of pairs, because Arrow does not accept dicts."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {member.name: _maps(value.get(member.name), member.type) for member in kind}
    return list(value.items()) if pa.types.is_map(kind) else value


def head(*features: str) -> list[Action]:
    return [protocol(*features), metadata(field("id", "long"))]


def test_a_classic_checkpoint_with_no_more_than_the_needed_columns(tmp_path: Path, engine: Engine) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(3)]
    rows = [*head(), *({"add": add} for add in adds)]
    parquet(tmp_path, f"{3:020}.checkpoint.parquet", rows, add=ADD, metaData=METADATA, protocol=PROTOCOL)
    put(tmp_path, 3, {"add": adds[2]})
    put(tmp_path, 4, removal(adds[1]))
    assert ids_of(tmp_path, engine) == [0, 2]
    assert ids_of(tmp_path, engine, 3) == [0, 1, 2]
    assert [row["id"] for row in read_duckdb(tmp_path).to_pylist()] == [0, 2]


def test_a_classic_checkpoint_with_statistics_as_columns_only(tmp_path: Path, engine: Engine) -> None:
    bounds = pa.struct([("id", pa.int64())])
    parsed = pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", bounds)]
    )
    kind = pa.struct([*(member for member in ADD if member.name != "stats"), pa.field("stats_parsed", parsed)])
    adds = [ids(tmp_path, f"{n}.parquet", 10 * n, 10 * n + 1) for n in range(3)]
    for n, add in enumerate(adds):
        low, high = {"id": 10 * n}, {"id": 10 * n + 1}
        add["stats_parsed"] = {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": {"id": 0}}
    rows = [*head(), *({"add": add} for add in adds)]
    parquet(tmp_path, f"{3:020}.checkpoint.parquet", rows, add=kind, metaData=METADATA, protocol=PROTOCOL)
    put(tmp_path, 3, {"add": adds[2]})
    assert ids_of(tmp_path, engine) == [0, 1, 10, 11, 20, 21]
    table = DeltaTable(tmp_path)
    assert [Path(path).name for path in table.files("id = 11")["path"].to_pylist()] == ["1.parquet"]
    assert table.count() == 6


def sidecars(root: Path, parts: Sequence[Sequence[Action]]) -> list[Action]:
    """Write the sidecar files of these actions, and return the actions that name the files."""
    named = []
    for uuid, actions in zip(UUIDS, parts, strict=False):
        file = parquet(root, f"_sidecars/{uuid}.parquet", actions, add=ADD)
        size = file.stat().st_size
        named.append({"sidecar": {"path": file.name, "sizeInBytes": size, "modificationTime": MODIFIED}})
    return named


def v2(root: Path, name: str, actions: Sequence[Action]) -> None:
    rows = [{"checkpointMetadata": {"version": 3}}, *head("v2Checkpoint"), *actions]
    if name.endswith(".json"):
        put_named(root, name, rows)
        return
    kinds = {"checkpointMetadata": CHECKPOINT_METADATA, "metaData": METADATA, "protocol": PROTOCOL, "add": ADD}
    parquet(root, name, rows, **kinds, sidecar=SIDECAR)


NAMES = {
    "UUID and JSON": f"{3:020}.checkpoint.{UUIDS[0]}.json",
    "UUID and Parquet": f"{3:020}.checkpoint.{UUIDS[0]}.parquet",
    "classic name": f"{3:020}.checkpoint.parquet",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("with_sidecars", [True, False], ids=["sidecars", "inline"])
def test_v2_checkpoints(tmp_path: Path, engine: Engine, name: str, with_sidecars: bool) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(4)]
    actions = [{"add": add} for add in adds]
    v2(tmp_path, name, sidecars(tmp_path, [actions[:2], actions[2:]]) if with_sidecars else actions)
    put(tmp_path, 3, {"add": adds[3]})
    put(tmp_path, 4, removal(adds[0]))
    assert ids_of(tmp_path, engine) == [1, 2, 3]
    assert ids_of(tmp_path, engine, 3) == [0, 1, 2, 3]
    assert [row["id"] for row in read_duckdb(tmp_path).to_pylist()] == [1, 2, 3]


def test_a_sidecar_that_is_gone_is_told_or_another_checkpoint_taken(tmp_path: Path, engine: Engine) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(4)]
    v2(tmp_path, NAMES["UUID and JSON"], sidecars(tmp_path, [[{"add": add} for add in adds]]))
    put(tmp_path, 3, {"add": adds[3]})
    (file,) = (tmp_path / "_delta_log/_sidecars").iterdir()
    file.unlink()
    with pytest.raises(LogCorruptedError, match=UUIDS[0]):
        ids_of(tmp_path, engine)
    parquet(
        tmp_path,
        NAMES["classic name"],
        [*head("v2Checkpoint"), *({"add": add} for add in adds)],
        add=ADD,
        metaData=METADATA,
        protocol=PROTOCOL,
    )
    assert ids_of(tmp_path, engine) == [0, 1, 2, 3]


# --- physical forms


FORMS: dict[str, tuple[Any, Callable[[], pa.Table], list[Any], dict[str, Any]]] = {
    "decimals as integers": (
        "decimal(9,2)",
        lambda: pa.table({"v": pa.array([Decimal("1.50"), Decimal("-9999999.99"), None], pa.decimal128(9, 2))}),
        [Decimal("1.50"), Decimal("-9999999.99"), None],
        {"store_decimal_as_integer": True},
    ),
    "large decimals as integers": (
        "decimal(18,4)",
        lambda: pa.table({"v": pa.array([Decimal("99999999999999.9999"), None], pa.decimal128(18, 4))}),
        [Decimal("99999999999999.9999"), None],
        {"store_decimal_as_integer": True},
    ),
    "decimals as bytes": (
        "decimal(9,2)",
        lambda: pa.table({"v": pa.array([Decimal("1.50"), Decimal("-1.00"), None], pa.decimal128(9, 2))}),
        [Decimal("1.50"), Decimal("-1.00"), None],
        {},
    ),
    "timestamps in milliseconds": (
        "timestamp",
        lambda: pa.table({"v": pa.array([0, 1, None], pa.timestamp("ms", "UTC"))}),
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC), None],
        {"coerce_timestamps": "ms"},
    ),
    "timestamps as INT96": (
        "timestamp",
        lambda: pa.table({"v": pa.array([0, -1, None], pa.timestamp("us", "UTC"))}),
        [
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
            None,
        ],
        {"use_deprecated_int96_timestamps": True},
    ),
    "lists whose items are called otherwise": (
        array("long"),
        lambda: pa.table({"v": pa.array([[1, None], [], None], pa.list_(pa.int64()))}),
        [[1, None], [], None],
        {"use_compliant_nested_type": False},
    ),
    "maps and structs": (
        mapping("string", struct(field("a", "long"), field("added", "string"))),
        lambda: pa.table(
            {"v": pa.array([[("k", {"a": 1})], [], None], pa.map_(pa.string(), pa.struct([("a", pa.int64())])))}
        ),
        [[("k", {"a": 1, "added": None})], [], None],
        {},
    ),
    "text without its annotation": (
        "string",
        lambda: pa.table({"v": pa.array([b"text", b"", None], pa.binary())}),
        ["text", "", None],
        {},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_physical_forms(tmp_path: Path, engine: Engine, form: str) -> None:
    kind, make, values, how = FORMS[form]
    rows = make()
    numbered = rows.append_column("id", pa.array(range(len(rows)), pa.int64()))
    # The file has its columns in another order than the schema, and a column that is not in the schema.
    numbered = numbered.append_column("unknown", pa.nulls(len(rows), pa.int32()))
    add = data_file(tmp_path, "one.parquet", numbered, store_schema=False, **how)
    put(tmp_path, 0, protocol(), metadata(field("id", "long"), field("v", kind)), {"add": add})
    assert read(tmp_path, engine) == [{"id": n, "v": value} for n, value in enumerate(values)]
