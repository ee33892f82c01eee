"""The columns to Z-order by, from SQL and from an event log that Spark has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.cli.main import main
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.query_log import column_uses, filtered_columns, suggested_columns

SQL = """
SELECT * FROM shop.orders WHERE customer = 7;
SELECT count(*) FROM orders o JOIN items i ON o.id = i.order_id WHERE o.customer IN (1, 2) AND i.price > 5;
SELECT * FROM orders WHERE day >= DATE '2026-01-01' AND lower(text) = 'x' AND Customer BETWEEN 1 AND 5;
UPDATE orders SET text = 'y' WHERE id = 4;
SELECT * FROM items WHERE order_id = 3;
SELECT * FROM orders WHERE text LIKE '%x' OR day LIKE '2026%';
SELECT * FROM orders WHERE customer = (SELECT max(customer) FROM people)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = pa.table({"id": [1], "customer": [1], "text": ["a"], "day": ["2026-01-01"], "list": [[1]]})
    write_deltalake(tmp_path / "orders", rows, partition_by=["day"])
    return tmp_path / "orders"


def test_columns_that_sql_compares_with_constants(table: Path) -> None:
    queries = filtered_columns(SQL, "orders", str(table))
    assert [sorted(name.lower() for name in columns) for columns in queries] == [
        ["customer"],
        ["customer"],
        ["customer", "day"],
        ["id"],
        ["day"],
        [],
    ]
    uses = column_uses(DeltaTable(table).snapshot, queries)
    assert [(use.column, use.share) for use in uses][:1] == [("customer", 0.5)]
    assert {use.column: use.reason for use in uses}["day"] == "column 'day' is a partition column"
    assert suggested_columns(uses)[:2] == ("customer", "id")


def test_text_that_is_not_sql_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the queries are not valid SQL"):
        filtered_columns("SELECT FROM WHERE (", "orders", "/t")


@pytest.mark.slow
def test_an_event_log_of_spark_has_the_pushed_filters(table: Path, tmp_path: Path, spark: Any) -> None:
    plans = []
    for condition in ("id = 5", "customer > 3 AND id IN (1, 2)"):
        frame = spark.read.parquet(str(table)).where(condition)
        plans.append(frame._jdf.queryExecution().explainString(_formatted(spark)))
    events = [
        {
            "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
            "executionId": number,
            "physicalPlanDescription": plan,
        }
        for number, plan in enumerate(plans)
    ]
    text = "\n".join(map(json.dumps, [{"Event": "SparkListenerLogStart"}, *events])) + '\n{"Event": "torn'
    assert filtered_columns(text, "orders", str(table)) == [frozenset({"id"}), frozenset({"customer", "id"})]
    assert filtered_columns(text, "orders", "/elsewhere") == []


@pytest.mark.parametrize(
    ("scanned", "location", "is_scan_of_table"),
    [
        ("file:/data/orders", "/data/orders", True),
        ("file:/data/orders", "file:///data/orders/", True),
        ("file:/data/orders/day=1, file:/data/orders/day=2", "/data/orders", True),
        ("s3a://lake/orders", "s3://lake/orders", True),
        ("file:/data/orders_2", "/data/orders", False),
        ("file:/old/data/orders", "/data/orders", False),
    ],
)
def test_scans_of_other_tables_do_not_count(scanned: str, location: str, is_scan_of_table: bool) -> None:
    plan = f"(1) Scan parquet \nLocation: InMemoryFileIndex [{scanned}]\nPushedFilters: [EqualTo(id,5)]\n"
    event = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 1,
        "physicalPlanDescription": plan,
    }
    queries = filtered_columns(json.dumps(event), "orders", location)
    assert queries == ([frozenset({"id"})] if is_scan_of_table else [])


def _formatted(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")


def test_the_command_suggests_columns(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "queries.sql").write_text(SQL)
    assert main(["columns", str(table), "--queries", str(tmp_path / "queries.sql")]) == 0
    assert "Z-order by: customer, id" in capsys.readouterr().out
    assert main(["columns", str(table), "--queries", str(tmp_path / "nothing.sql")]) == 1
