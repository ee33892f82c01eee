"""Uniqueness rules that compare the keys of a batch with those of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from lakehouse_lib.errors import QualityError, UnsupportedFeatureError
from lakehouse_lib.fleet.conditions.load_verdict import last_verdict
from lakehouse_lib.ingestion.batches import batch
from lakehouse_lib.ingestion.batches import files as batch_files
from lakehouse_lib.ingestion.batches.reports import newest_batches
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.store import open_store
from tests.spark_jobs.loading import PRICE_RULE, UNIQUE_IDS, Shop

NEW_ID: dict[str, Any] = {
    "type": "expect_column_values_to_be_unique",
    "kwargs": {"column": "id"},
    "meta": {"rule_id": "id is new", "unique_in": "table"},
}
NEW_NOTE: dict[str, Any] = {
    "type": "expect_compound_columns_to_be_unique",
    "kwargs": {"column_list": ["price", "note"]},
    "meta": {"rule_id": "note is new", "unique_in": "table"},
}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, {"suite": suite(NEW_ID)})


def suite(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"name": "s", "expectations": list(rules)}


def another_writer_adds(shop: Shop, *ids: int) -> None:
    rows = DeltaTable(str(shop.table)).to_pyarrow_table().slice(0, 1).to_pylist()[0]
    schema = DeltaTable(str(shop.table)).to_pyarrow_table().schema
    write_deltalake(
        str(shop.table), pa.Table.from_pylist([{**rows, "id": each} for each in ids], schema), mode="append"
    )


def before_commits(monkeypatch: pytest.MonkeyPatch, event: Callable[[int], None]) -> None:
    """Call ``event`` with the number of the attempt before rows are committed to the table."""
    commit, attempts = batch.commit_once, [0]

    def with_event(*arguments: Any, **options: Any) -> int:
        if options["app_id"] == "erp":
            attempts[0] += 1
            event(attempts[0])
        return commit(*arguments, **options)

    monkeypatch.setattr(batch, "commit_once", with_event)


def test_rows_whose_key_the_table_has_go_to_the_quarantine(shop: Shop) -> None:
    shop.options["suite"] = suite(PRICE_RULE, NEW_ID, NEW_NOTE)
    shop.land("a.csv", "1,5,x", "2,5,y")
    Load(shop.source()).run()
    shop.land("b.csv", "2,6,new", "3,5,x", "4,7,z", "5,7,two", "5,8,two", "6,-1,bad", "6,7,good", "7,9,", "8,9,")
    (entry,) = Load(shop.source()).run().batches
    assert entry["rules_broken"] == {"price not negative": 1, "id is new": 3, "note is new": 1}
    assert (entry["rows_loaded"], entry["rows_quarantined"]) == (4, 5)
    assert shop.ids() == [1, 2, 4, 6, 7, 8]
    assert shop.quarantined() == [
        ("b.csv", 2, "id", "id is new"),
        ("b.csv", 3, "price", "note is new"),
        ("b.csv", 5, "id", "id is new"),
        ("b.csv", 6, "id", "id is new"),
        ("b.csv", 7, "price", "price not negative"),
    ]
    Load(shop.source()).run()
    assert shop.ids() == [1, 2, 4, 6, 7, 8]
    assert not list((shop.table / "_ingest/erp/staging").iterdir())  # the next run deletes the rounds


def test_only_files_that_may_hold_a_key_are_opened(shop: Shop) -> None:
    shop.land("a.csv", *(f"{number},5,x" for number in range(100)))
    Load(shop.source()).run()
    (file,) = shop.table.glob("*.parquet")
    file.unlink()
    shop.land("b.csv", *(f"{number},5,x" for number in range(100, 400)))  # more keys than a condition lists
    assert Load(shop.source()).run().batches[0]["rows_loaded"] == 300


def test_a_key_that_is_committed_concurrently_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x")
    Load(shop.source()).run()
    shop.land("b.csv", "1,5,x", "2,5,x", "3,5,x", "4,5,x")
    before_commits(monkeypatch, lambda attempt: another_writer_adds(shop, attempt + 1) if attempt < 3 else None)
    (entry,) = Load(shop.source()).run().batches
    assert (entry["rows_loaded"], entry["rows_quarantined"], entry["rules_broken"]) == (1, 3, {"id is new": 3})
    assert shop.ids() == [1, 2, 3, 4]
    assert shop.quarantined() == [("b.csv", line, "id", "id is new") for line in (2, 3, 4)]


def test_a_batch_of_a_killed_run_is_in_the_table_or_in_the_quarantine(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.land("a.csv", "1,5,x", "9,5,x")
    Load(shop.source()).run()
    shop.land("b.csv", "1,5,x", "2,5,x", "3,5,x")

    def die(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        before_commits(killed, die)
        with pytest.raises(KeyboardInterrupt):
            Load(shop.source()).run()
    DeltaTable(str(shop.table)).delete("id = 1")  # its row is in the quarantine already
    another_writer_adds(shop, 2)  # its row is not
    (entry,) = Load(shop.source()).run().batches
    assert (entry["rows_loaded"], entry["rows_quarantined"]) == (1, 2)
    assert shop.ids() == [2, 3, 9]
    assert shop.quarantined() == [("b.csv", 2, "id", "id is new"), ("b.csv", 3, "id", "id is new")]


@pytest.mark.parametrize(
    ("rules", "error", "words"),
    [
        ([{**PRICE_RULE, "meta": {"rule_id": "p", "unique_in": "table"}}], QualityError, "meta.unique_in 'table'"),
        ([{**NEW_ID, "meta": {"rule_id": "p", "unique_in": "world"}}], QualityError, "expected 'batch' or 'table'"),
        ([{**NEW_ID, "kwargs": {"column": "id", "mostly": 0.5}}], QualityError, "expected only its columns"),
        ([NEW_ID, UNIQUE_IDS], UnsupportedFeatureError, "id unique .uniqueness is judged among all rows"),
    ],
)
def test_rules_that_cannot_be_judged_are_refused(
    shop: Shop, rules: list[dict[str, Any]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Load(Shop(shop.folder).source(suite=suite(*rules)))
    assert not shop.table.exists()


@pytest.mark.slow
def test_executors_of_spark_judge_keys(spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "IN_PROCESS_BYTES", 0)
    monkeypatch.setattr(batch_files, "task_groups", lambda files, **_: [(file,) for file in files])
    shop.land("a.csv", "1,5,x")
    Load(shop.source()).run(spark)
    for name, rows in {"b.csv": ["1,5,x", "2,5,x", "3,5,x"], "c.csv": ["3,6,y", "4,5,x"]}.items():
        shop.land(name, *rows)
    (entry,) = Load(shop.source(files_per_batch=2)).run(spark).batches
    assert (entry["rows_loaded"], entry["rows_quarantined"]) == (2, 3)
    assert shop.ids() == [1, 2, 4]


def test_rows_that_a_later_round_rejects_are_reported(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x")
    Load(shop.source()).run()
    shop.land("b.csv", "2,5,x", "3,5,x")
    before_commits(monkeypatch, lambda attempt: another_writer_adds(shop, attempt + 1) if attempt == 1 else None)
    (entry,) = Load(shop.source()).run().batches
    assert (entry["rows_loaded"], entry["rows_quarantined"]) == (1, 1)
    store, rejects = open_store(shop.table), open_store(shop.quarantine)
    verdict = last_verdict(store, "erp", rejects)
    assert verdict is not None
    assert verdict.has_rejected_rows
    assert newest_batches(store, "erp", rejects)[0].rejected_rows == 1
