"""Restore, convert, manifests and clones of tables in S3 (moto's server)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, convert_to_deltalake, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.upkeep.unneeded_files import scan
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.store import open_store
from tests.lakehouse_lib.operations.upkeep.inventory_files import csv_of, manifest_of, parquet_of
from tests.s3_server import S3Server


def rows(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + 100), pa.int64()), "part": ["x y", "ü%"] * 50})


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


@pytest.mark.slow
def test_restore_and_manifests(s3_server: S3Server, location: str) -> None:
    options = s3_server.options
    fresh = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    write_deltalake(location, rows(0), partition_by="part", configuration=fresh, storage_options=options)
    write_deltalake(location, rows(100), mode="append", storage_options=options)
    table = DeltaTable(location, storage_options=options)
    table.restore(0)
    assert ids(table) == list(range(100))
    manifests = [meta.path for meta in table.store.walk("_symlink_format_manifest")]
    lines = [line for path in manifests for line in table.store.read(path).decode().splitlines()]
    assert sorted(lines) == sorted(table.file_uris())


@pytest.mark.slow
def test_convert_and_clones(s3_server: S3Server, location: str) -> None:
    options = s3_server.options
    store = open_store(location, options)
    for number in range(2):
        sink = pa.BufferOutputStream()
        pq.write_table(rows(100 * number).select(["id"]), sink)
        store.put(f"part=a b/{number} %.parquet", sink.getvalue().to_pybytes())
    partitions = pa.schema([("part", pa.string())])
    convert_to_deltalake(location, partition_by=partitions, partition_strategy="hive", storage_options=options)
    source = DeltaTable(location, storage_options=options)
    assert ids(source) == list(range(200))
    shallow = source.clone(f"{location}-shallow", is_shallow=True, storage_options=options)
    deep = source.clone(f"{location}-deep", storage_options=options)
    assert ids(shallow) == ids(deep) == list(range(200))
    assert all(uri.startswith(f"{location}/part=") for uri in shallow.file_uris())
    source.delete()
    assert source.vacuum(0, dry_run=False, enforce_retention_duration=False) == []
    assert ids(shallow) == ids(deep) == list(range(200))


@pytest.mark.slow
def test_vacuum_by_folder_and_by_inventory(s3_server: S3Server, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = s3_server.options
    for start in (0, 100):
        write_deltalake(location, rows(start), partition_by="part", mode="overwrite", storage_options=options)
    source = DeltaTable(location, storage_options=options)
    source.clone(f"{location}-clone", is_shallow=True, storage_options=options)
    source.store.put("part=old/leftover.parquet", b"x")
    live = set(file_paths.canonical(source.snapshot.files["path"], source.store).to_pylist())
    metas = list(source.store.walk())
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    later = datetime.now(UTC) + timedelta(days=8)
    expected = {meta.path for meta in metas if meta.path.endswith(".parquet") and meta.path not in live}
    expected = {path for path in expected if not path.startswith("_delta_log/")}
    assert len(expected) == 3
    monkeypatch.setattr(scan, "_FILES_A_FOLDER", 0)
    listed = vacuum(source.snapshot, now=later)
    assert set(listed.files) == expected
    assert listed.metrics["numListCalls"] == 5  # of the folders, the root and three folders
    keys = [f"{prefix}/{meta.path}" for meta in metas] + [
        f"{prefix}/x",
        f"{prefix}2/x",
        f"{prefix}/part=old/leftover.parquet",
    ]
    inventory = pa.table(
        {
            "Bucket": [bucket] * (len(keys) - 1) + ["other"],
            "Key": keys,
            "Size": [1] * len(keys),
            "LastModifiedDate": ["2026-01-01T00:00:00.000Z"] * len(keys),
        }
    ).to_reader()
    assert set(vacuum(source.snapshot, inventory=inventory, now=later, dry_run=False).files) == expected
    assert {meta.path for meta in source.store.walk() if meta.path.endswith(".parquet")} == live
    assert ids(source) == list(range(100, 200))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["CSV", "Parquet"])
def test_the_published_inventory_of_a_bucket(s3_server: S3Server, location: str, kind: str, tmp_path: Path) -> None:
    options = s3_server.options
    for start in (0, 100):
        write_deltalake(location, rows(start), partition_by="part", mode="overwrite", storage_options=options)
    table = DeltaTable(location, storage_options=options)
    live = set(file_paths.canonical(table.snapshot.files["path"], table.store).to_pylist())
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    listed = [(f"{prefix}/{meta.path}", True, False) for meta in table.store.walk()]
    inventories = open_store(f"s3://{bucket}", options)
    name = "0.csv.gz" if kind == "CSV" else "0.parquet"
    key = f"{prefix}-inventory/{bucket}/daily/data/{name}"
    inventories.put(key, (csv_of if kind == "CSV" else parquet_of)(bucket, listed))
    path = f"{prefix}-inventory/{bucket}/daily/2026-11-24T01-00Z/manifest.json"
    inventories.put(path, json.dumps(manifest_of(bucket, [key], kind)).encode())
    later = datetime.now(UTC) + timedelta(days=8)
    result = vacuum(table.snapshot, inventory=f"s3a://{bucket}/{path}", now=later, dry_run=False)
    assert len(result.files) == 2
    assert {meta.path for meta in table.store.walk() if meta.path.endswith(".parquet")} == live
    other = tmp_path / "manifest.json"
    other.write_text(json.dumps(manifest_of("elsewhere", [key], kind)))
    with pytest.raises(InvalidArgumentError, match="is of the bucket 'elsewhere'"):
        vacuum(table.snapshot, inventory=other)
    missing = f"s3://{bucket}/{prefix}-inventory/none.csv.gz"
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        vacuum(table.snapshot, inventory=missing)
