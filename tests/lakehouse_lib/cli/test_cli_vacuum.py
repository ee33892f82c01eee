"""The options of ``lakehouse vacuum``, and of the vacuum of a maintenance run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv
import pytest

from lakehouse_lib import write_deltalake
from lakehouse_lib.cli.main import main
from tests.peers import files_delta_rs, parquet_files, read_delta_rs

NOW = ["--retention-hours=0", "--no-enforce-retention-duration"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with three removed files, and an old file without a log entry."""
    root = tmp_path / "lake/orders"
    for number in range(4):
        write_deltalake(root, pa.table({"id": [number]}), mode="overwrite")
    (root / "leftover.parquet").write_bytes(b"12345")
    os.utime(root / "leftover.parquet", (0, 0))
    return root


def vacuum(capsys: pytest.CaptureFixture[str], table: Path, *words: str) -> dict[str, Any]:
    """The result of ``lakehouse vacuum`` with a retention of no hours."""
    assert main(["vacuum", str(table), *NOW, *words, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)["tables"][0]["result"]
    return result


def test_a_lite_vacuum_reads_the_log_and_a_full_vacuum_lists_the_table(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = set(deltalake.DeltaTable(table).vacuum(0, dry_run=True, enforce_retention_duration=False, full=False))
    lite = vacuum(capsys, table, "--lite")
    assert set(lite["files"]) == expected
    assert lite["metrics"]["sizeOfDataToDelete"] == sum((table / path).stat().st_size for path in expected)
    assert set(vacuum(capsys, table)["files"]) == set(vacuum(capsys, table, "--full")["files"])
    vacuum(capsys, table, "--lite", "--run")
    assert parquet_files(table) == files_delta_rs(table) | {table / "leftover.parquet"}
    vacuum(capsys, table, "--run", "--files-per-second=1000")
    assert parquet_files(table) == files_delta_rs(table)


def test_retained_versions_remain_readable(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vacuum(capsys, table, "--keep-versions", "0,2", "--run")
    for version in (0, 2):
        assert deltalake.DeltaTable(table, version=version).to_pyarrow_table()["id"].to_pylist() == [version]
    assert len(parquet_files(table)) == 3
    assert main(["vacuum", str(table), "--keep-versions", "0,99"]) == 1
    assert "DELTA_VERSION_NOT_FOUND" in capsys.readouterr().err


def test_an_inventory_in_place_of_a_listing(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(path.name for path in table.glob("*.parquet"))
    words = []
    for number, part in enumerate((paths[:2], paths[2:])):
        rows = {"path": part, "size": [1] * len(part), "last_modified_date": ["2026-01-01T00:00:00Z"] * len(part)}
        pa.csv.write_csv(pa.table(rows), tmp_path / f"{number}.csv")
        words.append(f"--inventory={tmp_path / f'{number}.csv'}")
    assert set(vacuum(capsys, table, *words)["files"]) == set(vacuum(capsys, table)["files"])
    assert set(vacuum(capsys, table, words[0])["files"]) < set(vacuum(capsys, table)["files"])


@pytest.mark.parametrize(
    "words",
    [["--lite", "--full"], ["--files-per-second=0"], ["--keep-versions=a"], ["--keep-versions=-1"]],
    ids=" ".join,
)
def test_wrong_options(table: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vacuum", str(table), *words]) == 2
    assert capsys.readouterr().err.startswith("[DELTA_INVALID_COMMAND_LINE] ")


def test_an_inventory_is_not_for_a_lite_vacuum(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vacuum", str(table), "--lite", "--inventory=x.csv"]) == 1
    assert "only one of them" in capsys.readouterr().err


@pytest.mark.parametrize("is_full", [True, False])
def test_maintenance_runs_vacuum_as_the_registry_says(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_full: bool
) -> None:
    settings = f"{{retention_hours: 0, enforce_retention: false, full: {str(is_full).lower()}, files_per_second: 500}}"
    registry = tmp_path / "lakehouse.yaml"
    registry.write_text(
        f"tables: {{orders: {{uri: {table}, vacuum: {settings}, maintenance: {{payback_queries: 1e9}}}}}}\n"
    )
    words = ["--registry", str(registry), "--verbs=vacuum"]
    assert main(["plan", *words, "--json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert (step["arguments"]["full"], step["arguments"]["files_per_second"]) == (is_full, 500)
    assert main(["plan", *words, "--full", "--files-per-second=9", "--json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert (step["arguments"]["full"], step["arguments"]["files_per_second"]) == (True, 9)
    assert main(["maintain", *words, "--run"]) == 0
    assert (table / "leftover.parquet").exists() != is_full
    assert read_delta_rs(table)["id"].to_pylist() == [3]


def test_the_deleted_files_of_registered_tables_are_recorded(table: Path, tmp_path: Path) -> None:
    registry, expected = tmp_path / "lakehouse.yaml", parquet_files(table) - files_delta_rs(table)
    registry.write_text(f"records: {tmp_path / 'records'}\ntables: {{orders: {{uri: {table}}}}}\n")
    assert main(["vacuum", "--registry", str(registry), *NOW]) == 0
    assert not (tmp_path / "records").exists()
    assert main(["vacuum", "--registry", str(registry), *NOW, "--run"]) == 0
    rows = deltalake.DeltaTable(tmp_path / "records/deleted_files").to_pyarrow_table().to_pylist()
    assert {(row["table"], table / row["path"]) for row in rows} == {("orders", path) for path in expected}
