"""Vacuum by the inventory that a bucket publishes: ``manifest.json``, and CSV without a header or Parquet."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.lakehouse_lib.operations.upkeep.inventory_files import Row, csv_of, manifest_of, parquet_of
from tests.peers import files_delta_rs, parquet_files

LATER = datetime.now(UTC) + timedelta(days=8)


def published(folder: Path, rows: list[Row], kind: str, *, beside: bool = False) -> Path:
    """The folder of an inventory with two files; returns the path of its manifest."""
    dated = folder / "lake/daily/2026-11-24T01-00Z"
    data = dated if beside else folder / "lake/daily/data"
    dated.mkdir(parents=True)
    data.mkdir(exist_ok=True)
    keys = []
    for number, part in enumerate((rows[::2], rows[1::2])):
        name = f"{number}.csv.gz" if kind == "CSV" else f"{number}.parquet"
        (data / name).write_bytes(csv_of("lake", part) if kind == "CSV" else parquet_of("lake", part))
        keys.append(f"inventories/lake/daily/data/{name}")
    path = dated / "manifest.json"
    path.write_text(json.dumps(manifest_of("lake", keys, kind)))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with odd names of partitions, removed files, and old and young files without a log entry."""
    root = tmp_path / "t"
    for number in range(2):
        rows = pa.table({"p": ["a b", "ü%+", "c"], "id": [number, 1, 2]})
        write_deltalake(root, rows, partition_by=["p"], mode="overwrite")
    for name in ("p=c/old+1 %.parquet", "p=c/young.parquet", "p=c/hidden.parquet", "p=c/marked.parquet"):
        (root / name).write_bytes(b"xyz")
        if "young" not in name:
            os.utime(root / name, (0, 0))
    return root


@pytest.mark.parametrize("beside", [False, True], ids=["published", "beside the manifest"])
@pytest.mark.parametrize("kind", ["CSV", "Parquet"])
def test_a_manifest_names_the_objects(table: Path, tmp_path: Path, kind: str, beside: bool) -> None:
    names = [str(path.relative_to(table)) for path in table.rglob("*.parquet")]
    shown = {"p=c/hidden.parquet": (False, False), "p=c/marked.parquet": (True, True)}
    rows = [(name, *shown.get(name, (True, False))) for name in [*names, "p=c/gone.parquet"]]
    rows += [("p=c/old+1 %.parquet", False, False), ("p=c/old+1 %.parquet", False, True)]  # earlier versions of its key
    manifest = published(tmp_path / "copy", rows, kind, beside=beside)
    snapshot = load_snapshot(LocalStore(str(table)))
    old = vacuum(snapshot, inventory=manifest)
    assert old.files == ("p=c/old+1 %.parquet",)  # the removed files and the young one are within the retention
    result = vacuum(snapshot, inventory=[manifest], now=LATER, dry_run=False)
    assert parquet_files(table) == files_delta_rs(table) | {table / name for name in shown}
    assert (len(result.files), result.metrics["numDeletedFiles"]) == (5, 5)
    assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == [1, 1, 2]


def test_a_file_that_is_younger_than_in_the_inventory_is_kept(table: Path, tmp_path: Path) -> None:
    """An inventory is of a day ago or of a week ago. A file of the same name may have been written since."""
    manifest = published(
        tmp_path / "copy", [("p=c/old+1 %.parquet", True, False), ("p=c/young.parquet", True, False)], "CSV"
    )
    snapshot = load_snapshot(LocalStore(str(table)))
    os.utime(table / "p=c/old+1 %.parquet")
    assert vacuum(snapshot, inventory=manifest, dry_run=False).files == ()
    assert {"old+1 %.parquet", "young.parquet"} < {path.name for path in (table / "p=c").iterdir()}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"fileFormat": "ORC"}, "fileFormat is 'ORC'; expected CSV or Parquet"),
        ({"fileSchema": "Bucket, Key"}, "columns of the inventory are|cannot be read"),
        ({"files": [{"key": "inventories/data/none.csv.gz"}]}, "cannot be read"),
        ({"files": [{"size": 3}]}, "expected sourceBucket, fileFormat, fileSchema, and files with keys"),
        ({"files": None}, "is not valid"),
        ({"sourceBucket": None}, "is not valid"),
    ],
)
def test_a_manifest_that_is_refused(table: Path, tmp_path: Path, change: dict[str, Any], text: str) -> None:
    manifest = published(tmp_path / "copy", [("p=c/old+1 %.parquet", True, False)], "CSV")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    before = parquet_files(table)
    with pytest.raises(InvalidArgumentError, match=text) as refused:
        vacuum(load_snapshot(LocalStore(str(table))), inventory=manifest, now=LATER, dry_run=False)
    assert refused.value.code == "DELTA_INVALID_INVENTORY"
    assert parquet_files(table) == before


@pytest.mark.parametrize("inventory", ["none/manifest.json", "gs://bucket/manifest.json", "s3://bucket/list.csv"])
def test_a_location_that_is_refused(table: Path, inventory: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        vacuum(load_snapshot(LocalStore(str(table))), inventory=inventory)
    assert refused.value.code == "DELTA_INVALID_INVENTORY"
