"""Rows of a checkpoint that later commits changed are looked up once in an open table and its later versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.log.checkpoint.rows import CheckpointRows
from lakehouse_lib.log.replay.live_files import FileSet
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store


@pytest.mark.parametrize("read", [lambda files: list(files.pieces(["path"])), lambda files: files.columns(["size"])])
def test_the_superseded_rows_of_a_checkpoint_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[FileSet], object]
) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    for number in range(4):
        write_deltalake(table, pa.table({"id": [number]}), mode="append")
    table.create_checkpoint()
    table.delete("id = 1")
    write_deltalake(table, pa.table({"id": [9]}), mode="append")
    snapshot = load_snapshot(open_store(table.table_uri))
    files = snapshot.query(lambda state: state.files)
    assert not files.is_counted
    read(files)
    monkeypatch.setattr(CheckpointRows, "find", lambda *_: pytest.fail("the rows were looked up again"))
    assert files.is_counted
    later = files.with_changes(pa.nulls(0, pa.string()), files.added[:0])
    assert len(files) == len(later) == len(later.columns(["path"])) == len(next(later.pieces(["path"]))) + 1 == 4
