"""CHECK constraints and column invariants: every verb refuses the same rows on both engines and leaves no file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_lib import DeltaTable, Field, Schema, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.columns import as_schema, struct_type
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    InvalidPredicateError,
    UnsupportedFeatureError,
)
from lakehouse_lib.features.constraints.check_constraints import rule_of
from tests.log_builder import field, metadata, protocol, put
from tests.peers import parquet_files, read_by_all
from tests.slow_cases import some_slow

ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "a", "b"], "price": [1.0, 2.5, None]})
CHECK = {"delta.constraints.positive": "id > 0"}
ABOVE_ZERO = r"the data violates CHECK positive \(id > 0\): "


def of(*ids: int | None) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": ["a"] * len(ids), "price": [1.0] * len(ids)})


def merge(table: DeltaTable, source: pa.Table, clause: str) -> None:
    merger = table.merge(source, "target.id = source.id")
    {
        "insert": lambda: merger.when_not_matched_insert_all(),
        "update": lambda: merger.when_matched_update({"id": "-target.id"}),
        "by source": lambda: merger.when_not_matched_by_source_update({"id": "target.id - 5"}),
    }[clause]().execute()


VERBS: dict[str, Callable[[DeltaTable], object]] = {
    "append": lambda table: write_deltalake(table, of(7, -7), mode="append"),
    "append null": lambda table: write_deltalake(table, of(7, None), mode="append"),
    "overwrite": lambda table: write_deltalake(table, of(-7), mode="overwrite"),
    "overwrite schema": lambda table: write_deltalake(
        table, of(-7).drop(["price"]), mode="overwrite", schema_mode="overwrite"
    ),
    "update": lambda table: table.update({"id": "id - 2"}, predicate="id < 3"),
    "update to null": lambda table: table.update({"id": "NULL"}, predicate="id = 3"),
    "merge insert": lambda table: merge(table, of(1, -7), "insert"),
    "merge update": lambda table: merge(table, of(1), "update"),
    "merge by source": lambda table: merge(table, of(1), "by source"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copies", "vectors"])
def test_every_verb_refuses_violations(tmp_path: Path, engine: Engine, verb: str, properties: dict[str, str]) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=["part"], configuration=CHECK | properties)
    before = parquet_files(tmp_path)
    table = DeltaTable(tmp_path, engine=engine)
    with pytest.raises(
        ConstraintViolatedError, match=ABOVE_ZERO + r"\d+ (rows?|of \d+ rows), such as \{'id': "
    ) as refused:
        VERBS[verb](table)
    assert refused.value.table == str(tmp_path)
    assert DeltaTable(tmp_path).version() == 0
    assert parquet_files(tmp_path) == before


def test_rows_that_satisfy_the_constraint_are_written(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=["part"], configuration=CHECK)
    table = DeltaTable(tmp_path, engine=engine)
    write_deltalake(table, of(7, 8), mode="append")
    table.update({"price": "price * 2"}, predicate="id = 1")
    merge(table, of(8, 9), "insert")
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [1, 2, 3, 7, 8, 9]
    assert deltalake.DeltaTable(tmp_path).protocol().min_writer_version == 3


def test_the_count_and_ten_rows_are_shown(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS, configuration=CHECK)
    with pytest.raises(ConstraintViolatedError) as refused:
        write_deltalake(tmp_path, of(*range(-50, 50)), mode="append", engine=engine)
    assert "51 " in refused.value.message
    assert refused.value.message.count("'id': ") == 10


INVARIANT = json.dumps({"expression": {"expression": "x < 5"}})


@pytest.mark.parametrize("nested", [False, True], ids=["column", "member"])
def test_invariants_of_another_writer(tmp_path: Path, engine: Engine, nested: bool) -> None:
    if nested:
        member = field("y", "long", **{"delta.invariants": INVARIANT.replace("x <", "s.y <")})
        columns = [field("x", "long"), field("s", {"type": "struct", "fields": [member]})]
        rows: dict[str, Any] = {"x": [1, 2], "s": [{"y": 1}, {"y": 5}]}
    else:
        columns = [field("x", "long", **{"delta.invariants": INVARIANT})]
        rows = {"x": [1, 5]}
    put(tmp_path, 0, protocol(writer=["invariants"]), metadata(*columns))
    name = r"the invariant of s.y \(s.y < 5\)" if nested else r"the invariant of x \(x < 5\)"
    with pytest.raises(ConstraintViolatedError, match=f"{name}: 1 "):
        write_deltalake(tmp_path, pa.table(rows), mode="append", engine=engine)
    write_deltalake(tmp_path, pa.table(rows).slice(0, 1), mode="append", engine=engine)
    assert DeltaTable(tmp_path).count() == 1
    assert len(parquet_files(tmp_path)) == 1


@pytest.mark.parametrize("text", ["{}", "x > 5", '{"expression": {"expression": 5}}'])
def test_an_invariant_that_is_not_a_condition_is_refused(tmp_path: Path, text: str) -> None:
    put(tmp_path, 0, protocol(writer=["invariants"]), metadata(field("x", "long", **{"delta.invariants": text})))
    with pytest.raises(UnsupportedFeatureError, match="the invariant of column x"):
        write_deltalake(tmp_path, pa.table({"x": [1]}), mode="append")
    assert not parquet_files(tmp_path)


def test_a_constraint_on_a_dropped_column_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration=CHECK)
    with pytest.raises(InvalidPredicateError, match=r"CHECK positive .*alter.drop_constraint\('positive'\)") as refused:
        write_deltalake(tmp_path, ROWS.drop(["id"]), mode="overwrite", schema_mode="overwrite")
    assert refused.value.table == str(tmp_path)
    assert DeltaTable(tmp_path).version() == 0


@pytest.mark.parametrize("rewrite", ["compact", "z_order"])
def test_rewrites_and_deletes_skip_the_rules(tmp_path: Path, engine: Engine, rewrite: str) -> None:
    """Rows that another writer left are copied, although they violate the constraint, as by delta-spark."""
    for number in range(3):
        write_deltalake(tmp_path, of(number, -number), mode="append")
    meta = DeltaTable(tmp_path).snapshot.metadata.to_json()
    put(tmp_path, 3, protocol(writer=["checkConstraints"]), {"metaData": meta | {"configuration": CHECK}})
    table = DeltaTable(tmp_path, engine=engine)
    metrics = table.optimize.compact() if rewrite == "compact" else table.optimize.z_order(["id"])
    assert metrics["numFilesRemoved"] == 3
    assert table.delete("id = 2")["num_deleted_rows"] == 1
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [-2, -1, 0, 0, 1]
    table.update({"price": "price + 1"}, predicate="id = 1")  # only updated rows are checked
    with pytest.raises(ConstraintViolatedError, match=ABOVE_ZERO):
        table.update({"price": "price + 1"}, predicate="id = -1")


# Conditions that only Spark can evaluate.

UPPER = {"delta.constraints.upper": "part RLIKE '^[A-Z]'"}


def test_arrow_refuses_constraints_that_only_spark_can_check(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS.slice(0, 0), configuration=UPPER)
    table = DeltaTable(tmp_path)
    for verb in (
        lambda: write_deltalake(table, ROWS, mode="append"),
        lambda: table.alter.add_constraint({"lower": "part RLIKE '^[a-z]'"}),
    ):
        with pytest.raises(InvalidPredicateError, match=r"CHECK (upper|lower) .* cannot be checked: only Spark") as no:
            verb()
        assert no.value.code == "DELTA_PREDICATE_NEEDS_SPARK"
    assert DeltaTable(tmp_path).version() == 0
    assert not parquet_files(tmp_path)


def test_spark_checks_constraints_that_arrow_cannot_check(tmp_path: Path, spark: SparkSession) -> None:
    rows = pa.table({"id": [1, 2], "part": ["A", "B"]})
    write_deltalake(tmp_path, rows)
    table = DeltaTable(tmp_path, engine=SparkEngine(spark))
    with pytest.raises(ConstraintViolatedError, match=r"CHECK lower .*: 2 rows, such as \{'part': 'A', 'id': 1\}, \{"):
        table.alter.add_constraint({"lower": "part RLIKE '^[a-z]'"})
    table.alter.add_constraint({"upper": "part RLIKE '^[A-Z]'"})
    before = parquet_files(tmp_path)
    for verb in (
        lambda: write_deltalake(table, pa.table({"id": [3, 4], "part": ["C", "d"]}), mode="append"),
        lambda: table.update({"part": "'d'"}, predicate="id = 1"),
    ):
        with pytest.raises(
            ConstraintViolatedError, match=r"CHECK upper \(part RLIKE '\^\[A-Z\]'\): 1 row, such as \{'part"
        ):
            verb()
    with pytest.raises(InvalidPredicateError, match=r"CHECK upper .* cannot be checked") as refused:  # not in a merge
        merge(table, pa.table({"id": [3], "part": ["C"]}), "insert")
    assert refused.value.code == "DELTA_PREDICATE_NEEDS_SPARK"
    assert (table.version(), parquet_files(tmp_path)) == (1, before)
    table.update({"part": "'C'"}, predicate="id = 1")
    assert sorted(read_by_all(tmp_path)["part"].to_pylist()) == ["B", "C"]


# Both forms of a rule.

COLUMNS = Schema(
    [Field("n", "integer"), Field("d", "double"), Field("t", "string"), Field("b", "boolean"), Field("day", "date")]
)
CONDITIONS = [
    "n > 2",
    "n BETWEEN 1 AND 3 OR t IS NULL",
    "NOT (n = 2)",
    "NOT (n > 1 AND d < 1.5)",
    "d >= 0.5",
    "b",
    "NOT b OR n IN (1, 2)",
    "n NOT IN (1, NULL)",
    "t LIKE 'a%' AND n IS NOT NULL",
    "t <=> 'ab'",
    "day > '2026-01-02'",
    "CASE WHEN n > 2 THEN b ELSE t = 'a' END",
    "coalesce(n, 0) + 1 < d * 2",
    "length(t) < 2 OR n % 2 = 0",
    "1 = 1",
    "NULL",
]


def random_rows(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    values: dict[str, list[Any]] = {
        "n": [None, 0, 1, 2, 3],
        "d": [None, 0.0, 0.5, 1.5, float("nan")],
        "t": [None, "", "a", "ab", "b"],
        "b": [None, True, False],
        "day": [None, 20_454, 20_455, 20_456],
    }
    return [{name: chance.choice(of_column) for name, of_column in values.items()} for _ in range(200)]


def test_both_engines_refuse_the_same_rows(spark: SparkSession) -> None:
    rows = pa.RecordBatch.from_pylist(random_rows(1), COLUMNS.to_arrow())
    rules = [rule_of("c", condition, COLUMNS) for condition in CONDITIONS]
    frame = spark.createDataFrame(pa.Table.from_batches([rows]), struct_type(as_schema(COLUMNS)))
    refused = frame.select(*[(~F.coalesce(F.expr(rule.condition), F.lit(False))).alias(rule.name) for rule in rules])
    by_spark = [list(column) for column in zip(*refused.collect(), strict=True)]
    for rule, expected in zip(rules, by_spark, strict=True):
        assert rule.violations(rows).tolist() == expected, rule.name


@pytest.mark.parametrize("seed", some_slow(range(3), 1))
def test_a_constraint_is_refused_if_duckdb_finds_violating_rows(tmp_path: Path, seed: int) -> None:
    rows = pa.Table.from_pylist(random_rows(seed), COLUMNS.to_arrow())
    for start in range(0, len(rows), 60):
        write_deltalake(tmp_path, rows.slice(start, 60), mode="append")
    table = DeltaTable(tmp_path)
    for number, condition in enumerate(CONDITIONS):
        in_duckdb = condition.replace("<=>", "IS NOT DISTINCT FROM")
        (count,) = duckdb.sql(f"SELECT count(*) FROM rows WHERE ({in_duckdb}) IS NOT TRUE").fetchone() or (None,)
        if not count:
            table.alter.add_constraint({f"c{number}": condition})
            continue
        with pytest.raises(ConstraintViolatedError, match=rf"CHECK c{number} .*: {count} rows?, "):
            table.alter.add_constraint({f"c{number}": condition})
        with pytest.raises(deltalake.exceptions.DeltaError):
            deltalake.DeltaTable(tmp_path).alter.add_constraint({f"c{number}": condition})
