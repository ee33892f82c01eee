"""A load in this process: each file is read once, and its rows go straight into data files and quarantine files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable as OurTable
from lakehouse_lib.errors import CommitUnknownError, IngestError, QualityError, StoreError
from lakehouse_lib.ingestion.batches import batch as batch_module
from lakehouse_lib.ingestion.batches import files as batch_files
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.batches.shares import task_groups
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.landing.folder import LandingFolder
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks import file_task
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import open_store
from tests.peers import parquet_files
from tests.s3_server import serving
from tests.spark_jobs.loading import PRICE_RULE, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a task of its own, however small."""
    monkeypatch.setattr(batch_files, "task_groups", lambda files, **_: [(file,) for file in files])


def orphans(shop: Shop) -> set[Path]:
    """Parquet files that no version of the table or of its quarantine refers to."""
    left = set(shop.folder.rglob("*.parquet"))
    for table in (shop.table, shop.quarantine):
        if DeltaTable.is_deltatable(str(table)):
            left -= {Path(file.removeprefix("file://")) for file in DeltaTable(str(table)).file_uris()}
    return left - set(shop.landing.rglob("*"))


def suite(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"name": "s", "expectations": list(rules)}


def mostly(share: float) -> dict[str, Any]:
    return {**PRICE_RULE, "kwargs": {"column": "price", "min_value": 0, "mostly": share}}


def test_rows_that_break_a_rule_are_rejected_with_their_line(shop: Shop) -> None:
    shop.land("a.csv", "1,5,x", '2,-1,"two', 'lines"', "", "3,-2,z", "bad,1,x", "4,,y")
    result = Load(shop.source(suite=suite(PRICE_RULE))).run()
    (batch,) = result.batches
    assert (batch["rows_loaded"], batch["rows_quarantined"]) == (2, 3)
    assert batch["rules_broken"] == {"price not negative": 2}
    assert DeltaTable(str(shop.table)).history(1)[0]["rulesBroken"] == {"price not negative": 2}
    assert shop.ids() == [1, 4]
    assert shop.quarantined() == [
        ("a.csv", 3, "price", "price not negative"),
        ("a.csv", 6, "price", "price not negative"),
        ("a.csv", 7, "id", "not a valid long"),
    ]
    (row,) = [row for row in DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist() if row["_line"] == 3]
    violation = {"column": "price", "reason": "price not negative", "rule": "price not negative"}
    assert (row["id"], row["price"], row["note"], row["_rule"]) == ("2", "-1.00", "two\nlines", "price not negative")
    assert row["_violations"] == [violation]
    assert orphans(shop) == set()


@pytest.mark.usefixtures("two_tasks")
@pytest.mark.parametrize(("share", "ids"), [(0.3, [1, 2, 3, 4]), (0.9, [1, 3])])
def test_the_whole_batch_decides_about_rules_with_mostly(shop: Shop, share: float, ids: list[int]) -> None:
    strict = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "note"}, "meta": {"rule_id": "note"}}
    shop.land("a.csv", "1,5,x", "2,-1,x", "5,-1,")
    shop.land("b.csv", "3,5,x", "4,-1,x")
    result = Load(shop.source(suite=suite(mostly(share), strict), files_per_batch=2)).run()
    assert shop.ids() == ids
    assert result.batches[0]["rows_loaded"] == len(ids)
    assert result.batches[0]["rows_quarantined"] == 5 - len(ids)
    counts = {"note": 1} if share == 0.3 else {"price not negative": 3, "note": 1}
    assert result.batches[0]["rules_broken"] == counts
    rows = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    rules = [[each["rule"] for each in row["_violations"]] for row in rows if row["id"] == "5"]
    assert rules == [list(counts)]
    assert orphans(shop) == set()


