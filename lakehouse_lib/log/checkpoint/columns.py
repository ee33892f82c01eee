"""The columns of a checkpoint's Parquet objects, one struct for each action, and the writer of these objects
(PROTOCOL.md, appendix Checkpoint Schema).

A row holds one action, so every struct and every field of a struct is nullable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.protocol.actions import DELETION_VECTOR, FILE_SCHEMA, STRING_MAP, TOMBSTONE_SCHEMA

ADD = pa.struct([field.with_nullable(True) for field in FILE_SCHEMA])
# A checkpoint omits the statistics and tags of removed files. Only the change data feed needs them, and it reads
# commits.
REMOVE = pa.struct([field.with_nullable(True) for field in TOMBSTONE_SCHEMA if field.name not in ("stats", "tags")])
METADATA = pa.struct(
    [
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("description", pa.string()),
        pa.field("format", pa.struct([pa.field("provider", pa.string()), pa.field("options", STRING_MAP)])),
        pa.field("schemaString", pa.string()),
        pa.field("partitionColumns", pa.list_(pa.string())),
        pa.field("configuration", STRING_MAP),
        pa.field("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        pa.field("minReaderVersion", pa.int32()),
        pa.field("minWriterVersion", pa.int32()),
        pa.field("readerFeatures", pa.list_(pa.string())),
        pa.field("writerFeatures", pa.list_(pa.string())),
    ]
)
TXN = pa.struct([pa.field("appId", pa.string()), pa.field("version", pa.int64()), pa.field("lastUpdated", pa.int64())])
DOMAIN = pa.struct(
    [pa.field("domain", pa.string()), pa.field("configuration", pa.string()), pa.field("removed", pa.bool_())]
)
CHECKPOINT_METADATA = pa.struct([pa.field("version", pa.int64()), pa.field("tags", STRING_MAP)])
SIDECAR = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("sizeInBytes", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("tags", STRING_MAP),
    ]
)

#: A classic checkpoint by the V1 spec: all actions in one object.
CLASSIC = pa.schema(
    [
        pa.field("txn", TXN),
        pa.field("add", ADD),
        pa.field("remove", REMOVE),
        pa.field("metaData", METADATA),
        pa.field("protocol", PROTOCOL),
        pa.field("domainMetadata", DOMAIN),
    ]
)
#: The top object of a checkpoint by the V2 spec, whose file actions are in sidecars.
TOP = pa.schema([*CLASSIC, pa.field("checkpointMetadata", CHECKPOINT_METADATA), pa.field("sidecar", SIDECAR)])
#: A sidecar: file actions only.
FILES = pa.schema([pa.field("add", ADD), pa.field("remove", REMOVE)])

#: A note in the metadata of a Parquet object: all paths in the object are in canonical form. So a lookup of a path does
#: not try other spellings.
PLAIN_PATHS = {b"lakehouse_lib.plain_paths": b"true"}

#: A note in the metadata of a checkpoint's first object: the writer has compared all paths, and none occurs twice. So a
#: reader does not compare them again.
DISTINCT_PATHS = {b"lakehouse_lib.distinct_paths": b"true"}

#: Columns with repeated values. For other columns (paths, statistics, sizes) a dictionary costs more than it saves.
_REPEATED = frozenset(("partitionValues", "tags", "clusteringProvider", "storageType"))
#: Columns written without bounds: the least and the greatest JSON text are of no use.
_UNORDERED = ("add.stats",)
#: The size of the Bloom filters is computed for this false positive rate: five bytes per value. The real rate is about
#: ten times as high, because the blocks of a filter fill unevenly.
_FALSE_POSITIVE_RATE = 1e-6
#: A files table of more chunks is copied into one chunk before it becomes structs.
_MOST_CHUNKS = 64


def write_parquet(
    sink: Any,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    *,
    row_group: int,
    looked_up: Mapping[str, int] | None = None,
    notes: Mapping[bytes, bytes] | None = None,
) -> None:
    """Write tables of ``schema`` one after the other, with at most one of them in memory.

    Args:
        row_group: rows of a row group.
        looked_up: the leaf columns that get a Bloom filter: name -> number of values in a row group.
        notes: key-value metadata of the object.
    """
    leaves = _leaves(schema)
    with pq.ParquetWriter(
        sink,
        schema,
        compression="snappy",
        use_dictionary=[leaf for leaf in leaves if not _REPEATED.isdisjoint(leaf.split("."))],
        write_statistics=[leaf for leaf in leaves if leaf not in _UNORDERED],
        store_schema=False,
        bloom_filter_options={
            leaf: {"ndv": count, "fpp": _FALSE_POSITIVE_RATE} for leaf, count in (looked_up or {}).items()
        },
    ) as writer:
        if notes:
            writer.add_key_value_metadata(notes)
        for table in tables:
            writer.write_table(table, row_group_size=row_group)


def actions_table(schema: pa.Schema, name: str, actions: pa.Array | pa.ChunkedArray) -> pa.Table:
    """A table of ``schema`` with these actions in the column ``name`` and null in the others."""
    columns = [actions if field.name == name else pa.nulls(len(actions), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def file_actions(files: pa.Table, kind: pa.StructType) -> pa.ChunkedArray:
    """A files table as structs of ``kind``; only a table of many chunks is copied."""
    # There is a batch for each chunk of any column. Dropped rows leave many small chunks, and so many small batches.
    rows = files.select([field.name for field in kind])
    if len(rows) and rows.column(0).num_chunks > _MOST_CHUNKS:
        rows = rows.combine_chunks()
    structs = [pa.StructArray.from_arrays(batch.columns, fields=list(kind)) for batch in rows.to_batches()]
    return pa.chunked_array(structs, kind)


def cast_stored(stored: pa.ChunkedArray | None, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Cast a stored column to the schema's type.

    Strings may be stored as a wider type, and struct members may be in another order or missing.

    Raises:
        pa.ArrowException: a value is not valid for ``kind``.
    """
    if stored is None:
        return pa.chunked_array([pa.nulls(rows, kind)])
    if kind != DELETION_VECTOR or not pa.types.is_struct(stored.type):
        return stored if stored.type == kind else stored.cast(kind)
    chunks = []
    for chunk in stored.chunks:
        fields = [
            pc.struct_field(chunk, field.name).cast(field.type)
            if chunk.type.get_field_index(field.name) >= 0
            else pa.nulls(len(chunk), field.type)
            for field in kind
        ]
        chunks.append(pa.StructArray.from_arrays(fields, fields=list(kind), mask=chunk.is_null()))
    return pa.chunked_array(chunks, kind)


@cache
def _leaves(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(leaf for field in schema for leaf in _leaves_below(field))


def _leaves_below(field: pa.Field, prefix: str = "") -> Iterator[str]:
    """The names of a field's leaf columns, as Parquet spells them."""
    name, kind = f"{prefix}{field.name}", field.type
    if pa.types.is_map(kind):
        yield from _leaves_below(kind.key_field, f"{name}.key_value.")
        yield from _leaves_below(kind.item_field, f"{name}.key_value.")
    elif pa.types.is_list(kind):
        yield f"{name}.list.element"
    elif pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves_below(child, f"{name}.")
    else:
        yield name
