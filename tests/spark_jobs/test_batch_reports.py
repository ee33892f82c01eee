"""Reports of batches tell what the loads have done: compared with the results of the loads."""

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_lib import DeltaTable as open_table
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.batches import reports as batch_reports
from lakehouse_lib.ingestion.batches.reports import BatchReport, newest_batches
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.state import source_state
from lakehouse_lib.store import open_store
from tests.spark_jobs.loading import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def reports(shop: Shop, **options: int) -> list[BatchReport]:
    return newest_batches(open_store(shop.table), "erp", open_store(shop.quarantine), **options)


def test_a_source_that_was_never_loaded_has_no_batch_and_nothing_is_written(shop: Shop) -> None:
    assert reports(shop) == []
    assert not shop.table.exists()


def test_batches_have_files_rows_rejected_rows_and_commits(shop: Shop) -> None:
    shop.land("1.csv", "1,1.50,a", "2,x,b", "3,2.00,c")
    shop.land("2.csv", "4,1.50,a")
    shop.land("3.csv", "5,1.50,a", header="wrong")
    source = shop.source(files_per_batch=2)
    result = Load(source).run()
    second, first = reports(shop)
    assert (first.number, first.state, first.files, first.names) == (0, "loaded", 2, ("1.csv", "2.csv"))
    assert first.bytes == sum((shop.landing / name).stat().st_size for name in ("1.csv", "2.csv"))
    assert first.commit is not None
    assert (first.commit.rows, first.rejected_rows) == (3, 1)
    assert (first.commit.version, first.rejected[0].version) == (0, 0)
    assert first.commit.committed_at == open_table(str(shop.table)).history()[-1]["timestamp"]
    assert first.seconds is not None
    assert 0 <= first.seconds < 60
    assert (second.state, second.commit, second.refused) == ("given up", None, dict(result.refused))
    assert second.reason == "every file was rejected"


def test_a_batch_that_breaks_a_rule_of_the_table_has_the_reason(shop: Shop) -> None:
    shop.land("1.csv", "1,1.50,a")
    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 5}, "meta": {"rule_id": "enough"}}
    with pytest.raises(QualityError):
        Load(shop.source(suite=json.loads(shop.suite(rule).read_text()))).run()
    (report,) = reports(shop)
    assert (report.state, report.files) == ("given up", 1)
    assert "enough" in (report.reason or "")


def test_a_batch_that_a_killed_run_has_begun_is_unfinished(shop: Shop) -> None:
    shop.land("1.csv", "1,1.50,a")
    Load(shop.source()).run()
    shop.land("2.csv", "2,1.50,a")
    Load(shop.source()).run()
    for path in (shop.table / "_delta_log").glob("*1.json"):  # as if the run was killed before the commit
        path.unlink()
    assert [report.state for report in reports(shop)] == ["unfinished", "loaded"]


def test_folded_batches_have_counts_and_no_names(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_state, "_MOST_BATCHES", 3)
    for number in range(5):
        shop.land(f"{number}a.csv", f"{number},1.50,a")
        shop.land(f"{number}b.csv", f"{number},-,a")
        Load(shop.source(files_per_batch=2)).run()
    listed = reports(shop)
    assert [report.number for report in listed] == [4, 3, 2, 1, 0]
    assert {report.names for report in listed[3:]} == {()}
    assert [(report.state, report.files) for report in listed] == [("loaded", 2)] * 5
    assert [report.commit and report.commit.version for report in listed] == [4, 3, 2, 1, 0]
    assert [report.rejected_rows for report in listed] == [1] * 5
    assert [report.number for report in reports(shop, most=2)] == [4, 3]


def test_a_batch_with_an_old_commit_is_still_reported_as_loaded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.land("1.csv", "1,1.50,a")
    Load(shop.source()).run()
    monkeypatch.setattr(batch_reports, "_MOST_COMMITS", 2)
    for _ in range(3):
        DeltaTable(shop.table).delete("id = 99")
        DeltaTable(shop.table).alter.set_table_properties({"delta.appendOnly": "false"})
    (report,) = reports(shop)
    assert (report.state, report.commit, report.files) == ("loaded", None, 1)


def test_batches_of_a_table_that_was_copied_without_its_quarantine_have_no_rejected_rows(shop: Shop) -> None:
    shop.land("1.csv", "1,x,a", "2,1.00,b")
    Load(shop.source()).run()
    shutil.rmtree(shop.quarantine)
    (report,) = reports(shop)
    assert (report.state, report.rejected) == ("loaded", ())