@pytest.mark.usefixtures("two_tasks")
def test_a_rule_about_the_batch_leaves_no_file(shop: Shop) -> None:
    kind = "expect_table_row_count_to_be_between"
    rule: dict[str, Any] = {"type": kind, "kwargs": {"min_value": 5}, "meta": {"rule_id": "five rows"}}
    tolerant = {**mostly(0.1), "meta": {"rule_id": "tolerant"}}
    shop.land("a.csv", "1,5,x", "bad,5,x")
    shop.land("b.csv", "2,-5,x")
    with pytest.raises(QualityError, match=r"batch 0 \(a\.csv, b\.csv\).*five rows.*observed 2"):
        Load(shop.source(suite=suite(rule, PRICE_RULE, tolerant), files_per_batch=2)).run()
    assert orphans(shop) == set()
    rule["kwargs"] = {"min_value": 2}
    Load(shop.source(suite=suite(rule), files_per_batch=2)).run()
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_file_that_is_refused_at_its_end_does_not_affect_other_files(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(file_task, "_SMALL_FILE", small)
    monkeypatch.setattr("lakehouse_lib.ingestion.sources.records.BLOCK_SIZE", 64)
    shop.land("a.csv", *(f"{number},5,x" for number in range(20)), "bad,5,x")
    shop.land("b.csv", *(f"{number},5,x" for number in range(20, 40)), "bad,5,x", '50,5,"open')
    shop.land("c.csv", *(f"{number},5,x" for number in range(40, 50)))
    content = gzip.compress(b"id,price,note\n" + b"".join(b"%d,5,x\n" % n for n in range(60, 90)))
    (shop.landing / "d.csv.gz").write_bytes(content[:-4])
    result = Load(shop.source(files_per_batch=4, suite=suite(PRICE_RULE))).run()
    assert set(result.refused) == {"b.csv", "d.csv.gz"}
    assert shop.ids() == [*range(20), *range(40, 50)]
    assert shop.quarantined() == [("a.csv", 22, "id", "not a valid long")]
    assert result.batches[0]["rows_loaded"] == 30
    assert orphans(shop) == set()


def test_files_that_are_refused_at_their_ends_are_found_in_one_more_pass(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_task, "_SMALL_FILE", 0)
    monkeypatch.setattr("lakehouse_lib.ingestion.sources.records.BLOCK_SIZE", 64)
    opened: Counter[str] = Counter()
    open_file = LandingFolder.open

    def open_counted(folder: LandingFolder, file: Fingerprint) -> pa.NativeFile:
        opened[file.name] += 1
        return open_file(folder, file)

    monkeypatch.setattr(LandingFolder, "open", open_counted)
    for number in range(9):
        end = ['0,5,"open'] if number % 3 == 1 else []
        shop.land(f"{number}.csv", *(f"{row},5,x" for row in range(number * 20, number * 20 + 20)), *end)
    result = Load(shop.source(files_per_batch=9)).run()
    assert set(result.refused) == {"1.csv", "4.csv", "7.csv"}
    assert shop.ids() == [row for row in range(180) if row // 20 % 3 != 1]
    assert max(opened.values()) == 2
    assert orphans(shop) == set()


def test_many_small_files_become_one_data_file(shop: Shop) -> None:
    for number in range(40):
        shop.land(f"{number:02}.csv", f"{number},5,x", "bad,1,y")
    Load(shop.source(files_per_batch=100)).run()
    assert shop.ids() == list(range(40))
    assert [len(parquet_files(table)) for table in (shop.table, shop.quarantine)] == [1, 1]


@given(st.lists(st.integers(0, 5 << 30), min_size=1, max_size=50), st.integers(1, 8))
def test_tasks_share_the_files(sizes: list[int], parallelism: int) -> None:
    files = [Fingerprint(f"{number}.csv", size, 0, "") for number, size in enumerate(sizes)]
    groups = task_groups(files, tasks=parallelism, data_file_size=100 << 20)
    assert sorted(file.name for group in groups for file in group) == sorted(file.name for file in files)
    assert all(groups)
    assert len(groups) <= max(1, -(-(sum(sizes) + len(sizes)) // (100 << 20)))
    # No group is larger than the mean and one more file.
    assert max(sum(file.size for file in group) for group in groups) <= sum(sizes) / len(groups) + max(sizes)


@pytest.mark.usefixtures("two_tasks")
def test_rows_that_violate_a_constraint_leave_no_file_of_any_task(shop: Shop) -> None:
    computed = Field("state", "string", metadata={"CURRENT_DEFAULT": "'new'"})
    rule = {"delta.constraints.p": "id > 0 OR state = 'old'"}
    OurTable.create(shop.table, Schema([*shop.source().schema.fields, computed]), configuration=rule)
    for number in range(4):
        shop.land(f"{number}.csv", f"{number},5,x", "bad,1,y")
    with pytest.raises(QualityError, match=r"not loaded: the data violates CHECK p"):
        Load(shop.source(files_per_batch=4)).run()
    assert orphans(shop) == set()


def test_identity_columns_get_unique_numbers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_lib.ingestion.batches.shares._TASK_BYTES", 1)
    identity = {"start": 1, "step": 1, "allowExplicitInsert": False}
    number = Field("number", "long", metadata={f"delta.identity.{key}": value for key, value in identity.items()})
    OurTable.create(shop.table, Schema([*shop.source().schema.fields, number]))
    for file in range(3):
        shop.land(f"{file}.csv", *(f"{file * 100 + row},5,x" for row in range(50)))
    Load(shop.source(files_per_batch=3, target_file_size=1)).run()
    numbers = DeltaTable(str(shop.table)).to_pyarrow_table()["number"].to_pylist()
    assert sorted(numbers) == list(range(1, 151))
    # Rows that are set apart are written by other tasks.
    shop.land("late.csv", "1,5,x")
    assert Load(shop.source(suite=suite(mostly(0.5)))).needs_spark()
    assert not Load(shop.source(suite=suite(PRICE_RULE))).needs_spark()


def test_another_load_creates_the_shared_quarantine_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns differ, so this load commits its files to the quarantine as it is now."""
    north, south = Shop(tmp_path / "north"), Shop(tmp_path / "south")
    shared = {"quarantine": str(tmp_path / "quarantine")}
    wider = Schema([*north.source().schema.fields, Field("more", "long")])
    south.land("s.csv", "1,5,x,2", "bad,5,x,2", header="id,price,note,more")
    north.land("n.csv", "1,5,x", "bad,5,x")
    end_early = Batch._end_early

    def overtaken(batch: Batch, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Batch, "_end_early", end_early)
        Load(south.source(schema=wider, **shared)).run()
        return end_early(batch, *arguments, **options)

    monkeypatch.setattr(Batch, "_end_early", overtaken)
    Load(north.source(**shared)).run()
    rows = DeltaTable(shared["quarantine"]).to_pyarrow_table().to_pylist()
    assert sorted((row["_file"], row["more"]) for row in rows) == [("n.csv", None), ("s.csv", "2")]
    assert (north.ids(), south.ids()) == ([1], [1])


@pytest.mark.slow
def test_a_load_imports_neither_spark_nor_pandas(shop: Shop) -> None:
    shop.land("a.csv", "1,5,x", "bad,5,x", "2,-1,y", "3,5")
    (shop.folder / "suite.json").write_text(json.dumps(suite(PRICE_RULE)))
    program = (
        "import sys; from spark_jobs import ingest, job; code = job.run_job(ingest.arguments(), ingest.prepare);"
        "print({'pyspark', 'pandas', 'great_expectations'} & set(sys.modules), code)"
    )
    arguments = [*shop.command_line(), "--suite", str(shop.folder / "suite.json")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=True, timeout=240)
    assert done.stdout.decode().splitlines()[-1] == "set() 0", done.stderr.decode()
    assert shop.ids() == [1]
    assert len(shop.quarantined()) == 3


def test_parquet_and_json(shop: Shop) -> None:
    rows = pa.table({"id": [1, 2], "price": pa.array([1, -1], pa.decimal128(15, 2)), "note": ["x", None]})
    pq.write_table(rows, shop.landing / "a.parquet")
    Load(shop.source(suite=suite(PRICE_RULE), format=SourceFormat("parquet"))).run()
    (shop.landing / "a.parquet").unlink()
    (shop.landing / "b.json").write_text('{"id": 3, "price": 1}\n\n{"id": 4, "price": -1}\n{"id":')
    web = replace(shop.source(suite=suite(PRICE_RULE)), name="web", format=SourceFormat("json"))
    Load(web).run()
    assert shop.ids() == [1, 3]
    assert shop.quarantined() == [
        ("a.parquet", 2, "price", "price not negative"),
        ("b.json", 3, "price", "price not negative"),
        ("b.json", 4, None, "not valid JSON"),
    ]


def test_a_run_that_fails_after_its_files_deletes_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x", "bad,5,x")
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "_decide_to_load", lambda *_: (_ for _ in ()).throw(IngestError("stop")))
        with pytest.raises(IngestError, match="stop"):
            Load(shop.source()).run()
    assert orphans(shop) == set()
    assert len(shop.quarantined()) == 1
    Load(shop.source()).run()
    assert shop.ids() == [1]
    assert len(shop.quarantined()) == 1
    assert orphans(shop) == set()


def test_a_clean_up_that_fails_does_not_fail_a_loaded_batch(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x", "2,-1,y")

    def fail(*_: Any) -> None:
        raise StoreError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "_unstage", fail)
        assert Load(shop.source(suite=suite(mostly(0.1)))).run().batches[0]["rows_loaded"] == 2
    assert shop.staged() != []
    shop.land("b.csv", "3,5,x")
    Load(shop.source()).run()
    assert (shop.ids(), shop.staged()) == ([1, 2, 3], [])


def test_an_error_of_a_batch_is_raised_if_the_table_cannot_be_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x")

    def fail(*_: Any) -> None:
        raise StoreError("the store does not answer")

    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 2}, "meta": {"rule_id": "rows"}}
    monkeypatch.setattr(batch_module, "last_batch", fail)
    with pytest.raises(QualityError, match="was not loaded"):
        Load(shop.source(suite=suite(rule))).run()


def test_an_unknown_commit_is_not_reported_as_another_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("a.csv", "1,5,x")
    commit = batch_module.commit_once

    def unanswered(*arguments: Any, **options: Any) -> int:
        commit(*arguments, **options)
        raise CommitUnknownError("the store gave no answer")

    with monkeypatch.context() as patch:
        patch.setattr(batch_module, "commit_once", unanswered)
        with pytest.raises(CommitUnknownError):
            Load(shop.source()).run()
    assert Load(shop.source()).run().batches == ()
    assert shop.ids() == [1]


@pytest.mark.slow
def test_tables_in_s3(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    shop.land("a.csv", "1,5,x", "2,-1,y", "bad,1,z", "3,5,w")
    shop.land("b.csv", "4,5,x", "9,9")
    with serving("bucket") as server:
        table, quarantine = "s3://bucket/sales", "s3://bucket/rejected"
        options = {table: server.options, quarantine: server.options}
        rules = suite(mostly(0.9))
        source = replace(shop.source(suite=rules, files_per_batch=2), table=table, quarantine=quarantine)
        source = replace(source, storage_options=options, partition_by=("note",))
        (batch,) = Load(source).run().batches
        assert (batch["rows_loaded"], batch["rows_quarantined"]) == (3, 3)
        rows = OurTable(table, storage_options=server.options).to_pyarrow_table()
        assert sorted(rows["id"].to_pylist()) == [1, 3, 4]
        stored = [meta.path for meta in open_store(table, server.options).walk()]
        assert not [path for path in stored if path.startswith("_ingest") and path.endswith(".parquet")]
