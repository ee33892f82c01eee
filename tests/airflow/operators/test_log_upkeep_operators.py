"""Operators for the log, cleanup and repair, on real tables; delta-rs reads the results."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.operators.cleanup import LakehouseCleanupOperator
from lakehouse_airflow.operators.maintenance.summary import LakehouseSummaryOperator
from lakehouse_airflow.operators.repair import REPAIRED, LakehouseRepairOperator
from lakehouse_lib.operations.results import RepairResult
from tests.table_builder import longs

DAY = 86_400


class TaskInstance:
    """A task's outputs, and the outputs of earlier tasks."""

    dag_id, run_id, task_id, map_index, try_number = "upkeep", "manual__1", "t", -1, 1

    def __init__(self, left: dict[tuple[str, int], Any] | None = None) -> None:
        self.left = left or {}
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, map_indexes: int = -1) -> Any:
        return self.left.get((task_ids, map_indexes))


def versions(table: Path) -> list[int]:
    return sorted(int(file.stem) for file in (table / "_delta_log").glob("*.json"))


@pytest.fixture
def orders(registry_file: Path) -> Path:
    return aged(registry_file.parent / "tables" / "orders")


def aged(table: Path, **configuration: str) -> Path:
    """Four versions, three of them forty days old, with a checkpoint of the third."""
    for number in range(4):
        rows = longs(o_custkey=[number])
        write_deltalake(table, rows, mode="append", configuration=configuration)
        if number == 2:
            DeltaTable(str(table)).create_checkpoint()
    then = time.time() - 40 * DAY
    for number in range(3):
        os.utime(table / "_delta_log" / f"{number:020d}.json", (then + number, then + number))
    return table


def test_cleanup_forgets_expired_versions_and_counts_them(orders: Path) -> None:
    dry = LakehouseCleanupOperator(task_id="t", table="orders", dry_run=True).execute({})
    assert (dry["files_deleted"], versions(orders)) == (2, [0, 1, 2, 3])
    done = LakehouseCleanupOperator(task_id="t", table="orders")
    assert done.execute({}) == {
        "table": "orders",
        "read_version": 3,
        "version": None,
        "dry_run": False,
        "files_deleted": 2,
    }
    assert done.result_version == ("orders", 3)
    assert versions(orders) == [2, 3]
    assert len(DeltaTable(str(orders), version=2).to_pyarrow_table()) == 3
    assert len(DeltaTable(str(orders)).to_pyarrow_table()) == 4


def test_a_log_without_expiry_is_skipped(registry_file: Path) -> None:
    orders = aged(registry_file.parent / "tables" / "orders", **{"delta.enableExpiredLogCleanup": "false"})
    with pytest.raises(AirflowSkipException, match="'orders' keeps its log without limit"):
        LakehouseCleanupOperator(task_id="t", table="orders").execute({})
    assert versions(orders) == [0, 1, 2, 3]


def test_a_log_retention_shorter_than_that_of_files_is_refused_unless_permitted(registry_file: Path) -> None:
    orders = aged(registry_file.parent / "tables" / "orders", **{"delta.logRetentionDuration": "interval 1 day"})
    with pytest.raises(AirflowFailException, match=r"^RetentionError: .*logRetentionDuration"):
        LakehouseCleanupOperator(task_id="t", table=str(orders)).execute({})
    assert versions(orders) == [0, 1, 2, 3]
    # The registry allows it, as for vacuum.
    assert LakehouseCleanupOperator(task_id="t", table="orders").execute({})["files_deleted"] == 2


