"""Defaults of columns: rows that lack a column get its default in every verb, on both engines."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable, Field, Schema, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    DeltaError,
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidSchemaError,
    UnsupportedFeatureError,
)
from tests.peers import read_by_all

SCHEMA = Schema(
    [
        Field("id", "long"),
        Field("state", "string", nullable=False, metadata={"CURRENT_DEFAULT": "'it\\'s new'"}),
        Field("amount", "decimal(10,2)", metadata={"CURRENT_DEFAULT": "1.5"}),
        Field("day", "date", metadata={"CURRENT_DEFAULT": "DATE '2026-01-31'"}),
        Field("year", "integer", metadata={"delta.generationExpression": "year(day)"}),
        Field("part", "string", metadata={"CURRENT_DEFAULT": "''"}),
    ]
)
NEW = "it's new"


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(str(value) for value in row.values()) for row in read_by_all(path).to_pylist())


def row(number: int, state: str = NEW, amount: str = "1.50", day: str = "2026-01-31") -> tuple[str, ...]:
    return (str(number), state, amount, day, day[:4] if day != "None" else "None", "None")


def test_every_verb_applies_defaults(tmp_path: Path, engine: Engine) -> None:
    DeltaTable.create(tmp_path, SCHEMA, partition_by=["part"])
    table = DeltaTable(tmp_path, engine=engine)
    assert "allowColumnDefaults" in (table.protocol().writer_features or ())
    write_deltalake(table, pa.table({"id": [1, 2]}), mode="append")
    nulls = pa.table({"id": [3], "amount": pa.nulls(1, pa.decimal128(10, 2)), "day": pa.nulls(1, pa.date32())})
    write_deltalake(table, nulls, mode="append")
    written = [row(1), row(2), row(3, amount="None", day="None")]
    assert rows_of(tmp_path) == written

    table.update({"amount": "2"}, predicate="id = 1")
    merger = table.merge(pa.table({"id": [2, 7, 8]}), "target.id = source.id")
    merger.when_matched_update({"state": "'seen'"})
    merger.when_not_matched_insert({"id": "id", "day": "DATE '2025-05-05'"}, predicate="id = 7")
    merger.when_not_matched_insert_all()
    merger.execute()
    assert rows_of(tmp_path) == [
        row(1, amount="2.00"), row(2, "seen"), written[2], row(7, day="2025-05-05"), row(8)
    ]  # fmt: skip
    write_deltalake(table, pa.table({"id": [9]}), mode="overwrite", predicate="id >= 3")
    assert rows_of(tmp_path) == [row(1, amount="2.00"), row(2, "seen"), row(9)]


def test_null_in_the_data_is_not_the_default(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    with pytest.raises(ConstraintViolatedError, match="NOT NULL state"):
        write_deltalake(tmp_path, pa.table({"id": [1], "state": pa.nulls(1, pa.string())}), mode="append")


def test_functions_have_the_value_of_the_write(tmp_path: Path, engine: Engine) -> None:
    fields = [
        Field("id", "long"),
        Field("day", "date", metadata={"CURRENT_DEFAULT": "current_date()"}),
        Field("at", "timestamp", metadata={"CURRENT_DEFAULT": "now()"}),
    ]
    DeltaTable.create(tmp_path, Schema(fields))
    before = dt.datetime.now(dt.UTC)
    write_deltalake(DeltaTable(tmp_path, engine=engine), pa.table({"id": [1, 2]}), mode="append")
    written = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert len({row["at"] for row in written}) == 1
    assert before <= written[0]["at"] <= dt.datetime.now(dt.UTC)
    assert before.date() <= written[0]["day"] <= dt.datetime.now(dt.UTC).date()


def test_a_table_of_delta_spark_is_written(tmp_path: Path, spark: SparkSession) -> None:
    source = Path(__file__).parents[2] / "data/delta_spark/tables/defaults"
    path = tmp_path / "table"
    shutil.copytree(source, path)
    for name in ("00000000000000000005.json", "00000000000000000006.json"):  # before the default of v is dropped
        (path / "_delta_log" / name).unlink()
    write_deltalake(path, pa.table({"id": [70]}), mode="append")
    write_deltalake(DeltaTable(path, engine=SparkEngine(spark)), pa.table({"id": [71]}), mode="append")
    written = {row["id"]: (row["v"], row["n"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()}
    assert (written[70], written[71]) == (("other", 2), ("other", 2))


def test_defaults_are_set_and_dropped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1], "name": ["a"]}))
    table = DeltaTable(tmp_path)
    table.alter.set_column_default("NAME", "'b'")
    assert "allowColumnDefaults" in (DeltaTable(tmp_path).protocol().writer_features or ())
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    table.alter.drop_column_default("name")
    write_deltalake(table, pa.table({"id": [3]}), mode="append")
    assert rows_of(tmp_path) == [("1", "a"), ("2", "b"), ("3", "None")]
    assert [entry["operation"] for entry in table.history()][1:4:2] == ["CHANGE COLUMN", "CHANGE COLUMN"]
    with pytest.raises(InvalidArgumentError, match="has no default"):
        table.alter.drop_column_default("name")
    for sql in ("id", "5 +", "other(1"):
        with pytest.raises(InvalidPredicateError, match="the default of column 'name' is not valid"):
            table.alter.set_column_default("name", sql)
    assert table.version() == 4


@pytest.mark.parametrize(
    ("kind", "default", "error", "text"),
    [
        ("long", "'many'", InvalidPredicateError, "cannot be assigned to a column of type long"),
        ("byte", "1000", InvalidPredicateError, "out of the range of type byte"),
        ("long", "id", InvalidPredicateError, "'id' does not exist"),
        ("long", "max(1)", InvalidPredicateError, "cannot be evaluated for a single row"),
        ("long", 5, UnsupportedFeatureError, "expected SQL"),
    ],
)
def test_defaults_that_are_refused(tmp_path: Path, kind: str, default: Any, error: type[DeltaError], text: str) -> None:
    with pytest.raises(error, match=text):
        DeltaTable.create(
            tmp_path, Schema([Field("id", "long"), Field("new", kind, metadata={"CURRENT_DEFAULT": default})])
        )
    assert not (tmp_path / "_delta_log").exists()


def test_a_generated_column_or_a_member_has_no_default(tmp_path: Path) -> None:
    both = Field("twice", "long", metadata={"CURRENT_DEFAULT": "1", "delta.generationExpression": "id * 2"})
    inner = Schema([Field("a", "long", metadata={"CURRENT_DEFAULT": "1"})])
    for field in (both, Field("outer", inner)):
        with pytest.raises(InvalidSchemaError, match="has a default and is") as refused:
            DeltaTable.create(tmp_path, Schema([Field("id", "long"), field]))
        assert refused.value.code == "DELTA_INVALID_COLUMN_DEFAULT"


def test_a_generated_column_reads_an_empty_partition_default_as_null(tmp_path: Path) -> None:
    empty = Field("p", "string", metadata={"CURRENT_DEFAULT": "''"})
    generated = Field("g", "boolean", metadata={"delta.generationExpression": "p IS NULL"})
    features = {"delta.feature.allowColumnDefaults": "supported"}
    schema = Schema([Field("id", "long"), empty, generated])
    DeltaTable.create(tmp_path, schema, partition_by=["p"], configuration=features)
    write_deltalake(tmp_path, pa.table({"id": [1]}), mode="append")
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"id": 1, "p": None, "g": True}]
