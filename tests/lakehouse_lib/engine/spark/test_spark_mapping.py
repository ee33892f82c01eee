"""Columns with other names in files (column mapping), on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from tests.log_builder import array, data_file, field, mapping, put_table, struct, with_id
from tests.peers import read_duckdb, read_engine

NAME = {"delta.columnMapping.mode": "name"}
ID = {"delta.columnMapping.mode": "id"}


def rows_of(engine: Engine, root: Path, where: str | None = None, columns: list[str] | None = None) -> list[Any]:
    rows: list[Any] = read_engine(engine, root, where, columns).to_pylist()
    return rows


FIELDS = [
    field("id", "long", physical="col-1", id=1),
    field("old name", struct(field("x,y", "string", physical="col-3", id=3)), physical="col-2", id=2),
    field("l", array(struct(field("e", "long", physical="col-5", id=5))), physical="col-4", id=4),
    field("m", mapping("string", struct(field("v", "long", physical="col-7", id=7))), physical="col-6", id=6),
    field("added", "string", physical="col-9", id=9),
    field("p", "integer", physical="col-8", id=8),
]


def physical_rows(start: int) -> pa.Table:
    return pa.table(
        {
            "col-1": [start, start + 1, None],
            "col-2": pa.array([{"col-3": "a"}, {"col-3": None}, None], pa.struct([("col-3", pa.string())])),
            "col-4": pa.array([[{"col-5": 1}, None], [], None], pa.list_(pa.struct([("col-5", pa.int64())]))),
            "col-6": pa.array(
                [[("k", {"col-7": 1})], [], None], pa.map_(pa.string(), pa.struct([("col-7", pa.int64())]))
            ),
            "id": ["a column that was dropped"] * 3,
        }
    )


def logical_rows(start: int, p: int | None) -> list[dict[str, Any]]:
    return [
        {"id": start, "old name": {"x,y": "a"}, "l": [{"e": 1}, None], "m": [("k", {"v": 1})], "added": None, "p": p},
        {"id": start + 1, "old name": {"x,y": None}, "l": [], "m": [], "added": None, "p": p},
        {"id": None, "old name": None, "l": None, "m": None, "added": None, "p": p},
    ]


def by_id(row: dict[str, Any]) -> tuple[bool, int]:
    return row["id"] is None, row["id"] or row["p"] or 0


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    adds = [
        data_file(tmp_path, "Xy/one.parquet", physical_rows(1), partition={"col-8": "7"}),
        data_file(tmp_path, "col-8=8/two.parquet", physical_rows(10), partition={"col-8": "8"}),
        data_file(tmp_path, "col-8=9/three.parquet", physical_rows(20), partition={"col-8": None}),
    ]
    return put_table(tmp_path, FIELDS, adds, partition_by=["p"], features=["columnMapping"], configuration=NAME)


def test_names_at_every_depth_are_mapped(mapped: Path, engine: Engine) -> None:
    rows = sorted(rows_of(engine, mapped), key=by_id)
    expected = sorted([*logical_rows(1, 7), *logical_rows(10, 8), *logical_rows(20, None)], key=by_id)
    assert rows == expected
    # DuckDB returns null for every partition column with column mapping.
    duckdb_rows = sorted(
        read_duckdb(mapped).drop_columns(["p"]).to_pylist(), key=lambda row: (row["id"] is None, row["id"])
    )
    assert duckdb_rows[:6] == [{name: row[name] for name in duckdb_rows[0]} for row in expected[:6]]


def test_conditions_and_columns_are_named_as_users_see_them(mapped: Path, engine: Engine) -> None:
    assert rows_of(engine, mapped, "p = 8 AND id > 10", ["old name", "id"]) == [{"old name": {"x,y": None}, "id": 11}]
    assert rows_of(engine, mapped, "p IS NULL AND id = 20", ["p"]) == [{"p": None}]
    assert rows_of(engine, mapped, "added IS NOT NULL") == []
    assert sorted(row["id"] for row in rows_of(engine, mapped, "p IN (7, 8) AND id IS NOT NULL")) == [1, 2, 10, 11]
    assert [row["p"] for row in rows_of(engine, mapped, None, ["p"])] == [7] * 3 + [8] * 3 + [None] * 3


def test_spark_prunes_and_pushes_down_by_physical_names(mapped: Path, spark: Any, capsys: Any) -> None:
    frame = DeltaTable(mapped).to_spark(spark).where("id > 10").select("id", "p")
    frame.explain()
    plan = capsys.readouterr().out
    assert "GreaterThan(col-1,10)" in plan or "GreaterThan(`col-1`,10)" in plan
    assert "col-2" not in plan
    assert sorted(map(tuple, frame.collect())) == [(11, 8), (20, None), (21, None)]


def files_by_id(root: Path) -> list[dict[str, Any]]:
    """Three files with different names of the columns 1 and 2, and one file from before field ids."""

    def file(name: str, first: str, first_id: int, second: str, second_id: int, *, nested: str) -> dict[str, Any]:
        inner = pa.struct([with_id(pa.field(nested, pa.int64()), 5)])
        kinds = [
            with_id(pa.field(first, pa.int64()), first_id),
            with_id(pa.field(second, pa.int64()), second_id),
            with_id(pa.field("s", inner), 4),
        ]
        numbers = {1: [1, 2, 3], 2: [100, 200, 300]}
        return data_file(
            root,
            name,
            pa.Table.from_arrays(
                [
                    pa.array(numbers[first_id]),
                    pa.array(numbers[second_id]),
                    pa.array([{nested: 7}, {nested: None}, None], inner),
                ],
                schema=pa.schema(kinds),
            ),
        )

    old = pa.table({"col-a": [4], "col-b": [400]})
    return [
        file("same.parquet", "col-a", 1, "col-b", 2, nested="col-n"),
        file("swapped.parquet", "col-a", 2, "col-b", 1, nested="other"),
        file("foreign.parquet", "x", 1, "y", 2, nested="col-n"),
        data_file(root, "old.parquet", old),
    ]


BY_ID = [
    field("a", "long", physical="col-a", id=1),
    field("b", "long", physical="col-b", id=2),
    field("s", struct(field("n", "long", physical="col-n", id=5)), physical="col-s", id=4),
    field("new", "long", physical="y", id=6),
]


def test_ids_decide_where_names_disagree(tmp_path: Path, engine: Engine) -> None:
    put_table(tmp_path, BY_ID, files_by_id(tmp_path), features=["columnMapping"], configuration=ID)
    rows = rows_of(engine, tmp_path)
    each = [(1, 100, {"n": 7}, None), (2, 200, {"n": None}, None), (3, 300, None, None)]
    assert sorted(map(str, (tuple(row.values()) for row in rows))) == sorted(
        map(str, [*each * 3, (4, 400, None, None)])
    )
    # Spark's own matching by field id would drop row groups here by the statistics of the wrong column.
    assert [row["a"] for row in rows_of(engine, tmp_path, "a < 3")] == [1] * 3 + [2] * 3
    assert [row["b"] for row in rows_of(engine, tmp_path, "a >= 4 AND b >= 100")] == [400]
    assert rows_of(engine, tmp_path, "new IS NOT NULL") == []


def test_the_sessions_settings_do_not_change_what_is_read(tmp_path: Path, spark: Any) -> None:
    put_table(tmp_path, BY_ID, files_by_id(tmp_path), features=["columnMapping"], configuration=ID)
    frame = DeltaTable(tmp_path).to_spark(spark)
    settings = {
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    expected = sorted(map(str, frame.collect()))
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert sorted(map(str, frame.collect())) == expected
        assert sorted(map(str, DeltaTable(tmp_path).to_spark(spark).collect())) == expected
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_a_table_upgraded_to_mapping_keeps_its_names(tmp_path: Path, engine: Engine) -> None:
    fields = [field("renamed", "long", physical="a", id=1), field("a", "string", physical="col-new", id=2)]
    old = data_file(tmp_path, "old.parquet", pa.table({"a": [1]}))
    new = data_file(tmp_path, "new.parquet", pa.table({"a": [2], "col-new": ["x"]}))
    put_table(tmp_path, fields, [old, new], features=["columnMapping"], configuration=NAME)
    expected = [{"renamed": 1, "a": None}, {"renamed": 2, "a": "x"}]
    assert rows_of(engine, tmp_path) == expected
    assert read_duckdb(tmp_path).to_pylist() == expected


def test_spark_gets_comments_and_no_metadata_for_writers(tmp_path: Path, spark: Any) -> None:
    fields = [field("a", "long", physical="p", id=1, comment="a comment", EXISTS_DEFAULT="7", CURRENT_DEFAULT="8")]
    add = data_file(tmp_path, "old.parquet", pa.table({"other": [1]}))
    put_table(tmp_path, fields, [add], features=["columnMapping"], configuration=NAME)
    frame = DeltaTable(tmp_path).to_spark(spark)
    assert frame.schema["a"].metadata == {"comment": "a comment"}
    assert frame.collect()[0].a is None
    assert pq.read_table(tmp_path / "old.parquet").num_rows == 1
