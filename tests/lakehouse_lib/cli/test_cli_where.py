"""``optimize`` and ``z-order``: ``--where`` selects partitions, ``--min-commit-interval`` commits during the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.cli.main import main
from tests.peers import read_delta_rs, read_duckdb

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
COMMANDS: dict[str, list[str]] = {
    "optimize": ["optimize"],
    "z-order": ["z-order", "--columns=id"],
    "z-order full": ["z-order", "--columns=id", "--full"],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three days with three files each."""
    for number in range(3):
        rows = pa.table({"day": list(DAYS) * 4, "id": [number * 12 + row for row in range(12)]})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["day"])
    return tmp_path / "t"


def files(table: Path) -> dict[str, set[str]]:
    """The paths of the live files by day."""
    paths = deltalake.DeltaTable(table).file_uris()
    return {day: {Path(path).name for path in paths if f"day={day}" in path} for day in DAYS}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_only_the_partitions_are_rewritten(
    table: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before, rows = files(table), read_delta_rs(table)
    where = "day >= '2026-11-02' AND NOT day = '2026-11-03'"
    assert main([*words, str(table), "--where", where, "--json"]) == 0
    step: dict[str, Any] = json.loads(capsys.readouterr().out)["tables"][0]["result"]["step"]
    assert step["predicted"]["files_removed"] == 3
    (tmp_path / "where.sql").write_text(where)
    assert main([*words, str(table), f"--where-file={tmp_path / 'where.sql'}", "--run", "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["tables"][0]["result"]["metrics"]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"], metrics["totalConsideredFiles"]) == (3, 1, 3)
    after = files(table)
    assert (after[DAYS[0]], len(after[DAYS[1]]), after[DAYS[2]]) == (before[DAYS[0]], 1, before[DAYS[2]])
    assert read_delta_rs(table) == read_duckdb(table) == rows
    entry = deltalake.DeltaTable(table).history(1)[0]
    assert json.loads(entry["operationParameters"]["predicate"]) == [where]
    assert main([*words[:2], str(table), "--where", "day = '2027-01-01'", "--run"]) == 0
    assert files(table) == after


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("id = 1", "DELTA_INVALID_ARGUMENT"),
        ("nope = 1", "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
        ("", "DELTA_INVALID_PREDICATE"),
    ],
)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("more", [[], ["--run"]], ids=["dry", "run"])
def test_another_condition_is_refused(
    table: Path, words: list[str], more: list[str], where: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(table)
    assert main([*words, str(table), "--where", where, *more]) == 1
    assert capsys.readouterr().err.startswith(f"[{code}] ")
    assert files(table) == before


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_finished_partitions_are_committed_during_the_run(
    table: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES", 1)
    version = deltalake.DeltaTable(table).version()
    assert main([*words, str(table), "--run", "--min-commit-interval=0"]) == 0
    assert deltalake.DeltaTable(table).version() >= version + 2
