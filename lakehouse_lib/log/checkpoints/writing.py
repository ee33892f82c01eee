"""Write a classic checkpoint: one Parquet object, readable by every reader of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.actions import FILE_SCHEMA, STRING_MAP, TOMBSTONE_SCHEMA, Metadata
from lakehouse_lib.log import names
from lakehouse_lib.log.last_checkpoint import LastCheckpoint, write_hint
from lakehouse_lib.log.replay import TableState
from lakehouse_lib.store.base import ObjectStore

# Nullable throughout: a row holds one action, and the fields of the others are null with them.
_ADD = pa.struct([column.with_nullable(True) for column in FILE_SCHEMA])
# Statistics and tags of a removed file are for change readers of the commit; a checkpoint leaves them out.
_REMOVE = pa.struct([c.with_nullable(True) for c in TOMBSTONE_SCHEMA if c.name not in ("stats", "tags")])
_METADATA = pa.struct(
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
_PROTOCOL = pa.struct(
    [
        pa.field("minReaderVersion", pa.int32()),
        pa.field("minWriterVersion", pa.int32()),
        pa.field("readerFeatures", pa.list_(pa.string())),
        pa.field("writerFeatures", pa.list_(pa.string())),
    ]
)
_TXN = pa.struct([pa.field("appId", pa.string()), pa.field("version", pa.int64()), pa.field("lastUpdated", pa.int64())])
_DOMAIN = pa.struct(
    [pa.field("domain", pa.string()), pa.field("configuration", pa.string()), pa.field("removed", pa.bool_())]
)
_SCHEMA = pa.schema(
    [
        pa.field("txn", _TXN),
        pa.field("add", _ADD),
        pa.field("remove", _REMOVE),
        pa.field("metaData", _METADATA),
        pa.field("protocol", _PROTOCOL),
        pa.field("domainMetadata", _DOMAIN),
    ]
)
_ROW_GROUP = 100_000


def write_checkpoint(store: ObjectStore, version: int, state: TableState, *, tombstones_since: int) -> LastCheckpoint:
    """Write the classic checkpoint of ``version`` and point ``_last_checkpoint`` to it.

    Args:
        tombstones_since: ms since the epoch; removes from before are forgotten (a remove without a time is from 1970).
    """
    assert state.metadata is not None
    assert state.protocol is not None
    removes = state.tombstones.columns([column.name for column in _REMOVE])
    removes = removes.filter(pc.greater(pc.fill_null(removes["deletionTimestamp"], 0), tombstones_since))
    few = [
        ("protocol", pa.array([state.protocol.to_json()], _PROTOCOL)),
        ("metaData", pa.array([_metadata(state.metadata)], _METADATA)),
        ("txn", pa.array([t.to_json() for t in state.transactions.values()], _TXN)),
        ("domainMetadata", pa.array([d.to_json() for d in state.domains.values()], _DOMAIN)),
    ]
    sink = pa.BufferOutputStream()
    # Slices go to the writer one by one, so that the rows are not in memory a second time.
    with pq.ParquetWriter(sink, _SCHEMA, compression="snappy") as writer:
        writer.write_table(pa.concat_tables([_one_column(name, actions) for name, actions in few]))
        for name, files, kind in (("remove", removes, _REMOVE), ("add", state.files.table, _ADD)):
            for actions in _structs(files, kind):
                writer.write_table(_one_column(name, actions))
    data = sink.getvalue().to_pybytes()
    store.put(names.checkpoint(version), data)
    rows = sum(len(actions) for _, actions in few) + len(removes) + len(state.files)
    hint = LastCheckpoint(version, rows, len(data), len(state.files))
    write_hint(store, hint)
    return hint


def _structs(table: pa.Table, kind: pa.StructType) -> Iterator[pa.StructArray]:
    for start in range(0, len(table), _ROW_GROUP):
        rows = table.slice(start, _ROW_GROUP)
        columns = [rows[child.name].combine_chunks() for child in kind]
        yield pa.StructArray.from_arrays(columns, fields=list(kind))


def _one_column(name: str, actions: pa.Array) -> pa.Table:
    columns = [actions if column.name == name else pa.nulls(len(actions), column.type) for column in _SCHEMA]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _metadata(metadata: Metadata) -> dict[str, Any]:
    body = metadata.to_json()
    body["configuration"] = list(metadata.configuration.items())
    body["format"] = {"provider": metadata.format_provider, "options": list(metadata.format_options.items())}
    return body