def test_repair_reports_by_default_and_repairs_without_dry_run(orders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sound = LakehouseRepairOperator(task_id="t", table="orders").execute({})
    assert sound == {
        "table": "orders",
        "read_version": 3,
        "version": None,
        "dry_run": True,
        "is_sound": True,
        "found": {},
    }

    (lost,) = DeltaTable(str(orders), version=0).file_uris()
    Path(lost).unlink()
    (orders / "_delta_log" / "_last_checkpoint").write_text("{torn")
    before = {file: file.read_bytes() for file in orders.rglob("*") if file.is_file()}
    report = LakehouseRepairOperator(task_id="t", table="orders").execute({})
    assert (report["is_sound"], report["read_version"], report["version"]) == (False, 3, None)
    assert report["found"] == {
        "files_removed": {"count": 1, "first": [Path(lost).name]},
        "last_checkpoint": {"count": 1, "first": ["it cannot be read"]},
    }
    assert Path(lost).name in capfd.readouterr().out
    assert {file: file.read_bytes() for file in orders.rglob("*") if file.is_file()} == before

    repaired = LakehouseRepairOperator(task_id="t", table="orders", dry_run="False").execute({})
    assert (repaired["dry_run"], repaired["version"], set(repaired["found"])) == (False, 4, set(report["found"]))
    assert sorted(DeltaTable(str(orders)).to_pyarrow_table()["o_custkey"].to_pylist()) == [1, 2, 3]
    assert LakehouseRepairOperator(task_id="t", table="orders").execute({})["is_sound"]


def test_a_report_names_the_first_twenty_files(registry_file: Path) -> None:
    table = registry_file.parent / "tables" / "orders"
    names = [str(number) for number in range(30)]
    write_deltalake(table, pa.table({"o_custkey": names, "one": [1] * 30}), partition_by=["o_custkey"])
    for file in table.rglob("*.parquet"):
        file.unlink()
    files_removed = LakehouseRepairOperator(task_id="t", table="orders").execute({})["found"]["files_removed"]
    assert (files_removed["count"], len(files_removed["first"])) == (30, 20)


def test_an_unrepairable_table_fails_the_task_with_the_damage_in_xcom(orders: Path) -> None:
    for number in (0, 1):
        (orders / "_delta_log" / f"{number:020d}.json").unlink()
    (checkpoint,) = (orders / "_delta_log").glob("*.checkpoint.parquet")
    write_deltalake(orders, longs(o_custkey=[9]), mode="append")
    DeltaTable(str(orders)).create_checkpoint()  # so that the table can still be opened
    checkpoint.write_bytes(b"PAR1 torn PAR1")
    report = LakehouseRepairOperator(task_id="t", table="orders").execute({})
    assert list(report["found"]) == ["checkpoints_needed"]
    assert report["found"]["checkpoints_needed"]["first"][0].startswith(f"_delta_log/{checkpoint.name}: ")
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match=r"damaged: checkpoints_needed cannot be repaired"):
        LakehouseRepairOperator(task_id="t", table="orders", dry_run=False).execute({"ti": ti})
    assert ti.pushed["return_value"]["found"] == report["found"]
    assert checkpoint.exists()


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("sizes_wrong", lambda table: cut_in_half(next(table.glob("*.parquet")))),
        ("commits_torn", lambda table: cut_in_half(commit(table, 1))),
        ("commits_missing", lambda table: commit(table, 1).unlink()),
    ],
)
def test_damage_that_only_a_backup_repairs_fails_the_task(
    orders: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    damage(orders)
    report = LakehouseRepairOperator(task_id="t", table="orders").execute({})
    assert list(report["found"]) == [kind]
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match=f"damaged: {kind} cannot be repaired"):
        LakehouseRepairOperator(task_id="t", table="orders", dry_run=False).execute({"ti": ti})
    assert ti.pushed["return_value"]["found"] == report["found"]


@pytest.mark.parametrize(("gone", "is_failure"), [((0, 2), False), ((0, 2, 3), False), ((0, 2, 5), True), ((2,), True)])
def test_gaps_of_an_interrupted_cleanup_do_not_fail_the_task(
    registry_file: Path, gone: tuple[int, ...], is_failure: bool
) -> None:
    """The log has versions 0 to 6 with a checkpoint of 4, the oldest readable version after 0 is deleted."""
    orders = registry_file.parent / "tables" / "orders"
    for number in range(7):
        write_deltalake(orders, longs(o_custkey=[number]), mode="append")
        if number in (4, 6):
            DeltaTable(str(orders)).create_checkpoint()
    for version in gone:
        commit(orders, version).unlink()
    repair = LakehouseRepairOperator(task_id="t", table="orders", dry_run=False)
    if is_failure:
        with pytest.raises(AirflowFailException, match="damaged: commits_missing cannot be repaired"):
            repair.execute({"ti": TaskInstance()})
    else:
        assert list(repair.execute({})["found"]) == ["commits_missing"]


def test_the_docs_say_which_kinds_of_damage_are_repaired() -> None:
    page = (Path(__file__).parents[3] / "docs/log-upkeep.md").read_text()
    repaired_by = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page.partition("## Repair")[2], re.MULTILINE))
    kinds = set(RepairResult.kinds())
    assert set(repaired_by) == kinds
    assert {kind for kind, how in repaired_by.items() if not how.startswith("nothing: ")} == set(REPAIRED)


def test_dry_run_must_be_a_boolean(orders: Path) -> None:
    with pytest.raises(AirflowFailException, match="dry_run is 'no'; expected True or False"):
        LakehouseRepairOperator(task_id="t", table="orders", dry_run="no").execute({})
    assert versions(orders) == [0, 1, 2, 3]


def test_the_summary_has_a_line_for_each_table() -> None:
    effect = {"files_removed": 4, "files_added": 1, "bytes_written": 9, "bytes_freed": 0, "query_bytes": 5}
    common = {"predicted": effect, "measured": effect, "prediction_error": {"bytes": 0.0, "gain": 0.0}}
    done = {"status": "done", "reason": "files are small", "version": 3, **common}
    failed = {"status": "failed", "reason": "", "version": None, **common, "measured": None, "prediction_error": None}
    results = [
        {"steps": [{"table": "orders", "verb": "optimize", "error": None, **done}]},
        None,
        {"steps": [{"table": "customer", "verb": "vacuum", "error": "no access", **failed}]},
    ]
    summary = LakehouseSummaryOperator(task_id="t", maintained_by="maintain")
    assert summary.execute({"ti": Results(results)}) == {
        "orders": {"optimize": done},
        "customer": {"vacuum": failed},
    }
    assert summary.execute({"ti": Results(None)}) == {}
    assert summary.execute({"ti": Results(results[0])}) == {"orders": {"optimize": done}}


class Results:
    """The part of a task instance that returns the results of a mapped task."""

    def __init__(self, results: Any) -> None:
        self.results = results

    def xcom_pull(self, *, task_ids: str) -> Any:
        assert task_ids == "maintain"
        return self.results
