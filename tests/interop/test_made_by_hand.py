"""Logs that no available writer creates, made from the protocol's text: both engines agree.

DuckDB (delta-kernel-rs) must agree if it can read the table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from tests.deletion_vector_bytes import in_file, inline
from tests.interop.hand_made_logs import (
    ids,
    ids_of,
    put_named,
    read,
    removal,
)
from tests.log_builder import array, data_file, field, mapping, metadata, protocol, put, struct
from tests.peers import read_duckdb

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
def test_a_null_an_empty_and_a_missing_partition_value_are_null(tmp_path: Path, engine: Engine, kind: str) -> None:
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


def test_a_compacted_log_keeps_removes_of_files_in_the_checkpoint(
    tmp_path: Path, commits: list[dict[str, Any]], engine: Engine
) -> None:
    DeltaTable(tmp_path, version=2).create_checkpoint()
    put_named(tmp_path, f"{3:020}.{6:020}.compacted.json", [removal(commits[2]), *({"add": a} for a in commits[3:7])])
    for version, expected in VERSIONS.items():
        assert ids_of(tmp_path, engine, version) == expected, version


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
