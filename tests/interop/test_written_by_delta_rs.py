"""What delta-rs writes, we read and maintain, and delta-rs reads again."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from lakehouse_lib.table import DeltaTable
from tests.interop.rows import PARTITION_COLUMNS, rows
from tests.peers import files_delta_rs, parquet_files, plain, read_delta_rs, read_duckdb


@pytest.fixture(params=[None, *PARTITION_COLUMNS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Append, append, delete, optimize, checkpoint, overwrite, append."""
    root = tmp_path / "a table"
    partition_by = [request.param] if request.param else None
    deltalake.write_deltalake(root, rows(0, 40), partition_by=partition_by)
    deltalake.write_deltalake(root, rows(40, 30), mode="append")
    theirs = deltalake.DeltaTable(root)
    theirs.delete("id % 5 = 1")
    theirs.optimize.compact()
    theirs.create_checkpoint()
    deltalake.write_deltalake(root, rows(100, 25), mode="overwrite")
    deltalake.write_deltalake(root, rows(0, 40), mode="append")
    return root


def test_we_read_every_version_as_they_do_and_maintain_it(table: Path) -> None:
    for version in range(deltalake.DeltaTable(table).version() + 1):
        ours = plain(DeltaTable(table, version=version).to_pyarrow_table())
        assert ours.equals(read_delta_rs(table, version)), version
    before = read_delta_rs(table)

    ours = DeltaTable(table)
    ours.optimize.compact()
    assert read_delta_rs(table).equals(before)
    ours.delete("id = 110 OR id = 7")
    kept = [row for row in before.to_pylist() if row["id"] not in (110, 7)]
    assert read_delta_rs(table).to_pylist() == kept
    ours.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    ours.create_checkpoint()
    assert parquet_files(table) == files_delta_rs(table)
    assert read_delta_rs(table).to_pylist() == kept
    assert read_duckdb(table).equals(read_delta_rs(table))
    assert plain(DeltaTable(table).to_pyarrow_table()).equals(read_delta_rs(table))
