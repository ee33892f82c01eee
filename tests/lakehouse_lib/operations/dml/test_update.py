"""UPDATE: the same rows as delta-rs' update, on both engines, with and without deletion vectors."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    DeltaError,
    DeltaProtocolError,
    InvalidArgumentError,
    InvalidPredicateError,
    MetadataChangedError,
    SchemaMismatchError,
)
from lakehouse_lib.expressions import parse, parse_value
from lakehouse_lib.operations.dml.update import update
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import load_snapshot
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.fault_store import FaultStore
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs
from tests.slow_cases import some_slow
from tests.table_builder import write_files

VECTORS = {"delta.enableDeletionVectors": "true"}
ROWS = 300


def rows(start: int = 0, count: int = ROWS) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "part": [f"p{number // 100 % 3}" for number in numbers],
            "name": [None if number % 7 == 0 else f"name {number % 13}" for number in numbers],
            "amount": pa.array([number * 1.5 for number in numbers], pa.float64()),
            "count": pa.array([None if number % 11 == 0 else number % 50 for number in numbers], pa.int32()),
        }
    )


def made(root: Path, *, files: int = 3, partition_by: list[str] | None = None, **properties: str) -> DeltaTable:
    write_files(root, rows(0, files * ROWS), files, partition_by=partition_by, configuration=properties)
    return DeltaTable(root)


ASSIGNMENTS = [
    {"amount": "amount * 2"},
    {"name": "'x'"},
    {"count": "count + 1", "amount": "count * 0.5"},
    {"name": "CASE WHEN count > 20 THEN name || '!' ELSE name END"},
    {"amount": "NULL"},
    {"count": "coalesce(count, -1)"},
    {"part": "'q'"},
    {"part": "CASE WHEN id % 2 = 0 THEN 'q' ELSE part END", "name": "part"},
]
CONDITIONS = [
    None,
    "part = 'p1'",
    "id % 10 = 3",
    "count > 40 OR name IS NULL",
    "id BETWEEN 250 AND 350",
    "name LIKE 'name 1%'",
    "part = 'p0' AND count < 5",
    "id < 0",
]


@pytest.mark.parametrize("seed", some_slow(range(12), 1))
def test_beside_delta_rs(tmp_path: Path, seed: int) -> None:
    """Some updates in a row; after each, both tables have the same rows."""
    chance = random.Random(seed)
    partition_by = chance.choice([None, ["part"]])
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    made(peer, partition_by=partition_by)
    shutil.copytree(peer, own)
    table = DeltaTable(own)
    for _ in range(4):
        assignment, condition = chance.choice(ASSIGNMENTS), chance.choice(CONDITIONS)
        metrics = table.update(assignment, predicate=condition)
        expected = deltalake.DeltaTable(peer).update(assignment, predicate=condition)
        assert metrics["num_updated_rows"] == expected["num_updated_rows"], (assignment, condition)
        assert read_by_all(own).to_pylist() == read_delta_rs(peer).to_pylist(), (assignment, condition)


@pytest.mark.parametrize(
    "properties", [{}, VECTORS, {"delta.enableRowTracking": "true"}], ids=["copies", "vectors", "ids"]
)
@pytest.mark.parametrize("partition_by", [None, ["part"]], ids=["whole", "partitioned"])
def test_only_matching_files_change(
    tmp_path: Path, engine: Engine, properties: dict[str, str], partition_by: list[str] | None
) -> None:
    made(tmp_path, partition_by=partition_by, **properties)
    table = DeltaTable(tmp_path, engine=engine)
    before = set(table.files()["path"].to_pylist())
    expected = rows(0, 3 * ROWS).to_pylist()
    for row in expected:
        if 310 <= row["id"] < 320:
            row |= {"part": "new", "amount": row["amount"] + 1}
    metrics = table.update({"amount": "amount + 1", "part": "'new'"}, predicate="id >= 310 AND id < 320")
    after = set(table.files()["path"].to_pylist())
    uses_vectors = properties == VECTORS
    assert metrics["num_updated_rows"] == 10
    assert metrics["num_deletion_vectors"] == uses_vectors
    assert len(before & after) == len(before) - (not uses_vectors)
    assert metrics["num_added_files"] == len(after - before)
    assert read_by_all(tmp_path).to_pylist() == plain(pa.Table.from_pylist(expected, schema=rows().schema)).to_pylist()
    (commit,) = table.history(1)
    assert (commit["operation"], commit["operationMetrics"]["numUpdatedRows"]) == ("UPDATE", "10")


def test_updated_rows_keep_their_ids(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, **{"delta.enableRowTracking": "true"})
    table = DeltaTable(tmp_path, engine=engine)
    before = {row["id"]: row["_metadata.row_id"] for row in pa.table(table.scan(row_ids=True)).to_pylist()}
    version = table.update({"count": "7"}, predicate="id = 5 OR id = 700")["version"]
    after = pa.table(table.scan(row_ids=True)).to_pylist()
    assert {row["id"]: row["_metadata.row_id"] for row in after} == before
    changed = {row["id"] for row in after if row["_metadata.row_commit_version"] == version}
    assert changed == {5, 700}


def test_hidden_rows_stay_hidden(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, **VECTORS)
    table.delete("id < 100")
    metrics = table.update({"name": "'x'"}, predicate="id < 150")
    assert metrics["num_updated_rows"] == 50
    assert sorted(row["id"] for row in read_by_all(tmp_path).to_pylist()) == list(range(100, ROWS))
    assert table.update({"name": "'y'"}, predicate="id < 100")["version"] == metrics["version"]


@pytest.mark.parametrize("condition", ["id < 0", "id = 250 AND count < 0"], ids=["no file", "no row"])
def test_an_update_of_no_row_counts_0_rows(tmp_path: Path, engine: Engine, condition: str) -> None:
    snapshot = made(tmp_path).snapshot
    values = {"name": parse_value("'x'", snapshot.field("name"), snapshot.schema)}
    result = update(snapshot, values, parse(condition, snapshot.schema), engine)
    assert (result.version, result.metrics["numUpdatedRows"]) == (None, 0)


def test_new_values_are_python_values(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    table.update(new_values={"name": "it's", "COUNT": 3, "amount": None}, predicate="id = 1")
    (row,) = table.to_pyarrow_table(filters="id = 1").to_pylist()
    assert row == {"id": 1, "part": "p0", "name": "it's", "amount": None, "count": 3}


def test_values_and_conditions_that_only_spark_evaluates(tmp_path: Path, spark: Any) -> None:
    from lakehouse_lib.engine.spark.engine import SparkEngine

    made(tmp_path, partition_by=["part"], **VECTORS)
    table = DeltaTable(tmp_path, engine=SparkEngine(spark))
    metrics = table.update(
        {"name": "regexp_replace(upper(name), '$', '')", "count": "count DIV 2"}, predicate="id RLIKE '^1[0-4]$'"
    )
    assert metrics["num_updated_rows"] == 5
    expected = rows(0, 3 * ROWS).to_pylist()
    for row in expected[10:15]:
        row |= {
            "name": row["name"] and row["name"].upper(),
            "count": None if row["count"] is None else row["count"] // 2,
        }
    assert read_by_all(tmp_path).to_pylist() == plain(pa.Table.from_pylist(expected, schema=rows().schema)).to_pylist()
    with pytest.raises(DeltaError) as refusal:
        DeltaTable(tmp_path).update({"name": "initcap(name)"})
    assert refusal.value.code == "DELTA_PREDICATE_NEEDS_SPARK"


def test_on_spark_the_driver_itself_changes_rows_of_few_bytes(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse_lib.engine.spark import engine as spark_engine

    made(tmp_path, **VECTORS)
    table = DeltaTable(tmp_path, engine=spark_engine.SparkEngine(spark))
    monkeypatch.setattr(spark_engine.SparkEngine, "_tasks", None)  # no task can be started
    with pytest.raises(TypeError):
        table.update({"name": "'y'"}, predicate="id = 1")
    monkeypatch.setattr(spark_engine, "_DRIVER_BYTES", 256 << 20)
    assert table.update({"name": "'y'"}, predicate="id = 1")["num_updated_rows"] == 1
    assert table.delete("id = 2")["num_deleted_rows"] == 1
    expected = [row | ({"name": "y"} if row["id"] == 1 else {}) for row in rows(0, 3 * ROWS).to_pylist()]
    assert (
        read_by_all(tmp_path).to_pylist()
        == plain(pa.Table.from_pylist([row for row in expected if row["id"] != 2], schema=rows().schema)).to_pylist()
    )


class TestOnSpark:
    """Values that only Spark evaluates; the session has another zone, and ANSI mode is off."""

    @pytest.fixture
    def table(self, tmp_path: Path, spark: Any) -> Iterator[DeltaTable]:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        data = pa.table(
            {
                "id": pa.array([1, 2], pa.int64()),
                "i": pa.array([2**31 - 1, 5], pa.int32()),
                "s": ["ab", "3"],
                "a": pa.array([[1, 2], []], pa.list_(pa.int64())),
                "o": pa.array([{"p": 1}, {"p": 2}], pa.struct([("p", pa.int64())])),
                "d": pa.array([None, None], pa.date32()),
                "t": pa.array([1704074400 * 10**6] * 2, pa.timestamp("us", tz="UTC")),
            }
        )
        write_deltalake(tmp_path, data)
        before = spark.conf.get("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        yield DeltaTable(tmp_path, engine=SparkEngine(spark))
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
        spark.conf.set("spark.sql.ansi.enabled", before)

    @pytest.mark.parametrize(
        "updates",
        [
            {"i": "upper(s)"},
            {"i": "i + 1", "s": "upper(s)"},
            {"i": "try_sum(i)"},
            {"a": "flatten(array(array(try_sum(i))))"},
            {"o": "named_struct('q', id)"},
            {"o": "named_struct('p', id, 'q', 1)"},
            {"a": "reverse(s)"},
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(self, table: DeltaTable, updates: dict[str, str]) -> None:
        before = parquet_files(Path(table.table_uri))
        with pytest.raises(DeltaError):
            table.update(updates)
        assert table.version() == 0
        assert parquet_files(Path(table.table_uri)) == before

    def test_times_are_in_utc(self, table: DeltaTable) -> None:
        table.update({"d": "date_trunc('HOUR', t)", "s": "lower(concat(s, 'X'))", "a": "array_append(a, id)"})
        read = table.to_pyarrow_table().sort_by("id").to_pydict()
        assert read["d"] == [dt.date(2024, 1, 1)] * 2
        assert (read["s"], read["a"]) == (["abx", "3x"], [[1, 2, 1], [2]])


BAD: list[tuple[dict[str, Any], type[DeltaError], str]] = [
    ({}, InvalidArgumentError, "DELTA_INVALID_ARGUMENT"),
    ({"updates": {"name": "'x'"}, "new_values": {"name": "x"}}, InvalidArgumentError, "DELTA_INVALID_ARGUMENT"),
    ({"updates": {}}, InvalidArgumentError, "DELTA_INVALID_ARGUMENT"),
    ({"updates": {"nope": "1"}}, InvalidArgumentError, "DELTA_COLUMN_NOT_FOUND"),
    ({"updates": {"name": "'x'", "NAME": "'y'"}}, InvalidArgumentError, "DELTA_INVALID_ARGUMENT"),
    ({"updates": {"name": "nope"}}, InvalidPredicateError, "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    ({"updates": {"name": 5}}, InvalidPredicateError, "DELTA_INVALID_ASSIGNMENT"),
    ({"updates": {"count": "name"}}, InvalidPredicateError, "DELTA_INVALID_ASSIGNMENT"),
    ({"new_values": {"count": object()}}, InvalidPredicateError, "DELTA_INVALID_ASSIGNMENT"),
    ({"updates": {"name": "'x'"}, "predicate": "nope = 1"}, InvalidPredicateError, "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    ({"updates": {"name": "'x'"}, "predicate": []}, InvalidArgumentError, "DELTA_INVALID_ARGUMENT"),
    ({"updates": {"count": "count * 2147483647"}}, SchemaMismatchError, "DELTA_VALUE_OUT_OF_RANGE"),
    ({"updates": {"id": "NULL"}, "predicate": "id = 899"}, ConstraintViolatedError, "DELTA_CONSTRAINT_VIOLATED"),
    ({"updates": {"id": "CASE WHEN id < 600 THEN id END"}}, ConstraintViolatedError, "DELTA_CONSTRAINT_VIOLATED"),
]


@pytest.mark.parametrize(("arguments", "kind", "code"), BAD)
def test_bad_input_changes_nothing(
    tmp_path: Path, engine: Engine, arguments: dict[str, Any], kind: type[DeltaError], code: str
) -> None:
    fields = [Field(field.name, field.type, field.name != "id") for field in Schema.from_arrow(rows().schema).fields]
    DeltaTable.create(tmp_path, Schema(fields))
    made(tmp_path)
    table, before = DeltaTable(tmp_path, engine=engine), parquet_files(tmp_path)
    with pytest.raises(kind) as refusal:
        table.update(**arguments)
    assert refusal.value.code == code
    assert DeltaTable(tmp_path).version() == table.version() == 3
    assert parquet_files(tmp_path) == before


def test_an_append_only_table_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, **{"delta.appendOnly": "true"})
    before = parquet_files(tmp_path)
    with pytest.raises(DeltaProtocolError):
        table.update({"name": "'x'"})
    assert parquet_files(tmp_path) == before


class TestConcurrentWriters:
    """Another writer commits after the update has read its version."""

    def update_after(self, root: Path, other: Any, condition: str = "count = 7", **properties: str) -> DeltaTable:
        made(root, **properties)
        snapshot = load_snapshot(FaultStore(str(root)))
        other(DeltaTable(root))
        values = {"name": parse_value("'updated'", snapshot.schema.field("name"), snapshot.schema)}
        update(snapshot, values, parse(condition, snapshot.schema), DeltaTable(root).engine)
        return DeltaTable(root)

    def wrong(self, table: DeltaTable) -> list[dict[str, Any]]:
        """The rows that match and are not updated, or are updated and do not match."""
        read = table.to_pyarrow_table().to_pylist()
        return [row for row in read if (row["count"] == 7) != (row["name"] == "updated")]

    @pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
    @pytest.mark.parametrize("verb", some_slow(["delete", "compact", "append", "update", "z_order"], 2))
    def test_every_matching_row_is_updated_once(self, tmp_path: Path, verb: str, properties: dict[str, str]) -> None:
        others = {
            "append": lambda table: write_deltalake(table, rows(3 * ROWS), mode="append"),
            "compact": lambda table: table.optimize.compact(),
            "delete": lambda table: table.delete("id < 150"),
            "update": lambda table: table.update({"count": "7"}, predicate="id = 100"),
            "z_order": lambda table: table.optimize.z_order(["count"]),
        }
        table = self.update_after(tmp_path, others[verb], **properties)
        assert self.wrong(table) == []
        ids = table.to_pyarrow_table()["id"].to_pylist()
        assert len(ids) == len(set(ids)) == {"append": 4 * ROWS, "delete": 3 * ROWS - 150}.get(verb, 3 * ROWS)
        read_by_all(tmp_path)
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        assert len(parquet_files(tmp_path)) == len(table.files())

    def test_no_file_is_left_beside_those_of_the_table(self, tmp_path: Path) -> None:
        table = self.update_after(tmp_path, lambda table: table.optimize.compact())
        named = {
            path
            for version in range(table.version() + 1)
            for path in DeltaTable(tmp_path, version).files()["path"].to_pylist()
        }
        assert {path.name for path in tmp_path.glob("*.parquet")} == named

    def test_no_file_is_left_if_the_second_plan_fails(self, tmp_path: Path) -> None:
        made(tmp_path)
        snapshot = load_snapshot(FaultStore(str(tmp_path)))
        large = rows(3 * ROWS).set_column(4, "count", pa.array([2**31 - 1] * ROWS, pa.int32()))
        write_deltalake(tmp_path, large, mode="append")
        before = parquet_files(tmp_path)
        values = {"count": parse_value("count + 1", snapshot.schema.field("count"), snapshot.schema)}
        with pytest.raises(SchemaMismatchError):
            update(snapshot, values, None, DeltaTable(tmp_path).engine)
        assert parquet_files(tmp_path) == before

    def test_a_new_column_is_a_conflict(self, tmp_path: Path) -> None:
        more = rows(3 * ROWS).append_column("extra", pa.nulls(ROWS, pa.int64()))
        with pytest.raises(MetadataChangedError):
            self.update_after(tmp_path, lambda table: write_deltalake(table, more, mode="append", schema_mode="merge"))
        assert len(list(tmp_path.glob("*.parquet"))) == 4


def test_a_vector_of_another_writer(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, **VECTORS)
    (path,) = table.files()["path"].to_pylist()
    delete_by_vector(tmp_path, {path: inline([1, 2, 3])})
    table = DeltaTable(tmp_path)
    assert table.update({"count": "0"}, predicate="id < 5")["num_updated_rows"] == 2
    assert sorted(row["id"] for row in read_by_all(tmp_path).to_pylist()) == [0, *range(4, ROWS)]
