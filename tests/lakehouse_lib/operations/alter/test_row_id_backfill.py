"""Row tracking of a table that has rows: its files get row ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import ConcurrentAppendError, UnsupportedFeatureError
from lakehouse_lib.operations.alter.features.row_id_backfill import backfill_row_ids
from lakehouse_lib.operations.alter.properties import set_table_properties
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import parquet_files, plain, read_by_all

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
ENABLED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def row_ids(table: DeltaTable) -> dict[int, int]:
    rows = table.scan(["id"], row_ids=True).read_all()
    return dict(zip(rows["id"].to_pylist(), rows["_metadata.row_id"].to_pylist(), strict=True))


def some_rows(first: int) -> pa.Table:
    return ROWS.set_column(0, "id", pa.array(range(first, first + 3), pa.int64()))


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
def test_files_get_ids_and_rows_keep_them(tmp_path: Path, engine: Engine, properties: dict[str, str]) -> None:
    for first in (1, 11, 21):
        write_deltalake(tmp_path, some_rows(first), mode="append", configuration=properties if first == 1 else None)
    table = DeltaTable(tmp_path, engine=engine)
    table.delete("id = 12")
    rows, files = plain(table.to_pyarrow_table()), parquet_files(tmp_path)
    commit = CommitProperties({"ticket": "7"}, app_transactions=[Transaction("job", 1)])
    table.alter.set_table_properties(ENABLED, commit_properties=commit)
    assert parquet_files(tmp_path) == files
    history = table.history(3)
    assert [entry["operation"] for entry in history] == [
        "SET TBLPROPERTIES",
        "ROW TRACKING BACKFILL",
        "UPGRADE PROTOCOL",
    ]
    assert {entry["ticket"] for entry in history} == {"7"}
    assert table.transaction_version("job") == 1
    assert plain(table.to_pyarrow_table()).equals(rows)
    before = row_ids(table)
    assert len(set(before.values())) == len(rows) == 8
    table.update({"name": "'x'"}, predicate="id < 3")
    table.optimize.compact()
    write_deltalake(table, some_rows(31), mode="append")
    after = row_ids(table)
    assert {key: after[key] for key in before} == before
    assert len(set(after.values())) == 11
    if not properties:
        assert plain(table.to_pyarrow_table()).equals(read_by_all(tmp_path))


def test_files_that_have_ids_keep_them(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration=ENABLED)
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.enableRowTracking": "false"})
    write_deltalake(table, some_rows(11), mode="append")
    table.alter.set_table_properties(ENABLED)
    table.update({"name": "'x'"}, predicate="id = 1")
    assert row_ids(table) == {1: 0, 2: 1, 3: 2, 11: 3, 12: 4, 13: 5}


def test_concurrent_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commits of a backfill, others delete one of its files, mark a row of another, and append."""
    for first in (1, 11, 21, 31):
        write_deltalake(tmp_path, some_rows(first), mode="append", configuration=VECTORS if first == 1 else None)
    update = Snapshot.update
    others = [
        lambda: DeltaTable(tmp_path).delete("id BETWEEN 1 AND 3"),
        lambda: DeltaTable(tmp_path).delete("id = 12"),
        lambda: write_deltalake(tmp_path, some_rows(41), mode="append"),
    ]

    def other_first(snapshot: Snapshot, *arguments: Any) -> Snapshot:
        latest = update(snapshot, *arguments)
        if others:
            others.pop(0)()
        return latest

    monkeypatch.setattr(Snapshot, "update", other_first)
    snapshot = backfill_row_ids(load_snapshot(open_store(tmp_path)), batch=2)
    monkeypatch.undo()
    assert not others
    assert snapshot.files["baseRowId"].null_count == 0
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties(ENABLED)
    ids = row_ids(table)
    assert sorted(ids) == [11, 13, 21, 22, 23, 31, 32, 33, 41, 42, 43]
    assert len(set(ids.values())) == len(ids)


def test_an_interrupted_backfill_continues(tmp_path: Path) -> None:
    for first in (1, 11, 21):
        write_deltalake(tmp_path, some_rows(first), mode="append")
    snapshot = load_snapshot(open_store(tmp_path))
    calls = []

    class Stopped(Exception):
        pass

    with pytest.MonkeyPatch.context() as patch:
        update = Snapshot.update

        def stop(snapshot: Snapshot) -> Snapshot:
            calls.append(snapshot)
            if len(calls) == 2:
                raise Stopped
            return update(snapshot)

        patch.setattr(Snapshot, "update", stop)
        with pytest.raises(Stopped):
            backfill_row_ids(snapshot, batch=1)
    table = DeltaTable(tmp_path)
    assert table.files("true")
    table.alter.set_table_properties(ENABLED)
    assert sorted(row_ids(table).values()) == list(range(9))


def test_a_file_without_a_row_count(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    path = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    path.write_text("\n".join(map(json.dumps, lines)))
    table = DeltaTable(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match="1 of 1 files have no row count"):
        table.alter.set_table_properties(ENABLED)
    assert table.version() == 0
    table.optimize.statistics()
    table.alter.set_table_properties(ENABLED)
    assert row_ids(table) == {1: 0, 2: 1, 3: 2}


def test_an_empty_table_beside_an_append(tmp_path: Path) -> None:
    """The file of the append has no row ids."""
    write_deltalake(tmp_path, ROWS.slice(0, 0))
    snapshot = load_snapshot(open_store(tmp_path))
    write_deltalake(tmp_path, ROWS, mode="append")
    with pytest.raises(ConcurrentAppendError):
        set_table_properties(snapshot, ENABLED, ArrowEngine())
    DeltaTable(tmp_path).alter.set_table_properties(ENABLED)
    assert row_ids(DeltaTable(tmp_path)) == {1: 0, 2: 1, 3: 2}
