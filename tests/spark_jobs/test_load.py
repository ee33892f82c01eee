"""Loads on Spark: each file once, and what a load refuses, quarantines or leaves for the next run."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    IngestError,
    LandingError,
    QualityError,
    SchemaMismatchError,
    SourceChangedError,
    SourceRefusedError,
    UnsupportedFeatureError,
)
from lakehouse_lib.ingestion.batches import batch as batch_module
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema
from spark_jobs import ingest
from spark_jobs.job import FailedAfterWork, run_in_process
from tests.log_builder import protocol, put
from tests.peers import parquet_files
from tests.spark_jobs.loading import PRICE_RULE, SCHEMA, Shop, load
from tests.suite_warnings import SUITE_WARNINGS

pytestmark = [*SUITE_WARNINGS]


def test_each_file_is_loaded_once_with_one_transaction(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,1.50,x", "2,,")
    shop.land("b.csv", "3,1,y", "oops,1,y", "4,1")
    shop.land("c.csv", "5,1,z")
    result = load(spark, shop, files_per_batch=2)
    assert [
        (each["batch"], each["files"], each["rows_loaded"], each["rows_quarantined"]) for each in result.batches
    ] == [
        (0, ["a.csv", "b.csv"], 3, 2),
        (1, ["c.csv"], 1, 0),
    ]
    table = DeltaTable(str(shop.table))
    assert [each["version"] for each in result.batches] == [0, 1] == [table.version() - 1, table.version()]
    assert shop.ids() == [1, 2, 3, 5]
    assert table.to_pyarrow_table()["price"].to_pylist().count(Decimal("1.50")) == 1
    assert not table.schema().fields[0].nullable
    assert shop.quarantined() == [
        ("b.csv", 3, "id", "not a valid long"),
        ("b.csv", 4, None, "2 fields; expected 3"),
    ]
    assert shop.transaction() == 1
    assert shop.staged() == []
    # Run it again: there is no new file, so Spark is not needed.
    assert Load(shop.source()).nothing_to_do() is not None
    assert load(spark, shop).batches == ()
    assert shop.ids() == [1, 2, 3, 5]


def test_small_source_file_is_one_data_file(spark: SparkSession, shop: Shop) -> None:
    for name in ("a.csv", "b.csv"):
        shop.land(name, *(f"{number},1,x" for number in range(3000)))
    load(spark, shop)
    assert len(DeltaTable(str(shop.table)).file_uris()) == 2


@pytest.mark.slow
def test_changed_expectation_changes_what_is_quarantined(spark: SparkSession, shop: Shop) -> None:
    suite = {"name": "s", "expectations": [PRICE_RULE]}
    shop.land("a.csv", "1,5,x", "2,-1,x")
    result = load(spark, shop, suite=suite)
    assert result.batches[0]["rules_broken"] == {"price not negative": 1}
    assert shop.quarantined() == [("a.csv", 3, "price", "price not negative")]
    row = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()[0]
    assert (row["id"], row["price"], row["note"], row["_rule"]) == ("2", "-1.00", "x", "price not negative")
    shop.land("b.csv", "3,5,x", "4,-1,x")
    looser = {"name": "s", "expectations": [{**PRICE_RULE, "kwargs": {"column": "price", "min_value": -1}}]}
    load(spark, shop, suite=looser)
    assert shop.ids() == [1, 3, 4]


def test_table_rule_stops_the_load_before_the_commit(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x", "bad,5,x")
    shop.land("b.csv", "2,5,x")
    rows = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 2}, "meta": {"rule_id": "two rows"}}
    with pytest.raises(QualityError, match=r"batch 0 \(a\.csv\).*two rows.*observed 1"):
        load(spark, shop, suite={"name": "s", "expectations": [rows]})
    assert not DeltaTable.is_deltatable(str(shop.table))
    assert not DeltaTable.is_deltatable(str(shop.quarantine))
    assert shop.staged() == []
    # After the rule is corrected, the same files are loaded.
    rows["kwargs"] = {"min_value": 1}
    load(spark, shop, suite={"name": "s", "expectations": [rows]})
    assert shop.ids() == [1, 2]
    assert len(shop.quarantined()) == 1


def test_a_failure_of_a_later_batch_names_the_batches_that_were_loaded(shop: Shop) -> None:
    shop.land("a.csv", "1,5,x", "2,5,x")
    shop.land("b.csv", "3,5,x")
    rows = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 2}, "meta": {"rule_id": "two rows"}}
    words = shop.command_line("--suite", str(shop.suite(rows)), "--files-per-batch", "1")
    with pytest.raises(FailedAfterWork) as failed:
        run_in_process(ingest.arguments(), ingest.prepare, words, None)
    assert isinstance(failed.value.error, QualityError)
    result = failed.value.result
    assert (result["rows_loaded"], result["read_version"], result["version"]) == (2, None, 0)
    assert [batch["files"] for batch in result["batches"]] == [["a.csv"]]
    with pytest.raises(QualityError):  # the next run loads nothing before it fails
        run_in_process(ingest.arguments(), ingest.prepare, words, None)
    assert shop.ids() == [1, 2]


@pytest.mark.slow
def test_unusable_suite_writes_nothing(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    unknown = {"type": "expect_the_best", "kwargs": {"column": "id"}, "meta": {"rule_id": "r"}}
    with pytest.raises(QualityError, match="expect_the_best"):
        load(spark, shop, suite={"name": "s", "expectations": [unknown]})
    with pytest.raises(QualityError, match="empty"):
        Load(shop.source(suite={"name": "s", "expectations": []}))
    assert not shop.table.exists()


def test_refused_file_leaves_the_version_and_is_reported_until_corrected(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    load(spark, shop)
    shop.land("b.csv", "2,5,x", header="id,cost,note")
    result = load(spark, shop)
    assert "b.csv does not fit the schema: price is missing, expected decimal(15,2)" in result.refused["b.csv"]
    assert (result.read_version, result.version) == (0, None)
    errors = {choice: type(result.error(choice)) for choice in ("once", "fail", "report")}
    assert errors == {"once": SourceRefusedError, "fail": SourceRefusedError, "report": type(None)}
    again = Load(shop.source()).nothing_to_do()
    assert again is not None
    assert (again.refused, again.earlier_refusals) == ({}, result.refused)
    errors = {choice: type(again.error(choice)) for choice in ("once", "fail", "report")}
    assert errors == {"once": type(None), "fail": SourceRefusedError, "report": type(None)}
    # A valid file and a refused file in one batch: only the refused file is not loaded.
    shop.land("c.csv", "3,5,x")
    shop.land("d.csv", "4,5,x", header="id")
    mixed = load(spark, shop, files_per_batch=2)
    assert [each["files"] for each in mixed.batches] == [["c.csv"]]
    assert (set(mixed.refused), set(mixed.earlier_refusals)) == ({"d.csv"}, {"b.csv"})
    shop.land("b.csv", "2,5,xx")
    assert set(load(spark, shop).earlier_refusals) == {"d.csv"}
    assert shop.ids() == [1, 2, 3]


def test_loaded_name_with_other_content_is_reported_and_not_loaded(spark: SparkSession, shop: Shop) -> None:
    path = shop.land("a.csv", "1,5,x")
    load(spark, shop)
    shop.land("a.csv", "9,5,x")
    os.utime(path, (1, 1))
    shop.land("b.csv", "2,5,x")
    result = load(spark, shop)
    assert result.changed == {"a.csv": 0}
    error = result.error("fail")
    assert isinstance(error, SourceChangedError)
    assert "a.csv was loaded in batch 0" in str(error)
    assert shop.ids() == [1, 2]


def test_growing_files_wait(spark: SparkSession, shop: Shop) -> None:
    old = shop.land("a.csv", "1,5,x")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    shop.land("b.csv", "2,5,x")
    growing = shop.land("c.csv", "3,5,x")
    os.utime(growing, (1_000_000_000, 1_000_000_000))
    loading = Load(shop.source(settle_seconds=60))
    with growing.open("a") as more:
        more.write("4,5,x\n")
    os.utime(growing, (1_000_000_000, 1_000_000_000))
    result = loading.run(spark)
    assert result.waiting == ("b.csv", "c.csv")
    assert shop.ids() == [1]


def test_file_that_changes_while_it_is_read_waits(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shop.land("a.csv", "1,5,x")
    put = batch_module.IntentLog.put

    def grow_after(log: Any, entry: Any) -> bool:
        done = put(log, entry)
        if isinstance(entry, batch_module.Intent):
            path.write_text(path.read_text() + "2,5,x\n")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(batch_module.IntentLog, "put", grow_after)
        assert load(spark, shop).waiting == ("a.csv",)
    load(spark, shop)
    assert shop.ids() == [1, 2]


def test_a_batch_without_valid_rows_is_recorded(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "bad,5,x")
    shop.land("b.csv")
    result = load(spark, shop)
    assert [each["rows_loaded"] for each in result.batches] == [0, 0]
    assert shop.ids() == []
    assert shop.transaction() == 1
    assert len(shop.quarantined()) == 1


def test_two_runs_at_once_load_a_batch_once(spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run commits the whole batch between our parsing and our commit."""
    shop.land("a.csv", "1,5,x", "bad,5,x")
    end_early = Batch._end_early

    def overtaken(batch: Batch, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Batch, "_end_early", end_early)
        Load(shop.source()).run(spark)
        return end_early(batch, *arguments, **options)

    monkeypatch.setattr(Batch, "_end_early", overtaken)
    with pytest.raises(ConcurrentTransactionError):
        load(spark, shop)
    assert shop.ids() == [1]
    assert len(shop.quarantined()) == 1


