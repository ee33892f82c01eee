"""A load gives the same tables and quarantines in this process, on Spark's executors, and with Great Expectations."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable as OurTable
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.quality_gate import VIOLATIONS
from lakehouse_lib.engine.spark.staged_rows import quarantine_rows
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.batches import batch as batch_module
from lakehouse_lib.ingestion.batches import files as batch_files
from lakehouse_lib.ingestion.batches import shares
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources import file_head
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.file_task import FileTask, load_files
from lakehouse_lib.ingestion.tasks.spark_texts import spark_texts
from lakehouse_lib.schema import Field, Schema
from tests.spark_jobs.loading import Shop
from tests.suite_warnings import SUITE_WARNINGS

pytestmark = [*SUITE_WARNINGS]

SCHEMA = Schema(
    [
        Field("id", "long", nullable=False),
        Field("price", "decimal(15,2)"),
        Field("note", "string"),
        Field("at", "timestamp"),
        Field("share", "double"),
        Field("day", "date"),
    ]
)
RULES = {
    "positive": ("expect_column_values_to_be_between", {"column": "price", "min_value": 0}),
    "named": ("expect_column_values_to_not_be_null", {"column": "note"}),
    "letters": ("expect_column_values_to_match_regex", {"column": "note", "regex": "^[a-z]+$", "mostly": 0.2}),
    "early": ("expect_column_values_to_be_between", {"column": "day", "max_value": "2024-06-30", "mostly": 0.9}),
    "rows": ("expect_table_row_count_to_be_between", {"min_value": 1}),
}
SUITE = {
    "name": "s",
    "expectations": [{"type": kind, "kwargs": of, "meta": {"rule_id": rule}} for rule, (kind, of) in RULES.items()],
}
HEADER = "id,price,note,at,share,day"


def landed(folder: Path) -> Shop:
    """A shop whose files have rows of every fault."""
    shop = Shop(folder)
    for number in range(3):
        rows = [
            f"{number * 100 + row},{row - 3}.{row}0,{'x' * (row % 4)}{row % 2 or ''},2024-01-01T0{row}:00:00.{row}0Z,"
            f"{row}.25e{row},2024-{row + 1:02}-15"
            for row in range(9)
        ]
        shop.land(f"{number}.csv", *rows, "bad,1,x,,,", "7,1", ",,,,,", '50,1,"two', 'lines",,,bad', header=HEADER)
    return shop


@pytest.fixture
def utc(spark: SparkSession) -> SparkSession:
    """A session in UTC, as those of the jobs."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _sorted_rows(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda row: list(map(str, row.values())))


def loaded(shop: Shop, spark: SparkSession | None, **options: Any) -> tuple[Any, ...]:
    """The batch's entry, the rows, and the quarantined rows, as delta-rs reads them."""
    result = Load(shop.source(schema=SCHEMA, files_per_batch=3, **options)).run(spark)
    rows, rejected = (_sorted_rows(table) for table in (shop.table, shop.quarantine))
    return result.batches, rows, rejected


@pytest.mark.parametrize("suite", [None, SUITE], ids=["no suite", "suite"])
def test_executors_and_this_process_write_the_same_rows(
    utc: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: Any
) -> None:
    here = loaded(landed(tmp_path / "here"), None, suite=suite, partition_by=("note",))
    monkeypatch.setattr(batch_module, "IN_PROCESS_BYTES", 0)
    monkeypatch.setattr(batch_files, "task_groups", lambda files, **_: [(file,) for file in files])
    assert loaded(landed(tmp_path / "there"), utc, suite=suite, partition_by=("note",)) == here
    assert len(here[2]) == (9 if suite is None else 30)


@pytest.fixture
def split_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches run on Spark's executors, and a file of more than 200 bytes is split over tasks."""
    monkeypatch.setattr(batch_module, "IN_PROCESS_BYTES", 0)
    for module in (file_head, shares):
        monkeypatch.setattr(module, "HEAD_BYTES", 100)


def one_file(folder: Path) -> Shop:
    shop = Shop(folder)
    rows = [f"{n},{n - 9}.5,{'x' * (n % 4)}{n % 2 or ''},,{n}.5,2024-{n % 12 + 1:02}-15" for n in range(60)]
    shop.land("a.csv", *rows[:25], "bad,1,x,,,", "", *rows[25:], "7,1", "1,bad,,,,bad", header=HEADER)
    return shop


