"""Sixteen processes write to one table and are killed at random: acknowledged commits exist once for all readers."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from lakehouse_lib.errors import ConcurrentAppendError
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.commit_ledger import judge
from tests.commit_operations import SCHEMA, Ledger, Operation
from tests.faults.storm import storm
from tests.faults.writer import do

pytestmark = pytest.mark.slow


def test_acknowledged_commits_survive_killed_writers(tmp_path: Path) -> None:
    result = storm(tmp_path, commits=60, kills=12, versions=3, seed=5)
    assert result.verdict.violations == []
    assert result.verdict.versions > 60
    assert result.killed + result.died >= 12
    assert result.killed
    assert result.verdict.kinds["append"] > 20
    assert result.verdict.looked_at == 3


def allow_two_winners() -> None:
    """A store whose put_if_absent is a check and a put, as on file systems without an atomic call."""

    def racy(self: LocalStore, path: str, data: bytes) -> bool:
        if self.head(path) is not None:
            return False
        time.sleep(0.01)
        self.put(path, data)
        return True

    LocalStore.put_if_absent = racy  # type: ignore[method-assign]


def test_a_store_that_acknowledges_two_winners_is_detected(tmp_path: Path) -> None:
    result = storm(tmp_path, commits=20, kills=0, versions=2, seed=5, sabotage=allow_two_winners)
    assert any("is not in the log" in violation for violation in result.verdict.violations)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, Path]:
    """A table with five appends and a delete, and its writer's ledger."""
    table, ledger = tmp_path / "table", tmp_path / "0.ledger"
    DeltaTable.create(table, SCHEMA, configuration={"delta.checkpointInterval": "3"})
    writer_ledger, store = Ledger(ledger), LocalStore(str(table), fsync=False)
    steps = [Operation(f"0-{n}", "append", 10 * n, 100 * n) for n in range(5)] + [Operation("0-5", "delete", 0, 100)]
    for operation in steps:
        writer_ledger.begin(operation)
        writer_ledger.acknowledge(operation, do(store, operation))
    return table, ledger


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def test_a_run_without_damage_has_no_violations(run: tuple[Path, Path]) -> None:
    table, ledger = run
    verdict = judge(table, [ledger])
    assert verdict.violations == []
    assert (verdict.versions, verdict.rows, verdict.looked_at, verdict.unanswered) == (7, 40, 5, 0)
    assert verdict.kinds == {"append": 5, "delete": 1}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("lost", "0-5 was acknowledged as version 6 but is not in the log"),
        ("gap", "are not contiguous"),
        ("twice", "0-4 is committed 2 times"),
        ("truncated", "version 6 is not a commit of a writer"),
        ("other version", "0-4 was acknowledged as version 5 but is version 6"),
        ("never started", "elsewhere was never begun"),
        ("refused", "0-6 is version 7, but its writer got ConcurrentAppendError"),
        ("rows lost", "lacks 10 rows"),
        ("rows duplicated", "has one too many of 10 rows"),
        ("deleted too little", "has one too many of 10 rows"),
        ("checkpoint", "the checkpoint has"),
        ("hint", "_last_checkpoint points to version 90"),
    ],
)
def test_every_kind_of_damage_is_detected(run: tuple[Path, Path], damage: str, message: str) -> None:
    table, ledger = run
    five, six, seven = (commit(table, version) for version in (5, 6, 7))
    writer_ledger = Ledger(ledger)
    if damage == "lost":
        six.unlink()
    elif damage == "gap":
        five.rename(commit(table, 9))
    elif damage == "twice":
        shutil.copy(five, seven)
    elif damage == "truncated":
        six.write_bytes(six.read_bytes()[:40])
    elif damage == "other version":
        contents = five.read_bytes(), six.read_bytes()
        six.write_bytes(contents[0])
        five.write_bytes(contents[1])
    elif damage == "never started":
        seven.write_text(_renamed(six, "elsewhere"))
    elif damage == "refused":
        writer_ledger.begin(Operation("0-6", "append", 60, 600))
        writer_ledger.refuse(Operation("0-6", "append"), ConcurrentAppendError("somebody was first"))
        seven.write_text(_renamed(six, "0-6"))
    elif damage == "rows lost":
        lines = five.read_text().splitlines()
        five.write_text("\n".join(line for line in lines if '"add"' not in line) + "\n")
        _without_checkpoints(table)
    elif damage == "rows duplicated":
        path = _added(five)
        shutil.copy(table / path, table / "copied.parquet")
        seven.write_text(_renamed(five, "0-6").replace(path, "copied.parquet"))
        writer_ledger.begin(Operation("0-6", "compact"))
    elif damage == "deleted too little":
        lines = six.read_text().splitlines()
        six.write_text("\n".join(line for line in lines if '"remove"' not in line) + "\n")
        _without_checkpoints(table)
    elif damage == "checkpoint":
        earlier, later = (table / "_delta_log" / f"{version:020d}.checkpoint.parquet" for version in (3, 6))
        shutil.copy(earlier, later)
    elif damage == "hint":
        (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 90, "size": 1}')
    assert any(message in violation for violation in judge(table, [ledger], versions=9).violations)


def test_a_replaced_commit_is_distinguished_from_a_lost_commit(run: tuple[Path, Path]) -> None:
    table, ledger = run
    six = commit(table, 6)
    Ledger(ledger).begin(Operation("200-1", "append", 60, 600))
    six.write_text(_renamed(six, "200-1"))
    verdict = judge(table, [ledger], replacing=range(200, 300))
    assert verdict.replaced == ["0-5, acknowledged as version 6, was replaced by 200-1"]
    assert not verdict.violations
    assert judge(table, [ledger]).violations


def _without_checkpoints(table: Path) -> None:
    for path in [*(table / "_delta_log").glob("*.parquet"), table / "_delta_log" / "_last_checkpoint"]:
        path.unlink(missing_ok=True)


def _renamed(path: Path, operation: str) -> str:
    """The commit with another operation's name. A file's identifier may contain the same characters."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["userMetadata"] = operation
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _added(path: Path) -> str:
    (added,) = (json.loads(line)["add"]["path"] for line in path.read_text().splitlines() if '"add"' in line)
    return str(added)
