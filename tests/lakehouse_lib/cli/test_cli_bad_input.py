"""Bad input of the commands that maintain tables: each is an error with a code, and changes no file of the table."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, write_deltalake
from lakehouse_lib.cli.main import main
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.maintenance import carry_out, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.runs import RunRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import read_delta_rs
from tests.table_copies import CopyOf

COLUMNS = [
    ("nope", "DELTA_COLUMN_NOT_FOUND", "the column 'nope' does not exist"),
    ("list.element", "DELTA_COLUMN_NOT_FOUND", "the column 'list.element' is nested in the column 'list'"),
    ("box.items.id", "DELTA_COLUMN_NOT_FOUND", "the column 'box.items.id' is nested in the column 'box'"),
    ("list", "DELTA_ZORDERING_DATATYPE_NOT_SUPPORTED", "column 'list' of type array<string> has no order"),
    ("late", "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS", "column 'late' has no statistics"),
    ("day", "DELTA_ZORDERING_ON_PARTITION_COLUMN", "column 'day' is a partition column"),
]


def build(root: Path) -> None:
    properties = {"delta.dataSkippingStatsColumns": "id"}
    for number in range(12):
        rows = pa.table(
            {
                "day": ["a", "b"],
                "id": [number, -number],
                "list": [["x"], []],
                "box": [{"items": [{"id": 1}]}, {"items": []}],
                "late": [1, 2],
            }
        )
        write_deltalake(root, rows, partition_by=["day"], mode="append", configuration=properties)
    for name in ("day=a/foreign.parquet", "day=a/notes.txt", "_hidden/x.parquet", "other/file.csv"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"foreign")
        os.utime(root / name, (0, 0))


@pytest.fixture
def table(tmp_path: Path, copy_of: CopyOf) -> Path:
    """Twelve small files in each of two partitions, and foreign files."""
    return copy_of(build, tmp_path / "t")


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("column", "code", "text"), COLUMNS)
@pytest.mark.parametrize("more", [[], ["--run"]], ids=["dry", "run"])
def test_columns_to_z_order_by(
    table: Path, column: str, code: str, text: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(table)
    for words in (["z-order", "--columns", column], ["maintain", "--cluster-by", column]):
        assert main([*words, str(table), *more]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"[{code}] ")
        assert text in err
    assert content(table) == before


def test_the_hint_of_an_unknown_option_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["z-order", "table", "--colums", "id"]) == 2
    assert "unknown option --colums\nhint: See lakehouse z-order --help" in capsys.readouterr().err


def test_a_target_size_of_0(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, snapshot = content(table), load_snapshot(open_store(table))
    for words in (["optimize"], ["z-order", "--columns=id"], ["plan"], ["health"]):
        assert main([*words, str(table), "--target-file-size=0"]) == 2
        assert capsys.readouterr().err.startswith("[DELTA_INVALID_COMMAND_LINE] ")
    for rewrite in (
        lambda: compact(snapshot, ArrowEngine(), target_size=0),
        lambda: z_order(snapshot, ArrowEngine(), ["id"], target_size=0),
    ):
        with pytest.raises(InvalidArgumentError, match="expected a positive number of bytes") as refusal:
            rewrite()
        assert refusal.value.code == "DELTA_INVALID_TABLE_PROPERTY"
    plan = plan_fleet([MaintainedTable("t", open_store(table), Policy(target_file_size=0))], Budget())
    assert plan.errors["t"].code == "DELTA_INVALID_TABLE_PROPERTY"
    assert content(table) == before


def test_a_retention_below_the_safe_one(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deltalake.DeltaTable(table).optimize.compact()
    files = set(table.rglob("*.parquet"))
    for words in (["vacuum"], ["vacuum", "--lite"], ["vacuum", "--run"]):
        assert main([*words, str(table), "--retention-hours=1"]) == 1
        assert capsys.readouterr().err.startswith("[DELTA_RETENTION_TOO_SHORT] ")
    registry = table.parent / "lakehouse.yaml"
    settings = "{vacuum: {retention_hours: 0}, maintenance: {payback_queries: 1e9}}"
    registry.write_text(f"defaults: {settings}\ntables: {{t: {{uri: t}}}}\n")
    assert main(["maintain", f"--registry={registry}", "--verbs=vacuum", "--run", "--json"]) == 1
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert (step["verb"], step["status"], step["error_code"]) == ("vacuum", "failed", "DELTA_RETENTION_TOO_SHORT")
    assert set(table.rglob("*.parquet")) == files


def test_a_budget_too_small_for_any_step(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(table)
    for words in (["--budget-bytes=10"], ["--budget-bytes=0"], ["--budget-seconds=0"]):
        for more in ([], ["--run"]):
            assert main(["maintain", str(table), "--verbs=optimize", *words, *more]) in (1, 2)
            assert capsys.readouterr().err.startswith(("[DELTA_BUDGET_TOO_SMALL] ", "[DELTA_INVALID_COMMAND_LINE] "))
    assert content(table) == before


def test_foreign_files_are_not_part_of_the_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They count for no number and for no plan. A full vacuum deletes old ones outside hidden folders, as delta-rs."""
    rows = read_delta_rs(table)
    assert main(["health", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"][0]["result"]["files"] == 24
    assert main(["maintain", str(table), "--run"]) == 0
    assert main(["vacuum", str(table), "--lite", "--run"]) == 0
    assert len([path for path, data in content(table).items() if data == b"foreign"]) == 4
    capsys.readouterr()
    assert main(["vacuum", str(table), "--json"]) == 0
    announced = set(json.loads(capsys.readouterr().out)["tables"][0]["result"]["files"])
    assert announced == set(deltalake.DeltaTable(table).vacuum(dry_run=True, full=True))
    assert announced == {"day=a/foreign.parquet", "day=a/notes.txt", "other/file.csv"}
    assert main(["vacuum", str(table), "--run"]) == 0
    assert [path.name for path, data in content(table).items() if data == b"foreign"] == ["x.parquet"]
    assert read_delta_rs(table) == rows


def test_a_table_that_vanishes_between_plan_and_run(table: Path) -> None:
    fleet = [MaintainedTable(name, open_store(table.parent / name)) for name in ("t", "copy")]
    shutil.copytree(table, table.parent / "copy")
    orders = plan_fleet(fleet, Budget()).orders()
    shutil.rmtree(table)
    entries = carry_out(orders, fleet, ArrowEngine)
    assert {(entry.table, entry.verb, entry.status, entry.error_code) for entry in entries} >= {
        ("t", "plan", "failed", "DELTA_TABLE_NOT_FOUND"),
        ("copy", "optimize", "done", None),
    }
    assert not table.exists()


def test_two_planners_at_once(table: Path) -> None:
    """Both plan the same steps. Who comes second plans again, and finds nothing to do."""
    fleet = [MaintainedTable("t", open_store(table))]
    record = RunRecord(str(table.parent / "records"))
    first, second = (plan_fleet(fleet, Budget(), record) for _ in range(2))
    assert [step.verb for step in first.plan.steps] == [step.verb for step in second.plan.steps] != []
    assert "optimize" in {entry.verb for entry in carry_out(first.orders(), fleet, ArrowEngine, record)}
    version = deltalake.DeltaTable(table).version()
    assert carry_out(second.orders(), fleet, ArrowEngine, record) == []
    assert deltalake.DeltaTable(table).version() == version