@pytest.mark.usefixtures("split_files")
@pytest.mark.parametrize("judge", ["arrow", pytest.param("great expectations", marks=pytest.mark.slow)])
def test_several_tasks_read_one_file(
    utc: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    options: dict[str, Any] = {"suite": SUITE, "format": SourceFormat("csv", quote=""), "target_file_size": 400}
    here = loaded(one_file(tmp_path / "here"), None, **options)
    tasks: list[FileTask] = []
    run = SparkEngine.run

    def noted(engine: SparkEngine, function: Any, of: Any, *others: Any) -> pa.Table:
        tasks.extend(of if function is load_files else ())
        return run(engine, function, of, *others)

    monkeypatch.setattr(SparkEngine, "run", noted)
    if judge != "arrow":
        monkeypatch.setattr(batch_files, "is_complete", lambda *_: False)
    other = one_file(tmp_path / "there")
    assert loaded(other, utc, **options) == here
    assert len(tasks) == utc.sparkContext.defaultParallelism > 1
    assert {task.files[0].name for task in tasks if task.part is not None} == {"a.csv"}
    assert {line > 30 for line in (row["_line"] for row in here[2])} == {False, True}
    assert other.staged() == []


@pytest.mark.slow
def test_great_expectations_quarantines_what_the_gate_on_arrow_quarantines(
    utc: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded(landed(tmp_path / "here"), None, suite=SUITE)
    monkeypatch.setattr(batch_files, "is_complete", lambda *_: False)
    assert loaded(landed(tmp_path / "there"), utc, suite=SUITE) == here
    assert list((tmp_path / "there" / "sales" / "_ingest").rglob("*.parquet")) == []


@pytest.mark.slow
def test_a_constraint_that_only_spark_evaluates(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    rule = {"delta.constraints.c": "note RLIKE '^x'"}
    OurTable.create(shop.table, shop.source().schema.to_arrow(), configuration=rule)
    shop.land("a.csv", "1,5,x", "bad,5,x")
    assert Load(shop.source()).needs_spark()
    Load(shop.source()).run(spark)
    assert (shop.ids(), len(shop.quarantined())) == ([1], 1)
    shop.land("b.csv", "2,5,y")
    with pytest.raises(QualityError, match="RLIKE"):
        Load(shop.source()).run(spark)
    assert shop.staged() == []


@pytest.mark.slow
def test_texts_of_values_are_those_of_spark(utc: SparkSession) -> None:
    # Not the numbers that Java before version 19 writes with more digits than it has to, such as 2.0E-3 as a float.
    numbers = [0.0, -0.0, 1.0, -2.5, 1e7, 9999999.0, 1e-3, 9.99e-4, 0.1, 123456.75, 1e10, 1.5e300, 100.0, 12.0625]
    numbers += [5e-324, -5e-324, 4e-323, float("nan"), float("inf"), -float("inf")]
    times = [
        dt.datetime(2020, 1, 1),
        dt.datetime(2020, 1, 1, 1, 2, 3, 500_000),
        dt.datetime(1, 1, 1, 0, 0, 0, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 100),
        dt.datetime(9999, 12, 31, 10),
    ]
    columns = {
        "double": pa.array(numbers),
        "float": pa.array([0.5, -1.0, 1e10, 3.25e-5, 0.1, 1e-45, -4e-45, 1e-44, 9e-44], pa.float32()),
        "decimal": pa.array([Decimal("1.25"), Decimal(0), Decimal("-0.50"), None], pa.decimal128(15, 2)),
        "fine": pa.array([Decimal("1E-10"), Decimal(1), Decimal("-0.00000123"), Decimal(0)], pa.decimal128(38, 10)),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "timestamp_ntz": pa.array(times, pa.timestamp("us")),
        "date": pa.array([time.date() for time in times]),
        "boolean": pa.array([True, False, None]),
        "short": pa.array([1, -2, None], pa.int16()),
        "binary": pa.array([b"ab", "é".encode(), None]),
        "string": pa.array(["", "x", None]),
    }
    for name, column in columns.items():
        rows = utc.createDataFrame(pa.table({"value": column})).selectExpr("CAST(value AS STRING)").collect()
        assert spark_texts(column).to_pylist() == [row[0] for row in rows], name


def test_bytes_that_are_not_utf8_have_the_same_text_on_both_engines(utc: SparkSession) -> None:
    column = pa.array([b"\xff\x00", b"a\xfe\xffb", b"\xe2\x82", b"\xf0\x9f\x98x", "é".encode(), b"", None])
    places = pa.table({"value": column, "file": ["f"] * len(column), "line": range(len(column))})
    violations = "array(named_struct('column', 'value', 'reason', 'r', 'rule', 'r'))"
    failing = utc.createDataFrame(places).selectExpr("*", f"{violations} AS {VIOLATIONS}")
    rows = quarantine_rows(
        failing, Schema([Field("value", "binary")]), source="s", batch=0, file_column="file", line_column="line"
    )
    assert [row["value"] for row in rows.collect()] == spark_texts(column).to_pylist()


@pytest.mark.slow
def test_nested_values_have_the_json_of_spark(utc: SparkSession) -> None:
    struct = pa.struct([("a", pa.float64()), ('b "', pa.string())])
    columns = {
        "struct": pa.array([{"a": 1.0, 'b "': 'x "y"\n'}, {"a": None, 'b "': ""}, None, {"a": 1e10}, {}], struct),
        "numbers": pa.array([[1, None], [], None, [2]]),
        "doubles": pa.array([[float("nan"), -float("inf"), 0.5]]),
        "texts": pa.array([["é", "\\", None]]),
        "decimals": pa.array([[Decimal("1.50"), None]], pa.list_(pa.decimal128(20, 2))),
        "days": pa.array([[dt.date(2024, 1, 31)], [None]]),
        "map": pa.array([[("a", [1]), ("b", None)], [], None], pa.map_(pa.string(), pa.list_(pa.int64()))),
        "keys": pa.array([[(7, True)], [(8, None)]], pa.map_(pa.int64(), pa.bool_())),
        "inner": pa.array([[{"a": 1.5}, None, {'b "': "x"}], None], pa.list_(struct)),
    }
    for name, column in columns.items():
        rows = utc.createDataFrame(pa.table({"value": column})).selectExpr("to_json(value)").collect()
        assert spark_texts(column).to_pylist() == [row[0] for row in rows], name
        assert spark_texts(column.slice(1)).to_pylist() == [row[0] for row in rows[1:]], name
