"""Logs after a cleanup, with checkpoint hints that are missing, stale or wrong: all readers still read the table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.peers import plain, read_delta_rs, read_duckdb

pytestmark = pytest.mark.slow  # every reader, after every cleanup

CHECKPOINT = 5


@pytest.fixture(params=["ours", "theirs"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Eight appends and a delete; older commits than the checkpoint of version 5, ours or delta-rs', are deleted."""
    root = tmp_path / "t"
    for n in range(8):
        write_deltalake(root, pa.table({"part": [str(n % 2)], "id": [n]}), mode="append", partition_by=["part"])
        if n == CHECKPOINT:
            (DeltaTable(root) if request.param == "ours" else deltalake.DeltaTable(root)).create_checkpoint()
    DeltaTable(root).delete("id = 2")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    for version in range(CHECKPOINT + 1):
        (copy / "_delta_log" / f"{version:020d}.json").unlink()
    return copy


def assert_read(table: Path) -> None:
    expected = {CHECKPOINT: set(range(6)), 6: set(range(7)), 7: set(range(8)), 8: set(range(8)) - {2}}
    for version, ids in expected.items():
        our_rows = plain(DeltaTable(table, version=version).to_pyarrow_table())
        assert set(our_rows["id"].to_pylist()) == ids
        assert our_rows.equals(read_delta_rs(table, version))
    assert plain(DeltaTable(table).to_pyarrow_table()).equals(read_delta_rs(table))
    assert read_duckdb(table).equals(read_delta_rs(table))


def test_without_the_commits_before_the_checkpoint(table: Path) -> None:
    assert_read(table)
    with pytest.raises(VersionNotFoundError, match="version 4"):
        DeltaTable(table, version=4)


def test_without_the_hint(table: Path) -> None:
    (table / "_delta_log" / "_last_checkpoint").unlink()
    assert_read(table)


@pytest.mark.parametrize(
    "hint",
    [b"", b"{", b"[]", b"null", b'{"version":"x"}', b'{"version":-1}', json.dumps({"version": 3, "size": 1}).encode()],
)
def test_a_wrong_hint_is_ignored(table: Path, hint: bytes) -> None:
    (table / "_delta_log" / "_last_checkpoint").write_bytes(hint)
    assert set(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == set(range(8)) - {2}


def test_a_stale_hint_and_a_newer_checkpoint(table: Path) -> None:
    stale = (table / "_delta_log" / "_last_checkpoint").read_bytes()
    DeltaTable(table).create_checkpoint()
    assert json.loads((table / "_delta_log" / "_last_checkpoint").read_bytes())["version"] == 8
    (table / "_delta_log" / "_last_checkpoint").write_bytes(stale)
    assert_read(table)


def test_a_hint_beyond_the_end(table: Path) -> None:
    (table / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": 99, "size": 1}))
    assert DeltaTable(table).version() == 8


def test_a_truncated_checkpoint_is_skipped(table: Path) -> None:
    (table / "_delta_log" / f"{7:020d}.checkpoint.parquet").write_bytes(b"PAR1 torn")
    assert set(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == set(range(8)) - {2}
