"""A purge removes dropped columns from the files of the latest version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.privacy.purge import prove
from tests.peers import plain, read_by_all

STRUCT = pa.struct({"x": pa.int64(), "secret": pa.string()})
ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "part": ["a", "b", "c"] * 2,
        "email": ["ann@example.com", None] * 3,
        "s": pa.array([{"x": 1, "secret": "s"}, None] * 3, STRUCT),
        "items": pa.array([[{"x": 1, "secret": "s"}], []] * 3, pa.list_(STRUCT)),
        "by_key": pa.array([[("k", {"x": 1, "secret": "s"})], []] * 3, pa.map_(pa.string(), STRUCT)),
    }
)


def mapped(root: Path) -> DeltaTable:
    """A table of three files that hold columns under the names of the schema, because it got column mapping later."""
    write_deltalake(root, ROWS, partition_by=["part"])
    table = DeltaTable(root)
    table.alter.set_table_properties({"delta.columnMapping.mode": "name"})
    return table


def stored_columns(root: Path, table: DeltaTable) -> set[str]:
    """The Parquet columns in the files of the latest version."""
    footers = [pq.read_metadata(root / path) for path in table.files()["path"].to_pylist()]
    return {footer.schema.column(number).path for footer in footers for number in range(footer.num_columns)}


@pytest.mark.parametrize(
    ("dropped", "stored"),
    [
        ("email", "email"),
        ("s.secret", "s.secret"),
        ("items.element.secret", "items.list.element.secret"),
        ("by_key.value.secret", "by_key.key_value.value.secret"),
    ],
)
def test_a_dropped_column_leaves_the_files(tmp_path: Path, dropped: str, stored: str) -> None:
    table = mapped(tmp_path)
    before = stored_columns(tmp_path, table)
    assert table.optimize.purge()["numFilesRemoved"] == 0
    table.alter.drop_columns([dropped])
    rows = read_by_all(tmp_path)
    assert table.optimize.purge(partition_filters=[("part", "=", "a")])["numFilesRemoved"] == 1
    assert table.optimize.purge()["numFilesRemoved"] == 2
    assert stored_columns(tmp_path, table) == before - {stored}
    assert read_by_all(tmp_path) == rows
    assert table.optimize.purge()["numFilesRemoved"] == 0


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_file_without_dropped_columns_stays(tmp_path: Path, engine: Engine, mode: str) -> None:
    configuration = {
        "delta.columnMapping.mode": mode,
        "delta.enableRowTracking": "true",
        "delta.feature.materializePartitionColumns": "supported",
    }
    write_deltalake(tmp_path, ROWS.drop_columns("email"), partition_by=["part"], configuration=configuration)
    table = DeltaTable(tmp_path, engine=engine)
    table.update({"id": "10"}, predicate="id = 0")  # the new file has materialized row ids and a copy of ``part``
    table.alter.rename_column("s.x", "y")
    assert table.optimize.purge()["numFilesRemoved"] == 0
    table.alter.add_columns(Field("email", "string"))
    write_deltalake(tmp_path, pa.table({"id": [9], "part": ["a"], "email": ["a"]}), mode="append")
    table.alter.drop_columns(["email"])
    rows = plain(table.to_pyarrow_table())
    assert table.optimize.purge()["numFilesRemoved"] == 1
    assert plain(table.to_pyarrow_table()) == rows
    assert table.optimize.purge()["numFilesRemoved"] == 0


def test_a_proof_is_clean_after_a_purge_and_a_vacuum(tmp_path: Path) -> None:
    table = mapped(tmp_path)
    table.alter.drop_columns(["email"])
    table.alter.add_columns(Field("email", "string"))
    assert not prove(tmp_path, "email = 'ann@example.com'").clean
    table.optimize.purge()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert prove(tmp_path, "email = 'ann@example.com'").clean
