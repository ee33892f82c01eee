"""The parts of a table's page: partitions, schema changes, time line, and the page of a table that is large."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_airflow.commit_info import WITHHELD
from lakehouse_airflow.pages import health_cache
from lakehouse_airflow.pages.views.commit import commit_of
from lakehouse_airflow.pages.views.partitions import partition_lists
from lakehouse_airflow.pages.views.quality import Quality, quality_of
from lakehouse_airflow.pages.views.time_line import time_line_of
from lakehouse_lib import DeltaTable, Field, commit_metadata, write_deltalake
from lakehouse_lib.fleet.health.fleet_health import record_health
from lakehouse_lib.fleet.health.partitions import HeavyPartitions, Partition
from lakehouse_lib.fleet.health.record import HealthRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.ingestion.batches.reports import BatchCommit, BatchReport
from lakehouse_lib.store import open_store
from tests.airflow.dag_runs import api_client
from tests.airflow.pages.page_text import text_of

pytestmark = pytest.mark.usefixtures("airflow_db")
NASTY = "<script>alert(1)</script>'; DROP TABLE x; --"


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """``orders`` by customer and a hostile column. A column was renamed, another one added and dropped."""
    body = json.loads(registry_file.read_text())
    registry_file.write_text(json.dumps({**body, "records": "records"}))
    root = registry_file.parent / "tables" / "orders"
    mapped = {"delta.columnMapping.mode": "name"}
    for number in range(3):
        rows = pa.table({"o_custkey": [4711] * 5, NASTY: [NASTY, None, "b", "b", "b"], "note": ["x"] * 5})
        first = {"partition_by": ["o_custkey", NASTY], "configuration": mapped} if number == 0 else {}
        with commit_metadata({"userName": NASTY}):
            write_deltalake(root, rows, mode="append", **first)
    table = DeltaTable(root)
    table.alter.rename_column("note", f"{NASTY} remark")
    table.alter.add_columns([Field("price", "double")])
    table.alter.drop_columns(["price"])
    return root


def test_partitions_schema_changes_and_versions_are_text(orders: Path) -> None:
    page = api_client().get("/lakehouse/tables/orders")
    assert page.status_code == 200, page.text
    assert NASTY not in page.text
    text = text_of(page.text)
    assert f"By o_custkey, {NASTY}: 3 partitions." in text
    assert "The largest partitions" in text
    assert "Partitions with the most small files" not in text  # the first list has all partitions
    assert re.search(r"withheld[^0-9]*NULL \S+ \S+ \d+% 3 3", text), text
    assert WITHHELD in text
    assert "4711" not in text  # the customer is a subject, and the column is its key
    assert "price dropped, was double 5 just now" in text
    assert "price added as double 4 just now" in text
    assert f"{NASTY} remark renamed from note 3 just now" in text
    marks = re.findall(r'<a href="([^"]+)" aria-label="([^"]+)"><circle', page.text)
    assert [path.rpartition("/")[2] for path, _ in marks] == ["0", "1", "2", "3", "4", "5"]
    assert "Version 0, " in marks[0][1]
    assert ": WRITE; 5 rows written" in marks[1][1]


def test_a_large_table_is_measured_by_a_second_request(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_cache, "MOST_FILES", 2)
    ann = api_client()
    bare = ann.get("/lakehouse/tables/orders")
    assert bare.status_code == 200, bare.text
    assert "No numbers are recorded" in bare.text
    assert 'data-measure="/lakehouse/tables/orders?measure=true"' in bare.text
    assert "renamed from note" in bare.text
    record = HealthRecord(str(orders.parents[1] / "records"))
    record_health([MaintainedTable("orders", open_store(orders))], record)
    write_deltalake(orders, pa.table({"o_custkey": [1], NASTY: ["b"]}), mode="append")
    recorded = text_of(ann.get("/lakehouse/tables/orders").text)
    assert "The numbers were recorded just now , for version 5." in recorded
    assert " 9 files, " in recorded
    assert "3 partitions" in recorded
    assert "The largest partitions" not in recorded
    measured = ann.get("/lakehouse/tables/orders?measure=true").text
    for page in (measured, ann.get("/lakehouse/tables/orders").text):  # the second is from the cache
        assert "data-measure" not in page
        assert " 10 files, " in text_of(page)
        assert "The largest partitions" in page


def test_the_quality_of_batches() -> None:
    def commit(rows: int, **rules: Any) -> BatchCommit:
        return BatchCommit(1, 1, {"operationMetrics": {"numOutputRows": str(rows)}, "rulesBroken": rules})

    batches = [
        BatchReport(3, "unfinished"),
        BatchReport(2, "loaded", commit=commit(50, price=3, id=4, odd="2"), rejected=(commit(7),)),
        BatchReport(1, "loaded", commit=commit(40, price=3), rejected=(commit(3),)),
        BatchReport(0, "given up", refused={"a": "torn", "b": "torn"}),
    ]
    quality = quality_of(batches)
    assert quality == Quality(4, 1, 90, 10, 2, (("price", 6), ("id", 4)), "unfinished")
    assert quality.rejected_share == 0.1
    assert quality_of([]).rejected_share is None


def test_the_time_line_has_a_lane_for_each_kind_of_operation() -> None:
    def info(version: int, operation: str, moment: Any) -> dict[str, Any]:
        return {"version": version, "timestamp": moment, "operation": operation, "userName": "ann"}

    operations = ["CREATE TABLE", "WRITE", "MERGE", "OPTIMIZE", "ADD COLUMNS", NASTY, ""]
    commits = [commit_of(info(number, name, number * 1000)) for number, name in enumerate(operations)][::-1]
    line = time_line_of([*commits, commit_of(info(9, "WRITE", "soon"))])
    assert line is not None
    lane_at = {y: name for name, y in line.lanes}
    assert [lane_at[mark.y] for mark in line.marks] == [
        "Schema",
        "Rows",
        "Rows",
        "Maintenance",
        "Schema",
        "Rows",
        "Rows",
    ]
    assert [mark.x for mark in line.marks] == sorted(mark.x for mark in line.marks)
    assert line.left == line.marks[0].x < line.marks[-1].x < line.width
    assert line.marks[1].label == "Version 1, 1970-01-01 00:00 UTC: WRITE; by ann"
    assert time_line_of(commits[:1]) is None


def test_lists_of_partitions_are_short_and_their_keys_are_withheld() -> None:
    def partition(value: str | None, size: int, small: int) -> Partition:
        return Partition((value, "k"), 9, size, small)

    heavy = HeavyPartitions(
        ("Day", "Key"), 3, (partition("a", 60, 0), partition(None, 30, 1)), (partition("c", 10, 9),)
    )
    lists = partition_lists(heavy, 100, {"key"})
    assert [row.values for row in lists["The largest partitions"]] == [("a", WITHHELD), ("NULL", WITHHELD)]
    assert [row.share for row in lists["The largest partitions"]] == [0.6, 0.3]
    assert [row.small_files for row in lists["Partitions with the most small files"]] == [9]
    (cut,) = partition_lists(HeavyPartitions(("a", "b"), 1, (partition("x" * 500, 1, 0),), ()), 1, ())[
        "The largest partitions"
    ]
    assert len(cut.values[0]) == 81
    assert partition_lists(None, 1, ()) == {}
