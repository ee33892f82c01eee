"""Row rules on both engines and at every depth; a refused write leaves no files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.columns import as_schema, struct_type
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import ConstraintViolatedError, InvalidSchemaError, StoreError
from lakehouse_lib.schema import Field, Schema
from tests.lakehouse_lib.schema.nested_rows import ROWS, RULES, SCHEMA, arrow
from tests.peers import parquet_files, read_delta_rs

GOOD = {
    "id": 1,
    "point": {"x": 1, "label": None},
    "tags": ["a"],
    "path": [[{"x": 1, "label": "a"}, None], None],
    "scores": {"k": {"n": 1}},
    "p.q": {"a_b": 1},
}
BAD = {
    "NOT NULL id": {"id": None},
    "NOT NULL point.x": {"point": {"x": None, "label": "a"}},
    "NOT NULL tags.element": {"tags": ["a", None]},
    "NOT NULL path.element.element.x": {"path": [None, [{"x": None, "label": "a"}]]},
    "NOT NULL scores.value": {"scores": {"k": None}},
    "NOT NULL scores.value.n": {"scores": {"k": {"n": None}}},
    "NOT NULL p.q": {"p.q": None},
    "NOT NULL p.q.a_b": {"p.q": {"a_b": None}},
}


@pytest.mark.parametrize("rule", BAD)
def test_a_row_that_violates_a_rule_is_refused(tmp_path: Path, engine: Engine, rule: str) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    rows = pa.Table.from_batches([arrow([GOOD, GOOD | BAD[rule]])])
    with pytest.raises(ConstraintViolatedError) as refused:
        write_deltalake(tmp_path, rows, mode="append", engine=engine)
    assert refused.value.message.startswith(f"the data violates {rule}: ")
    assert refused.value.table == str(tmp_path)
    assert DeltaTable(tmp_path).version() == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_nulls_of_a_partition_column(tmp_path: Path, engine: Engine) -> None:
    required = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False)])
    DeltaTable.create(tmp_path, required, partition_by=["p"])
    before = parquet_files(tmp_path)
    nulls = [{"a": [1, None], "p": ["x", "x"]}, {"a": [1, 2], "p": ["x", None]}]
    for bad in (*nulls, {"a": [1, 2], "p": ["x", ""]}):  # the log cannot have empty text
        with pytest.raises(ConstraintViolatedError):
            write_deltalake(tmp_path, pa.table(bad), mode="append", engine=engine)
    assert DeltaTable(tmp_path).version() == 0
    assert parquet_files(tmp_path) == before
    write_deltalake(tmp_path, pa.table({"a": [1], "p": ["x"]}), mode="append", engine=engine)
    assert read_delta_rs(tmp_path).to_pylist() == [{"a": 1, "p": "x"}]


def test_nulls_in_nullable_columns_are_written(tmp_path: Path, engine: Engine) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    nulls = dict.fromkeys(("point", "tags", "path", "scores"))
    rows = pa.Table.from_batches([arrow([GOOD, GOOD | nulls | {"id": 2}])])
    write_deltalake(tmp_path, rows, mode="append", engine=engine)
    written = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist()
    assert [dict(row, scores=None if row["scores"] is None else dict(row["scores"])) for row in written] == [
        GOOD,
        GOOD | nulls | {"id": 2},
    ]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None], pa.int64()),
        pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        pa.array([{"x": 1}, {"x": None}], pa.struct([("x", pa.int64())])),
        pa.array([[1], [None]], pa.list_(pa.int64())),
    ],
    ids=["column", "null struct", "member", "element"],
)
def test_nulls_that_another_writer_left_are_compacted(tmp_path: Path, engine: Engine, values: pa.Array) -> None:
    for mode in ("error", "append"):
        write_deltalake(tmp_path, pa.table({"a": values}), mode=mode)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    for flag in ("nullable", "containsNull"):
        log.write_text(log.read_text().replace(rf"\"{flag}\":true", rf"\"{flag}\":false"))
    for checksum in tmp_path.rglob("*.crc"):
        checksum.unlink()
    assert DeltaTable(tmp_path, engine=engine).optimize.compact()["numFilesRemoved"] == 2
    assert DeltaTable(tmp_path).to_pyarrow_table()["a"].to_pylist() == 2 * values.to_pylist()


@given(ROWS)
@settings(max_examples=10, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_forms_of_a_rule_refuse_the_same_rows(spark: SparkSession, rows: list[dict]) -> None:
    batch = arrow(rows)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), struct_type(as_schema(SCHEMA)))
    refused = frame.select(*[(~F.expr(rule.condition)).alias(str(i)) for i, rule in enumerate(RULES.values())])
    by_spark = [list(row) for row in refused.collect()]
    by_arrow = [list(row) for row in zip(*(rule.violations(batch).tolist() for rule in RULES.values()), strict=True)]
    assert sorted(by_spark) == sorted(by_arrow)


@pytest.mark.slow
def test_three_hundred_required_columns_are_written(tmp_path: Path, spark: SparkSession) -> None:
    names = [f"c{number}" for number in range(300)]
    DeltaTable.create(tmp_path, Schema([Field(name, "long", nullable=False) for name in names]))
    # Nullable as far as Spark knows, so that no check is left out.
    frame = spark.range(10).select(*[F.when(F.col("id") >= 0, F.col("id")).alias(name) for name in names])
    write_deltalake(tmp_path, frame, mode="append", engine=SparkEngine(spark))
    assert DeltaTable(tmp_path).count() == 10


def test_a_value_that_looks_like_a_refusal_is_written(tmp_path: Path, spark: SparkSession) -> None:
    DeltaTable.create(tmp_path, Schema([Field("k", "long", nullable=False)]))
    frame = spark.sql("SELECT CAST('lakehouse refuses a row <0>' AS long) AS k")
    with pytest.raises(StoreError):
        write_deltalake(tmp_path, frame, mode="append", engine=SparkEngine(spark))


def test_a_void_column_that_is_not_null_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchemaError):
        DeltaTable.create(tmp_path, Schema([Field("v", "void", nullable=False), Field("k", "long")]))
