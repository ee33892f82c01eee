"""Vacuum deletes no symbolic link and no file behind a link, and keeps files to which the log refers through a link."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"p": ["a", "b"], "id": [1, 2]}), partition_by=["p"])
    return root


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "_delta_log" not in path.parts}


def vacuumed(root: Path) -> list[str]:
    return DeltaTable(root).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


@pytest.mark.parametrize("place", ["disk/a", "t/stored/a"])
def test_live_files_behind_a_linked_partition_are_kept(table: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir()
    shutil.move(table / "p=a", tmp_path / place)
    (table / "p=a").symlink_to(tmp_path / place)
    before = everything(tmp_path)
    assert vacuumed(table) == []
    assert everything(tmp_path) == before
    assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_removed_files_behind_a_link_that_leads_out_of_the_table_are_kept(table: Path, tmp_path: Path) -> None:
    shutil.move(table / "p=a", tmp_path / "a")
    (table / "p=a").symlink_to(tmp_path / "a")
    DeltaTable(table).delete("id = 1")
    (removed,) = (tmp_path / "a").iterdir()
    assert vacuumed(table) == []
    assert removed.exists()


def test_a_link_to_a_file_outside_is_kept(table: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"x")
    (table / "p=a" / "x.parquet").symlink_to(tmp_path / "secret.parquet")
    before = everything(tmp_path)
    assert vacuumed(table) == []
    assert everything(tmp_path) == before
