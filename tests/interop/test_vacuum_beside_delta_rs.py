"""A dry run of delta-rs' full vacuum lists the same files as ours."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.interop.rows import rows


@pytest.mark.parametrize("partition", [None, "text", "moment"])
def test_both_vacuums_delete_the_same_files(tmp_path: Path, partition: str | None) -> None:
    root = tmp_path / "t"
    for start in (0, 20, 40, 60):
        mode = "overwrite" if start == 40 else "append"
        deltalake.write_deltalake(root, rows(start, 20), mode=mode, partition_by=[partition] if partition else None)
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.delete("id % 3 = 0")
    delta_rs_table.optimize.compact()
    delta_rs_table.create_checkpoint()
    (root / "leftover.parquet").write_bytes(b"x")
    (root / "_hidden").mkdir()
    (root / "_hidden" / "a.parquet").write_bytes(b"x")
    expected = delta_rs_table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
    result = vacuum(load_snapshot(open_store(root)), retention_hours=0, enforce_retention_duration=False)
    assert len(expected) >= 4
    assert set(result.files) == set(expected)
