"""Commands of ``lakehouse`` that change tables: nothing without ``--run``, and with it what other readers confirm."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.cli.main import main
from tests.peers import read_delta_rs, read_duckdb
from tests.slow_cases import some_slow
from tests.table_copies import CopyOf

DATA = Path(__file__).parents[2] / "data"
#: Every command that changes a table with ``--run``; ``TABLE`` is replaced.
CHANGES: dict[str, list[str]] = {
    "optimize": ["optimize", "TABLE"],
    "z-order": ["z-order", "TABLE", "--columns=shop,id"],
    "z-order full": ["z-order", "TABLE", "--columns=shop", "--full"],
    "vacuum": ["vacuum", "TABLE", "--retention-hours=0", "--no-enforce-retention-duration"],
    "checkpoint": ["checkpoint", "TABLE"],
    "cleanup": ["cleanup", "TABLE"],
    "repair": ["repair", "TABLE"],
    "maintain": ["maintain", "TABLE", "--cluster-by=id"],
}


def build(root: Path) -> None:
    append(root, 12)
    deltalake.DeltaTable(root).optimize.compact()
    append(root, 12)


@pytest.fixture
def table(tmp_path: Path, copy_of: CopyOf) -> Path:
    """A table that delta-rs has written, with removed files and without a checkpoint of its last commits."""
    return copy_of(build, tmp_path / "lake/orders")


def append(root: Path, files: int) -> None:
    for number in range(files):
        ids = pa.array(range(number, 1200, files), pa.int64())
        rows = pa.table({"id": ids, "shop": pa.array([value.as_py() % 7 for value in ids], pa.int32())})
        deltalake.write_deltalake(root, rows, mode="append")


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def run(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    """The document that a command prints with ``--json``."""
    assert main([*words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def of(words: list[str], table: Path) -> list[str]:
    return [str(table) if word == "TABLE" else word for word in words]


@pytest.mark.parametrize("words", some_slow([*CHANGES.values()], 4), ids=CHANGES)
def test_without_run_the_folder_is_unchanged(table: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] == "repair":
        deltalake.DeltaTable(table).create_checkpoint()
        damage(table)
    before = content(table)
    document = run(of(words, table), capsys)
    assert (document["command"], document["dry_run"]) == (words[0], True)
    assert main([*of(words, table), "--exit-code"]) == (0 if words[0] == "cleanup" else 3)
    assert capsys.readouterr().err == ""
    assert content(table) == before


@pytest.mark.parametrize("words", some_slow([*CHANGES.values()], 4), ids=CHANGES)
def test_with_run_other_readers_see_the_same_rows(
    table: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_delta_rs(table)
    files = len(deltalake.DeltaTable(table).file_uris())
    run([*of(words, table), "--run"], capsys)
    assert read_delta_rs(table) == read_duckdb(table) == before
    if words[0] in ("optimize", "z-order", "maintain"):
        assert len(deltalake.DeltaTable(table).file_uris()) == 1 < files
        again = run([word for word in of(words, table) if word != "--full"], capsys)
        steps = again["steps"] if "steps" in again else [entry["result"]["step"] for entry in again["tables"]]
        assert [step for step in steps if step] == []


def test_the_files_that_vacuum_announces_are_those_that_it_deletes(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = of(CHANGES["vacuum"], table)
    announced = run(words, capsys)["tables"][0]["result"]["files"]
    before = {path for path in content(table) if path.endswith(".parquet")}
    run([*words, "--run"], capsys)
    assert len(announced) == 12
    assert before - content(table).keys() == set(announced)


def test_a_short_retention_is_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(table)
    assert main(["vacuum", str(table), "--retention-hours=0", "--run"]) == 1
    assert capsys.readouterr().err.startswith("[DELTA_RETENTION_TOO_SHORT] ")
    assert content(table) == before


def test_checkpoint_is_written_once_and_read_by_delta_rs(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = deltalake.DeltaTable(table).version()
    run(["checkpoint", str(table), "--run"], capsys)
    assert (table / "_delta_log" / f"{version:020}.checkpoint.parquet").exists()
    before = content(table)
    document = run(["checkpoint", str(table), "--run", "--exit-code"], capsys)
    assert document["tables"][0]["result"]["commits_since_checkpoint"] == 0
    assert content(table) == before


def damage(table: Path) -> Path:
    """Delete a live data file."""
    file = Path(deltalake.DeltaTable(table).file_uris()[0])
    file.unlink()
    return file


def test_repair_reports_a_missing_file_and_removes_it_from_the_log(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = damage(table)
    findings = run(["repair", str(table), "--exit-code"], capsys, 3)["tables"][0]["result"]["findings"]
    assert findings["files_removed"] == [file.name]
    result = run(["repair", str(table), "--run", "--exit-code"], capsys)["tables"][0]["result"]
    assert (result["is_sound"], result["unrepaired"]) == (False, [])
    assert read_delta_rs(table) == read_duckdb(table)


def test_maintain_records_its_effect(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "records"
    words = ["maintain", str(table), str(tmp_path / "none"), f"--records={records}"]
    assert main([*words, "--run"]) == 1  # the table that does not exist
    printed = capsys.readouterr()
    assert printed.err.startswith("[DELTA_TABLE_NOT_FOUND] plan of ")
    assert re.search(r"^All predictions: bytes wrong by \d+%, gain wrong by \d+%$", printed.out, re.MULTILINE)
    verbs = deltalake.DeltaTable(records / "runs").to_pyarrow_table().to_pydict()
    done = {verb for verb, status in zip(verbs["verb"], verbs["status"], strict=True) if status == "done"}
    assert done == {"optimize", "checkpoint"}
    document = run([*words[:2], words[3]], capsys)
    assert (document["steps"], document["deferred"]) == ([], [])


@pytest.mark.parametrize(
    "name", ["golden/basic-with-inserts-deletes-checkpoint/delta", "delta_spark/tables/checkpoint_multi_part"]
)
def test_tables_of_delta_spark_are_maintained_and_keep_their_rows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "t"
    shutil.copytree(DATA / name, root)
    before = read_delta_rs(root)
    files = len(deltalake.DeltaTable(root).file_uris())
    assert main(["health", str(root), "--exit-code"]) == 3
    for command in ("maintain", "checkpoint", "cleanup"):
        assert main([command, str(root), "--run"]) == 0
        assert read_delta_rs(root) == read_duckdb(root) == before
    assert len(deltalake.DeltaTable(root).file_uris()) < files
    assert main(["health", str(root), "--exit-code"]) == 0


def test_a_budget_that_is_too_small_is_an_error(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(table), "--verbs=optimize", "--budget-bytes=10"]) == 1
    assert capsys.readouterr().err.startswith("[DELTA_BUDGET_TOO_SMALL] ")


def test_a_table_with_nothing_to_do_starts_no_spark(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = "--spark=spark://no.such.host:1"
    for words in (
        ["optimize", "TABLE"],
        ["z-order", "TABLE", "--columns=id"],
        ["maintain", "TABLE", "--cluster-by=id"],
    ):
        run([*of(words, table), "--run"], capsys)
        run([*of(words, table), "--run", nowhere], capsys)


@pytest.mark.slow
def test_spark_rewrites_files(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = read_delta_rs(table)
    words = [sys.executable, "-m", "lakehouse_lib.cli", "z-order", str(table), "--columns=id", "--spark=local[1]"]
    done = subprocess.run([*words, "--run", "--json"], capture_output=True, text=True, timeout=240, check=True)
    assert json.loads(done.stdout)["tables"][0]["result"]["metrics"]["numAddedFiles"] == 1
    assert read_delta_rs(table) == read_duckdb(table) == before
