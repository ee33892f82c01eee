"""The erasure's tasks if rows arrive during the run or if a task is repeated, without Spark."""

import json
import os
import shutil
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_lib import DeltaTable
from tests.airflow.erasure_runs import Run, append, on_disk, refuse, versions
from tests.peers import parquet_files


def test_an_order_that_arrives_before_the_approval_fails_the_delete(tables: Path) -> None:
    run = Run()
    run.locate()
    append(tables / "orders", o_orderkey=[3], o_custkey=[2])
    append(tables / "lineitem", l_orderkey=[3])
    before = versions(tables)
    with pytest.raises(
        AirflowFailException,
        match=r"LAKEHOUSE_PLAN_OUTDATED. rows with new keys .*\(lineitem\).*trigger the erasure again$",
    ):
        run.delete()
    assert versions(tables) == before
    with pytest.raises(AirflowFailException, match=rf"request {run.request} is over and its keys are deleted"):
        run.delete()

    run = Run()
    run.locate()
    assert run.delete() == {"lineitem": 2, "orders": 2}
    run.purge()
    run.report()
    assert on_disk(tables / "lineitem") == on_disk(tables / "orders") == [1]


def test_an_approval_does_not_cover_rows_that_were_located_later(tables: Path) -> None:
    run = Run()
    run.locate()
    append(tables / "orders", o_orderkey=[3], o_custkey=[2])
    append(tables / "lineitem", l_orderkey=[3])
    run.look()  # as after that task alone is cleared
    before = versions(tables)
    for task in (run.delete, run.purge, run.report, run.answer):
        with pytest.raises(
            AirflowFailException, match=r"LAKEHOUSE_NOT_APPROVED. .*asked about request .*trigger the DAG again"
        ):
            task()
    assert versions(tables) == before


def test_rows_that_arrive_in_an_empty_table_fail_the_delete(tables: Path) -> None:
    run = Run()
    assert run.locate()["customer"]["rows"] == 0
    append(tables / "customer", c_custkey=[2])
    before = versions(tables)
    with pytest.raises(AirflowFailException, match=r"arrived.*planned \(customer\).*deleted nothing;.* trigger"):
        run.delete()
    assert versions(tables) == before
    run = Run()
    run.locate()
    run.finish()
    assert on_disk(tables / "customer") == [1]


def test_a_new_quarantine_with_rows_of_the_person_fails_the_delete(tables: Path) -> None:
    run = Run()
    run.locate()
    refuse(tables, order="8", customer="1")
    assert run.delete() == {"lineitem": 1, "orders": 1}
    refuse(tables, order="9", customer="2")
    with pytest.raises(AirflowFailException, match=r"\(lineitem, orders_quarantine\)"):
        run.delete()


def test_new_rows_of_known_keys_are_deleted(tables: Path) -> None:
    run = Run()
    run.locate()
    append(tables / "lineitem", l_orderkey=[2, 2])
    assert run.delete() == {"lineitem": 3, "orders": 1}
    run.purge()
    run.report()


@pytest.mark.parametrize("done", [["lineitem"], ["lineitem", "orders"]])
def test_a_retry_finishes_an_interrupted_delete(tables: Path, done: list[str]) -> None:
    run = Run()
    run.locate()
    places = run.places()
    for table in done:
        DeltaTable(tables / table).delete(places[table].keys.sql())
    run.finish()
    run.finish()
    assert on_disk(tables / "lineitem") == on_disk(tables / "orders") == [1]


def test_rows_that_arrive_during_a_delete_are_left_to_the_next_run(tables: Path) -> None:
    run = Run()
    run.locate()
    run.delete()
    append(tables / "orders", o_orderkey=[3], o_custkey=[2])
    append(tables / "lineitem", l_orderkey=[3])
    # Another locate would now forget order 2, whose line item is still on the disk.
    with pytest.raises(AirflowFailException, match="erase the same person in another run, and then clear"):
        run.delete()
    other = Run()
    other.locate()
    other.finish()
    assert 2 in on_disk(tables / "lineitem")
    run.finish()
    assert on_disk(tables / "lineitem") == on_disk(tables / "orders") == [1]


def test_late_line_items_are_deleted_by_clearing_the_delete(
    tables: Path,
) -> None:
    append(tables / "orders", o_orderkey=[4], o_custkey=[2])
    DeltaTable(tables / "lineitem").delete("l_orderkey = 2")
    DeltaTable(tables / "lineitem").vacuum(0, enforce_retention_duration=False, dry_run=False)
    run = Run()
    assert run.locate()["lineitem"]["on_disk"]["rows"] == 0
    run.delete()
    run.purge()
    append(tables / "lineitem", l_orderkey=[4])
    for task, words in (
        (run.purge, "RetentionError: .*arrived after the delete"),
        (run.report, "not erased from disk"),
    ):
        with pytest.raises(AirflowFailException, match=f"{words}.*clear this run from its delete task on"):
            task()
    run.finish()
    assert on_disk(tables / "lineitem") == [1]


def move(registry_file: Path, table: str) -> Path:
    """Copy a table and change the registry to the copy, as in a migration; returns the copy's folder."""
    body = json.loads(registry_file.read_text())
    old, new = registry_file.parent / body["tables"][table]["uri"], registry_file.parent / "elsewhere" / table
    shutil.copytree(old, new)
    body["tables"][table]["uri"] = str(new)
    registry_file.write_text(json.dumps(body))
    return new


def test_a_table_that_moved_before_the_approval_is_not_changed(tables: Path, registry_file: Path) -> None:
    run = Run()
    run.locate()
    moved = move(registry_file, "orders")
    before = versions(tables)
    for task in (run.delete, run.purge):
        with pytest.raises(AirflowFailException, match=rf"orders is at {moved}; .*has changed nothing; restore"):
            task()
    assert versions(tables) == before

    run = Run()
    run.locate()
    run.finish()
    assert on_disk(moved) == [1]


def test_a_table_that_moved_later_is_not_reported_as_clean(tables: Path, registry_file: Path) -> None:
    run = Run()
    run.locate()
    moved = move(registry_file, "orders")
    edited = registry_file.read_text()
    registry_file.write_text(edited.replace(str(moved), "tables/orders"))
    run.delete()
    run.purge()
    registry_file.write_text(edited)
    with pytest.raises(AirflowFailException, match=rf"orders is at {moved}.*trigger the erasure again"):
        run.report()
    assert on_disk(moved) == [1, 2]


def test_deleted_files_with_another_name_are_counted(tables: Path, tmp_path: Path) -> None:
    for number, file in enumerate(parquet_files(tables / "orders")):
        os.link(file, tmp_path / f"backup {number}")
    run = Run()
    run.locate()
    run.delete()
    purged = run.purge()["tables"]["orders"]
    assert purged["files"] == purged["hard_linked"] == 1
    assert purged["out_of_reach"] == 0