def test_loser_of_the_intent_stops(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    loser = Load(shop.source())
    load(spark, shop)
    with pytest.raises(ConcurrentTransactionError, match="another run of source 'erp' has begun batch 0"):
        loser.run(spark)
    assert shop.ids() == [1]


def test_schema_file_that_contradicts_the_table(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    load(spark, shop)
    other = Schema([Field("id", "integer", nullable=False), *SCHEMA.fields[1:], Field("more", "string")])
    with pytest.raises(
        SchemaMismatchError, match=r"id: the table has long not null.*more: the table has no such column"
    ):
        Load(shop.source(schema=other))


def test_a_table_without_write_permission_loads_no_batch(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    load(spark, shop)
    shop.land("b.csv", "2,5,x")
    run = Load(shop.source())
    put(shop.table, DeltaTable(str(shop.table)).version() + 1, protocol(writer=["columnMappingUsageTracking"]))
    for loading in (lambda: run.run(spark), lambda: Load(shop.source())):
        with pytest.raises(UnsupportedFeatureError, match="columnMappingUsageTracking"):
            loading()
    assert run.intents.read()[1].keys() == {0}  # so the batch can still be given up
    assert len(parquet_files(shop.table)) == 1


def test_rows_that_violate_a_constraint_are_rejected(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    load(spark, shop)
    DeltaTable(str(shop.table)).alter.add_constraint({"positive": "id > 0"})
    shop.land("b.csv", "2,5,x", "-2,5,x")
    load(spark, shop)
    assert (shop.ids(), shop.quarantined()) == ([1, 2], [("b.csv", 3, "id", "violates CHECK positive (id > 0)")])


def test_a_recreated_table_with_an_old_intent_log(spark: SparkSession, shop: Shop) -> None:
    for name in ("a.csv", "b.csv"):
        shop.land(name, "1,5,x")
    load(spark, shop)
    for path in (shop.table / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(IngestError, match="batch 0 of source 'erp' was loaded, but the table has no txn"):
        Load(shop.source())


def test_partitions_json_and_a_second_source(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x", "2,5,y y")
    load(spark, shop, partition_by=("note",))
    (shop.landing / "a.csv").unlink()
    (shop.landing / "a.json").write_text('{"id": 3, "note": "x"}\n{"id": 4,')
    web = replace(shop.source(), name="web", format=SourceFormat("json"))
    Load(web).run(spark)
    table = DeltaTable(str(shop.table))
    assert table.metadata().partition_columns == ["note"]
    assert shop.ids() == [1, 2, 3]
    assert [table.transaction_version(name) for name in ("erp", "web")] == [0, 0]
    assert shop.quarantined() == [("a.json", 2, None, "not valid JSON")]


def test_a_landing_folder_that_does_not_exist_is_refused(shop: Shop) -> None:
    with pytest.raises(LandingError):
        Load(replace(shop.source(), landing=str(shop.folder / "nowhere")))


def test_staged_files_of_killed_runs_are_deleted(spark: SparkSession, shop: Shop) -> None:
    shop.land("a.csv", "1,5,x")
    load(spark, shop)
    left = shop.table / "_ingest/erp/staging" / f"{0:020d}-dead-0-rows.parquet"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"PAR1")
    shop.land("b.csv", "2,5,x")
    load(spark, shop)
    assert not left.exists()


def test_a_row_that_no_partition_can_hold_does_not_block_the_source(spark: SparkSession, shop: Shop) -> None:
    schema = Schema([*SCHEMA.fields, Field("at", "timestamp")])
    shop.land("1.csv", f"1,1,{'x' * 300},", "2,1,y,", "3,1,z,9999-12-31T23:59:59-12:00", header="id,price,note,at")
    shop.land("2.csv", "4,1,é,2020-01-01T00:00:00Z", header="id,price,note,at")
    result = load(spark, shop, schema=schema, partition_by=("note", "at"))
    assert [(batch["rows_loaded"], batch["rows_quarantined"]) for batch in result.batches] == [(1, 2), (1, 0)]
    assert shop.ids() == [2, 4]
    assert shop.quarantined() == [
        ("1.csv", 2, "note", "makes a folder name of more than 255 bytes"),
        ("1.csv", 4, "at", "a year outside 1 to 9999"),
    ]


def test_a_partition_text_like_the_folder_of_a_null_is_loaded_unchanged(spark: SparkSession, shop: Shop) -> None:
    shop.land("1.csv", "1,1,__HIVE_DEFAULT_PARTITION__", "2,1,", "3,1,/__HIVE_DEFAULT_PARTITION__")
    load(spark, shop, partition_by=("note",))
    table = DeltaTable(str(shop.table)).to_pyarrow_table(columns=["id", "note"]).sort_by("id")
    assert table["note"].to_pylist() == ["__HIVE_DEFAULT_PARTITION__", None, "/__HIVE_DEFAULT_PARTITION__"]
