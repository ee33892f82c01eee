"""DESCRIBE DETAIL, and the partitions of files, from the log alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.arrow.values import literal, null_scalar
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.snapshot import Snapshot


def detail(snapshot: Snapshot) -> dict[str, Any]:
    """The fields of delta-spark's DESCRIBE DETAIL. Sizes are in bytes, and times are datetimes in UTC."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    sizes = snapshot.file_columns(["size"])
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": snapshot.store.root,
        "createdAt": _time(metadata.created_time),
        "lastModified": _time(snapshot.timestamp),
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": [".".join(path) for path in snapshot.clustering_columns],
        "numFiles": len(sizes),
        "sizeInBytes": total_size(sizes),
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(features.writer_features(protocol) | (protocol.reader_features or frozenset())),
    }


def partitions(snapshot: Snapshot, files: pa.Table) -> list[dict[str, str | None]]:
    """The distinct partitions of these files: column -> value as in the log; None for null and for "".

    The list is empty for a table without partition columns.
    """
    return distinct_rows(partition_values(snapshot, files)).to_pylist() if snapshot.partition_columns else []


def partition_values(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    """The partition values of each file as in the log, a column for each partition column; null for null and for ""."""
    return pa.table(_partition_columns(snapshot, files), names=list(snapshot.partition_columns))


def distinct_rows(rows: pa.Table) -> pa.Table:
    """The different rows of a table, in the order in which they appear first. The table has columns."""
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def partition_texts(snapshot: Snapshot, files: pa.Table) -> list[tuple[str | None, ...]]:
    """The partition values of each file as in the log, in the order of the columns; None for null and for "".

    The values become Python objects, so ``files`` has few rows. The table has partition columns.
    """
    return list(zip(*(column.to_pylist() for column in _partition_columns(snapshot, files)), strict=True))


def _partition_columns(snapshot: Snapshot, files: pa.Table) -> list[pa.Array]:
    keys = snapshot.layout.partition_keys.values()
    maps, empty = files["partitionValues"].combine_chunks(), literal("", pa.string())
    columns = [pc.map_lookup(maps, literal(key, pa.string()), "first") for key in keys]
    return [pc.if_else(pc.equal(column, empty), null_scalar(pa.string()), column) for column in columns]


def _time(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999; nothing else depends on this time
        return None
