"""A full disk and folders without write permission: the error is a DeltaError, and the table is unchanged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.faults import scenes
from tests.faults.processes import in_a_process
from tests.peers import read_delta_rs

pytestmark = pytest.mark.slow  # mounts separate disks

MAY_NOT = ("append", "overwrite", "delete", "delete all", "compact", "z_order", "checkpoint", "create")


@pytest.mark.parametrize("limit_files", [False, True], ids=["small disk", "small files"])
def test_a_full_disk_fails_only_the_append_that_fills_it(
    tmp_path: Path, limit_files: bool, record_property: pytest.FixtureRequest
) -> None:
    result = in_a_process(scenes.fill_disk, tmp_path, limit_files)
    record_property("fault", result.fault)  # type: ignore[operator]
    failed = [attempt for attempt in result.tried if attempt.error]
    assert failed, result.fault
    assert [attempt for attempt in failed if not attempt.is_delta_error] == []
    assert all(str(tmp_path / "table") in attempt.error for attempt in failed)
    assert [attempt for attempt in result.tried if not attempt.error], result.fault
    assert result.freed.error == ""
    assert result.our_ids == result.delta_rs == result.expected
    assert result.left_over == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter; a test's own folder may be closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-"))
    folder.chmod(0o777)
    yield folder
    for path in [folder, *(child for child in folder.rglob("*") if child.is_dir())]:
        path.chmod(0o777)
    shutil.rmtree(folder)


def forbid(folder: Path) -> None:
    """Let only root write here or below."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


@pytest.mark.parametrize("what", ["all of it", "the log"])
def test_a_table_without_write_permission(open_folder: Path, what: str) -> None:
    table, elsewhere = open_folder / "table", open_folder / "elsewhere"
    elsewhere.mkdir()
    for number in range(3):
        write_deltalake(table, scenes.rows(number), mode="append")
    before = read_delta_rs(table)
    if what == "all of it":
        forbid(table)
    else:
        for path in [table, *table.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        forbid(table / "_delta_log")
    forbid(elsewhere)
    tried = in_a_process(scenes.write_where_it_is_forbidden, table, elsewhere)
    said = {attempt.verb: attempt for attempt in tried}
    for verb in MAY_NOT:
        assert "Permission denied" in said[verb].error, verb
        assert said[verb].is_delta_error, said[verb].error
        assert str(elsewhere / "new" if verb == "create" else table) in said[verb].error
    assert said["read"].error == ""
    assert said["vacuum"].is_delta_error
    assert {attempt.version for attempt in tried} == {2, -1}
    # No version refers to the files that were written before the failed commit.
    assert read_delta_rs(table).equals(before)
    assert sorted(path.name for path in (table / "_delta_log").glob("*.json")) == [f"{n:020d}.json" for n in range(3)]
    assert list((table / "_delta_log").glob("*.tmp")) == []
    if what == "all of it":
        assert len(list(table.glob("*.parquet"))) == 3
    table.chmod(0o777)
    (table / "_delta_log").chmod(0o777)
    write_deltalake(table, scenes.rows(9), mode="append")
    assert DeltaTable(table).version() == 3
