"""What a table is, from its log alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features, file_paths
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.partition_values import partition_column
from lakehouse_lib.schema import column_mapping
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import bounds_of, indexed_columns, leaves, num_records


def detail(snapshot: Snapshot) -> dict[str, Any]:
    """The fields of delta-spark's DESCRIBE DETAIL; sizes in bytes, times as datetimes in UTC."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": snapshot.store.root,
        "createdAt": _time(metadata.created_time),
        "lastModified": _time(snapshot.timestamp),
        "partitionColumns": list(metadata.partition_columns),
        "numFiles": len(snapshot.files),
        "sizeInBytes": total_size(snapshot.files),
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(features.writer_features(protocol) | (protocol.reader_features or frozenset())),
    }


def add_actions(snapshot: Snapshot, *, flatten: bool = False) -> pa.Table:
    """One row a live file: path, size_bytes, modification_time (ms), num_records, null_count, min, max, partition.

    Values have the columns' types; a bound the log does not have is null.

    Args:
        flatten: a column ``min.x`` (``min.a.b`` for a nested one) instead of a member of the struct ``min``.
    """
    files, schema, mode = snapshot.files, snapshot.schema, snapshot.column_mapping
    indexed = indexed_columns(schema, snapshot.configuration, snapshot.partition_columns)
    stored = {
        column_mapping.physical_path(schema, path, mode): (path, kind)
        for path, kind in leaves(schema)
        if path in indexed
    }
    found = bounds_of(files, {physical: kind for physical, (_, kind) in stored.items()})
    bounds = {path: found[physical] for physical, (path, _) in stored.items()}
    columns = {
        "path": file_paths.decode_all(files["path"], snapshot.store),
        "size_bytes": files["size"],
        "modification_time": files["modificationTime"],
        "num_records": num_records(files),
    }
    groups = {
        "null_count": {".".join(path): one.null_count for path, one in bounds.items()},
        "min": {".".join(path): one.min for path, one in bounds.items() if not pa.types.is_null(one.min.type)},
        "max": {".".join(path): one.max for path, one in bounds.items() if not pa.types.is_null(one.max.type)},
        "partition": {
            name: partition_column(files, column_mapping.partition_key(schema, name, mode), schema.field(name).type)
            for name in snapshot.partition_columns
        },
    }
    for group, members in groups.items():
        if flatten:
            columns.update({f"{group}.{name}": values for name, values in members.items()})
        elif members:
            columns[group] = pa.StructArray.from_arrays(list(members.values()), list(members))
    return pa.table(columns)


def partitions(snapshot: Snapshot, files: pa.Table) -> list[dict[str, str | None]]:
    """The distinct partitions of these files: column -> value as the log spells it, null and "" as None.

    A table without partition columns has none.
    """
    names = snapshot.partition_columns
    if not names:
        return []
    keys = [column_mapping.partition_key(snapshot.schema, name, snapshot.column_mapping) for name in names]
    maps = files["partitionValues"].combine_chunks()
    columns = [pc.map_lookup(maps, pa.scalar(key), "first") for key in keys]
    columns = [pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column) for column in columns]
    found = pa.table(columns, names=list(names)).group_by(list(names), use_threads=False).aggregate([])
    rows: list[dict[str, str | None]] = found.to_pylist()
    return rows


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
