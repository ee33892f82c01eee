"""A batch that is half done: its redo, and a run that gives it up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    IngestError,
    SourceChangedError,
)
from lakehouse_lib.ingestion.batches import batch as batch_module
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.load import Load
from tests.spark_jobs.loading import PRICE_RULE, Shop, load
from tests.suite_warnings import SUITE_WARNINGS

pytestmark = [*SUITE_WARNINGS]


def _half_done(spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("the cluster is gone")

    with monkeypatch.context() as patch:
        patch.setattr(batch_module, "commit_once", fail)
        with pytest.raises(RuntimeError, match="the cluster is gone"):
            load(spark, shop)


def test_a_redo_with_a_missing_or_changed_file_is_an_error(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shop.land("a.csv", "1,5,x")
    _half_done(spark, shop, monkeypatch)
    content = path.read_text()
    path.unlink()
    with pytest.raises(SourceChangedError, match=r"batch 0 .* files a\.csv are missing"):
        load(spark, shop)
    path.write_text(content.replace("1", "7"))
    with pytest.raises(SourceChangedError, match="have changed content"):
        load(spark, shop)
    loading = Load(shop.source())
    loading.give_up()
    loading.run(spark)
    assert shop.ids() == [7]


def test_giving_up_wins_against_a_run_that_is_still_loading(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.land("a.csv", "1,5,x")
    commit = batch_module.commit_once

    def given_up_first(*arguments: Any, **options: Any) -> int:
        Load(shop.source()).give_up()
        return commit(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(batch_module, "commit_once", given_up_first)
        with pytest.raises(ConcurrentTransactionError, match=r"batch 0 of source 'erp' was given up.*by hand"):
            load(spark, shop)
    assert not DeltaTable.is_deltatable(str(shop.table))
    assert list(shop.table.rglob("*.parquet")) == []
    load(spark, shop)
    assert shop.ids() == [1]


def test_giving_up_loses_against_a_run_that_has_decided_to_load(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.land("a.csv", "1,5,x")
    decide = Batch._decide_to_load
    refusals: list[str] = []

    def too_late(batch: Batch, refused: Any) -> None:
        decide(batch, refused)
        with pytest.raises(IngestError, match="cannot be given up") as refusal:
            Load(shop.source()).give_up()
        refusals.append(str(refusal.value))

    monkeypatch.setattr(Batch, "_decide_to_load", too_late)
    load(spark, shop)
    assert "00000000000000000000.outcome.json" in refusals[0]
    assert shop.ids() == [1]
    assert load(spark, shop).batches == ()


@pytest.mark.slow
def test_rejects_of_tables_with_a_shared_quarantine_are_separate(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    north, south = Shop(tmp_path / "north"), Shop(tmp_path / "south")
    shared = str(tmp_path / "quarantine")
    for shop, name in ((north, "n.csv"), (south, "s.csv")):
        shop.options = {"quarantine": shared}
        shop.land(name, "1,5,x", "bad,5,x")
    load(spark, north)
    # The other run is killed between its quarantined rows and its rows, and is repeated at the table's new location.
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "_decide_to_load", lambda *_: (_ for _ in ()).throw(IngestError("the cluster is gone")))
        with pytest.raises(IngestError, match="the cluster is gone"):
            load(spark, south)
    moved = Shop(tmp_path / "moved", south.options)
    moved.landing.rmdir()
    moved.folder.rmdir()
    south.folder.rename(moved.folder)
    load(spark, moved)
    files = [row["_file"] for row in DeltaTable(shared).to_pyarrow_table().to_pylist()]
    assert sorted(files) == ["n.csv", "s.csv"]
    assert (north.ids(), moved.ids()) == ([1], [1])


@pytest.mark.slow
def test_redo_judges_by_the_rules_of_its_intent(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = {"name": "s", "expectations": [PRICE_RULE]}
    shop.options = {"suite": suite}
    shop.land("a.csv", "1,5,x", "2,-1,x")
    _half_done(spark, shop, monkeypatch)
    shop.options = {}
    shop.land("b.csv", "3,-1,x")
    load(spark, shop)
    assert shop.ids() == [1, 3]
    assert shop.quarantined() == [("a.csv", 3, "price", "price not negative")]
