"""Removing column mapping: peers read the rewritten files by name, and nothing changes if the removal fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import (
    CommitFailedError,
    DataFileMissingError,
    InvalidArgumentError,
    InvalidSchemaError,
    SchemaMismatchError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.features import writer_features
from lakehouse_lib.operations.alter.features import mapping_removal
from lakehouse_lib.operations.alter.features.mapping_removal import remove_mapping
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "part": ["a", "b", None] * 2,
        "s": [{"x": 1, "y": "one"}, None, {"x": 2, "y": None}] * 2,
        "note": [None, "n"] * 3,
    }
)
NONE = {"delta.columnMapping.mode": "none"}


def mapped(root: Path, mode: str = "name", **configuration: str) -> DeltaTable:
    """A table with renamed, dropped and swapped columns, and with deleted rows."""
    enabled = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": "true"}
    write_deltalake(root, ROWS, partition_by=["part"], configuration=enabled | configuration)
    table = DeltaTable(root)
    table.alter.rename_column("s.x", "z")
    table.alter.rename_column("s.y", "x")
    table.alter.drop_columns(["note"])
    table.alter.add_columns(Field("note", "long"))
    table.delete("id = 2")
    return table


def row_ids(table: DeltaTable) -> dict[int, tuple[int, int]]:
    """The row id and the row commit version of each row, by its column id."""
    snapshot = table.snapshot
    layout = snapshot.layout_with_row_ids()
    reader = TableReader(snapshot.store, layout, layout.data_columns)
    rows = [
        reader.row_group(file, group, {})
        for file, _ in reader.files(snapshot.files)
        for group in range(file.num_row_groups)
    ]
    columns = pa.concat_tables(rows).select(["id", *(field.name for field in layout.row_ids.fields)])
    return {number: (row, version) for number, row, version in zip(*columns.to_pydict().values(), strict=True)}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_the_files_get_the_names_of_the_columns(tmp_path: Path, engine: Engine, mode: str) -> None:
    table = mapped(tmp_path, mode, **{"delta.enableRowTracking": "true"})
    rows = plain(table.to_pyarrow_table())
    ids = row_ids(table)
    DeltaTable(tmp_path, engine=engine).alter.set_table_properties(NONE)
    after = DeltaTable(tmp_path)
    assert after.snapshot.layout.mapping == "none"
    assert "columnMapping" not in after.snapshot.metadata.schema_string
    assert read_by_all(tmp_path).equals(rows)
    for path in parquet_files(tmp_path):
        if path.as_posix() in {uri.removeprefix("file://") for uri in after.file_uris()}:
            names = pq.read_schema(path).names
            assert {"id", "s", "note"} <= set(names)
            assert {field.name for field in pq.read_schema(path).field("s").type} == {"x", "z"}
    assert {key for values in after.snapshot.files["partitionValues"].to_pylist() for key, _ in values} == {"part"}
    assert row_ids(after) == ids
    assert plain(DeltaTable(tmp_path, after.version() - 1).to_pyarrow_table()).equals(rows)
    assert after.history(1)[0]["operation"] == "REMOVE COLUMN MAPPING"
    assert after.snapshot.prune(parse("id = 0", after.snapshot.schema)).num_rows == 1
    write_deltalake(tmp_path, after.to_pyarrow_table(), mode="append")
    assert len(read_by_all(tmp_path)) == 10


def test_the_feature_is_dropped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.columnMapping.mode": "name"})
    DeltaTable(tmp_path).alter.rename_column("note", "remark")
    rows = plain(DeltaTable(tmp_path).to_pyarrow_table())
    DeltaTable(tmp_path).alter.drop_feature("columnMapping")
    protocol = DeltaTable(tmp_path).snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert "columnMapping" not in writer_features(protocol)
    assert read_delta_rs(tmp_path).equals(rows)
    assert read_by_all(tmp_path).equals(rows)


def test_mapping_is_removed_by_unset_and_enabled_again(tmp_path: Path) -> None:
    table = mapped(tmp_path)
    rows = plain(table.to_pyarrow_table())
    table.alter.unset_table_properties(["delta.columnMapping.mode"])
    table.alter.set_table_properties({"delta.columnMapping.mode": "name"})
    table.alter.rename_column("note", "remark (internal)")
    assert plain(table.to_pyarrow_table().rename_columns(rows.column_names)).equals(rows)
    first = mapped(tmp_path / "again").version()
    again = DeltaTable(tmp_path / "again")
    again.alter.set_table_properties(NONE)
    again.restore(first)
    assert plain(DeltaTable(tmp_path / "again").to_pyarrow_table()).equals(rows)


def test_names_of_mapped_tables_are_refused(tmp_path: Path) -> None:
    table = mapped(tmp_path)
    table.alter.rename_column("note", "price (EUR)")
    files, version = parquet_files(tmp_path), table.version()
    with pytest.raises(InvalidSchemaError, match=r"columns are named 'price \(EUR\)'"):
        table.alter.set_table_properties(NONE)
    with pytest.raises(InvalidSchemaError, match=r"columns are named 'price \(EUR\)'"):
        table.alter.drop_feature("columnMapping")
    with pytest.raises(InvalidArgumentError, match=r"expected only delta.columnMapping.mode"):
        table.alter.set_table_properties(NONE | {"delta.appendOnly": "true"})
    assert (parquet_files(tmp_path), DeltaTable(tmp_path).version()) == (files, version)


def test_a_concurrent_commit_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = mapped(tmp_path)
    old = table.snapshot
    rows = table.to_pyarrow_table()
    commit_change = mapping_removal.commit_change

    def after_an_append(*arguments: Any) -> Any:
        write_deltalake(tmp_path, rows.slice(0, 1), mode="append")
        return commit_change(*arguments)

    monkeypatch.setattr(mapping_removal, "commit_change", after_an_append)
    with pytest.raises(CommitFailedError):
        remove_mapping(old, table.engine)
    monkeypatch.undo()
    latest = DeltaTable(tmp_path)
    assert latest.snapshot.layout.mapping == "name"
    assert len(parquet_files(tmp_path)) == len(DeltaTable(tmp_path, 0).file_uris()) + 1
    write_deltalake(table, rows, mode="append")
    with pytest.raises(CommitFailedError):
        remove_mapping(old, table.engine)


def test_the_new_files_are_deleted_if_a_file_is_missing(tmp_path: Path) -> None:
    table = mapped(tmp_path)
    files = sorted(uri.removeprefix("file://") for uri in table.file_uris())
    Path(files[-1]).unlink()
    before = parquet_files(tmp_path)
    with pytest.raises(DataFileMissingError):
        table.alter.set_table_properties(NONE)
    assert (len(files), parquet_files(tmp_path)) == (3, before)


def test_change_data_under_other_names_is_refused(tmp_path: Path) -> None:
    table = mapped(tmp_path, **{"delta.enableChangeDataFeed": "true"})
    version = table.version()
    table.alter.set_table_properties(NONE)
    table.delete("id = 3")
    with pytest.raises(SchemaMismatchError, match="the table had column mapping"):
        table.load_cdf(starting_version=version).read_all()
    later = pa.table(table.load_cdf(starting_version=version + 1).read_all())
    assert (later["id"].to_pylist(), later["_change_type"].to_pylist()) == ([3], ["delete"])
