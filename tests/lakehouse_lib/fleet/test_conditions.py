"""Conditions that tables meet, on tables that delta-rs has written, and the verdicts on real loads."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.errors import InvalidArgumentError, QualityError
from lakehouse_lib.fleet.conditions import (
    Condition,
    Fresh,
    PartitionPresent,
    QualityPassed,
    SmallFilesBelow,
    VersionReached,
    condition_of,
    to_dict,
)
from lakehouse_lib.fleet.versions import latest_version
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.state import source_state
from lakehouse_lib.store import LocalStore, open_store
from tests.spark_jobs.loading import PRICE_RULE, Shop

NOW = datetime.now(UTC)
HOUR = 3600.0


def checked(condition: Condition, table: Path) -> dict[str, Any] | None:
    """The answer of a condition that has been sent to another process."""
    store = open_store(str(table))
    version = latest_version(store)
    assert version is not None
    return condition_of(to_dict(condition)).check(store, version)


def written(table: Path, **columns: list[Any]) -> Path:
    deltalake.write_deltalake(str(table), pa.table(columns), mode="append")
    return table


def made_older(table: Path, version: int, by: float) -> None:
    """Date the commit file of a version back by some seconds."""
    then = time.time() - by
    os.utime(table / "_delta_log" / f"{version:020d}.json", (then, then))


@pytest.mark.parametrize(
    ("version", "baseline", "target", "expected"),
    [
        (0, -1, None, True),
        (3, 3, None, False),
        (4, 3, None, True),
        (3, 3, 4, False),
        (4, None, 5, False),
        (5, None, 5, True),
        (6, 3, 8, False),
        (8, 3, 8, True),
        (8, 8, 8, False),
    ],
)
def test_a_version_is_reached(
    tmp_path: Path, version: int, baseline: int | None, target: int | None, expected: bool
) -> None:
    for allow_recreation in (False, True):
        answer = VersionReached(baseline, target, allow_recreation).check(LocalStore(str(tmp_path)), version)
        assert answer == ({"version": version, "baseline_version": baseline} if expected else None)


def test_a_recreated_table_is_an_error_or_a_change(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    assert VersionReached(7, allow_recreation=True).check(store, 0) == {"version": 0, "baseline_version": 7}
    with pytest.raises(InvalidArgumentError, match=r"version is 0.*baseline 7.*allow_recreation"):
        VersionReached(7).check(store, 0)


def test_the_newest_commit_with_rows_decides_how_fresh_a_table_is(tmp_path: Path) -> None:
    table = written(tmp_path / "t", id=[1])
    written(table, id=[2])
    answer = checked(Fresh(HOUR), table)
    assert answer is not None
    assert answer["version"] == 1
    assert answer["age_seconds"] < HOUR
    for version in (0, 1):
        made_older(table, version, 2 * HOUR)
    assert checked(Fresh(HOUR), table) is None
    deltalake.DeltaTable(str(table)).optimize.compact()  # changes no rows, whenever it runs
    assert deltalake.DeltaTable(str(table)).version() == 2
    assert checked(Fresh(HOUR), table) is None
    old = checked(Fresh(3 * HOUR), table)
    assert old is not None
    assert old["version"] == 1


def test_fresh_reads_only_young_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "t"
    for number in range(4):
        written(table, id=[number])
    for version in range(3):
        made_older(table, version, 2 * HOUR)
    reads: list[str] = []
    read = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: [reads.append(path), read(self, path)][1])
    assert checked(Fresh(HOUR), table) is not None
    assert not any(f"{version:020d}" in path for version in range(3) for path in reads)


@pytest.mark.parametrize(
    ("values", "fresh_at", "stale_at"),
    [
        ([NOW - timedelta(hours=5), NOW - timedelta(hours=2)], 3 * HOUR, HOUR),
        ([NOW.replace(tzinfo=None) - timedelta(hours=2)], 3 * HOUR, HOUR),
        ([NOW.date() - timedelta(days=9), NOW.date() - timedelta(days=1)], 49 * HOUR, 23 * HOUR),
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_the_newest_value_of_a_column_decides(
    tmp_path: Path, values: list[Any], fresh_at: float, stale_at: float, partitioned: bool
) -> None:
    rows = pa.table({"at": values, "id": list(range(len(values)))})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["at"] if partitioned else None)
    answer = checked(Fresh(fresh_at, "AT"), tmp_path / "t")
    assert answer is not None
    newest = max(values)
    assert datetime.fromisoformat(answer["newest"]).date() == (newest.date() if hasattr(newest, "date") else newest)
    assert checked(Fresh(stale_at, "at"), tmp_path / "t") is None


def test_a_column_without_values_is_not_fresh_and_a_number_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
    deltalake.write_deltalake(str(table), pa.table({"at": [None], "id": [1]}, schema=schema))
    assert checked(Fresh(HOUR, "at"), table) is None
    with pytest.raises(InvalidArgumentError, match="'id' is of type long; expected date"):
        checked(Fresh(HOUR, "id"), table)
    with pytest.raises(InvalidArgumentError, match="'none' does not exist"):
        checked(Fresh(HOUR, "none"), table)


def test_a_partition_is_present_by_its_typed_value(tmp_path: Path) -> None:
    rows = pa.table({"day": [date(2026, 1, 31), date(2026, 1, 31), None], "n": [1, 2, 1], "id": [1, 2, 3]})
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), rows, partition_by=["day", "n"])
    assert checked(PartitionPresent({"day": "2026-01-31"}), table) == {"version": 0, "files": 2}
    assert checked(PartitionPresent({"DAY": "2026-01-31", "n": "2"}), table) == {"version": 0, "files": 1}
    assert checked(PartitionPresent({"day": "2026-01-31", "n": 2}), table) == {"version": 0, "files": 1}
    assert checked(PartitionPresent({"day": None}), table) == {"version": 0, "files": 1}
    assert checked(PartitionPresent({"day": "2026-02-01"}), table) is None
    deltalake.DeltaTable(str(table)).delete("day = '2026-01-31'")
    assert checked(PartitionPresent({"day": "2026-01-31"}), table) is None
    with pytest.raises(InvalidArgumentError, match=r"'id' is not a partition column; .* day, n"):
        checked(PartitionPresent({"id": 1}), table)
    with pytest.raises(InvalidArgumentError, match="'soon' is not a value of the partition column 'day' of type date"):
        checked(PartitionPresent({"day": "soon"}), table)


def test_a_partition_of_not_a_number_is_present(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = pa.table({"x": [1.0, float("nan"), None], "id": [1, 2, 3]})
    deltalake.write_deltalake(str(table), rows.slice(0, 1), partition_by=["x"])
    assert checked(PartitionPresent({"x": float("nan")}), table) is None
    deltalake.write_deltalake(str(table), rows.slice(1), partition_by=["x"], mode="append")
    for value in (float("nan"), "NaN", None, 1.0):
        assert checked(PartitionPresent({"x": value}), table) == {"version": 1, "files": 1}


def test_bytes_are_refused_and_plain_values_become_text() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the value of the partition column 'b' is b'x'; expected text"):
        PartitionPresent({"a": 1, "b": b"x"})
    sent = json.loads(json.dumps(to_dict(PartitionPresent({"day": date(2026, 1, 31), "n": 2, "x": None}))))
    assert condition_of(sent) == PartitionPresent({"day": "2026-01-31", "n": "2", "x": None})


def test_small_files_are_those_that_compaction_merges(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for number in range(3):
        written(table, id=[number])
    assert checked(SmallFilesBelow(3), table) is None
    assert checked(SmallFilesBelow(4), table) == {"version": 2, "small_files": 3}
    assert checked(SmallFilesBelow(1, target_file_size=10), table) == {"version": 2, "small_files": 0}
    deltalake.DeltaTable(str(table)).optimize.compact()
    assert checked(SmallFilesBelow(2), table) == {"version": 3, "small_files": 1}


def verdict(shop: Shop, **options: Any) -> dict[str, Any] | None:
    return checked(QualityPassed("erp", str(shop.quarantine), **options), shop.table)


def test_a_batch_without_rejected_rows_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    suite = {"name": "s", "expectations": [PRICE_RULE]}
    source = shop.source(suite=suite)
    shop.land("a.csv", "1,5,x")
    Load(source).run()
    assert verdict(shop) == {"version": 0, "batch": 0, "has_rejected_rows": False}

    shop.land("b.csv", "2,5,x", "3,-5,x")
    Load(source).run()
    assert verdict(shop) is None
    assert verdict(shop, allow_rejected_rows=True) == {"version": 1, "batch": 1, "has_rejected_rows": True}

    shop.land("c.csv", "4,5,x")
    with monkeypatch.context() as killed:  # after the decision to load the batch, before its commit
        killed.setattr(Batch, "_commit", lambda self, plan, written: self._decide_to_load({}) or exit())
        with pytest.raises(SystemExit):
            Load(source).run()
    assert verdict(shop, allow_rejected_rows=True) is None
    Load(source).run()
    assert verdict(shop) == {"version": 2, "batch": 2, "has_rejected_rows": False}


def test_a_batch_that_is_given_up_or_has_a_refused_file_fails(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,5,x")
    Load(shop.source()).run()
    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 5}, "meta": {"rule_id": "five"}}
    shop.land("b.csv", "2,5,x")
    with pytest.raises(QualityError):
        Load(shop.source(suite={"name": "s", "expectations": [rule]})).run()
    assert verdict(shop, allow_rejected_rows=True) is None
    shop.land("b2.csv", "2,5,x")
    Load(shop.source(files_per_batch=10)).run()
    assert verdict(shop) == {"version": 1, "batch": 2, "has_rejected_rows": False}
    shop.land("c.csv", "3,5,x")
    (shop.landing / "d.csv").write_text("other,columns\n1,2\n")
    result = Load(shop.source(files_per_batch=10)).run()
    assert list(result.refused) == ["d.csv"]
    assert verdict(shop, allow_rejected_rows=True) is None


def test_a_folded_batch_keeps_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_state, "_MOST_BATCHES", 1)
    shop = Shop(tmp_path)
    for name in ("a.csv", "b.csv"):
        shop.land(name, "1,5,x")
        Load(shop.source()).run()
    assert not list((shop.table / "_ingest" / "erp").glob("0*.json"))
    assert verdict(shop) == {"version": 1, "batch": 1, "has_rejected_rows": False}
    shop.land("c.csv", "2,5,x")
    (shop.landing / "d.csv").write_text("other,columns\n1,2\n")
    Load(shop.source(files_per_batch=10)).run()
    assert not list((shop.table / "_ingest" / "erp").glob("0*.json"))
    assert verdict(shop) is None


@pytest.mark.parametrize("quarantine", ["s3://lake/rejected", "file:///data/rejected"])
def test_a_quarantine_in_another_kind_of_store_is_refused(tmp_path: Path, quarantine: str) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,5,x")
    Load(shop.source()).run()
    with pytest.raises(InvalidArgumentError, match=f"'{quarantine}' is in another kind of store than the table"):
        checked(QualityPassed("erp", quarantine), shop.table)


def test_without_a_batch_there_is_no_verdict(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    written(shop.table, id=[1])
    assert verdict(shop) is None
