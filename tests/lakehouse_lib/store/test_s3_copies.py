"""Restore, convert, manifests and clones of tables in S3 (moto's server)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import DeltaTable, convert_to_deltalake, write_deltalake
from lakehouse_lib.store import open_store
from tests.s3_server import S3Server


def rows(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + 100), pa.int64()), "part": ["x y", "ü%"] * 50})


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


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
