"""The files of an S3 Inventory, as a bucket writes them."""

from __future__ import annotations

import gzip
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, StorageClass"

PARQUET_SCHEMA = pa.schema(
    [
        pa.field("bucket", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("version_id", pa.string()),
        pa.field("is_latest", pa.bool_()),
        pa.field("is_delete_marker", pa.bool_()),
        pa.field("size", pa.int64()),
        pa.field("last_modified_date", pa.timestamp("ms")),
    ]
)

#: key, is the latest version, is a delete marker
Row = tuple[str, bool, bool]


def csv_of(bucket: str, rows: list[Row]) -> bytes:
    """The rows as a bucket writes them: no header, all values in quotes, keys percent-encoded, missing values empty."""
    lines = []
    for key, is_latest, is_marker in rows:
        size, etag = ("", "") if is_marker else ("1", "abc")
        values = [bucket, quote(key, safe="/"), "v1", is_latest, is_marker, size, "2026-01-01T00:00:00.000Z", etag, "X"]
        lines.append(",".join(f'"{str(value).lower() if isinstance(value, bool) else value}"' for value in values))
    return gzip.compress("\n".join(lines).encode())


def parquet_of(bucket: str, rows: list[Row]) -> bytes:
    """The rows as a bucket writes them: keys are not encoded."""
    moment = datetime(2026, 1, 1)
    values = [
        {"bucket": bucket, "key": key, "version_id": "v1", "is_latest": is_latest, "is_delete_marker": is_marker,
         "size": None if is_marker else 1, "last_modified_date": moment}
        for key, is_latest, is_marker in rows
    ]  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(values, PARQUET_SCHEMA), sink)
    return bytes(sink.getvalue())


def manifest_of(bucket: str, keys: list[str], kind: str) -> dict[str, Any]:
    schema = SCHEMA if kind == "CSV" else "message inventory { required binary bucket (UTF8); }"
    return {
        "sourceBucket": bucket,
        "destinationBucket": "arn:aws:s3:::inventories",
        "version": "2016-11-30",
        "creationTimestamp": "1767225600000",
        "fileFormat": kind,
        "fileSchema": schema,
        "files": [{"key": key, "size": 1, "MD5checksum": "0" * 32} for key in keys],
    }
