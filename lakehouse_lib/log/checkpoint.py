"""Classic checkpoints: the whole state of a version as one Parquet file (PROTOCOL.md, section Checkpoints)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.actions import (
    DELETION_VECTOR,
    FILE_SCHEMA,
    STRING_MAP,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import names
from lakehouse_lib.log.last_checkpoint import LastCheckpoint, write_hint
from lakehouse_lib.log.replay import TableState
from lakehouse_lib.log.segment import Checkpoint
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


def read_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> TableState:
    """The state a checkpoint holds.

    Raises:
        LogCorruptedError: a part cannot be read; the caller may fall back to an older one.
    """
    try:
        parts = [_read_part(store, path) for path in checkpoint.paths]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, OSError) as error:
        raise LogCorruptedError(
            f"the checkpoint {checkpoint.paths[0]} cannot be read ({error})",
            table=store.root,
            version=checkpoint.version,
            hint="Delete it if the commits before it are still there, or restore it from a backup",
        ) from error
    rows = pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]
    return TableState(
        files=_file_actions(rows, "add", FILE_SCHEMA),
        tombstones=_file_actions(rows, "remove", TOMBSTONE_SCHEMA),
        metadata=next((Metadata.from_json(_pairs_to_maps(m)) for m in _bodies(rows, "metaData")), None),
        protocol=next((Protocol.from_json(p) for p in _bodies(rows, "protocol")), None),
        transactions={t.app_id: t for t in map(Transaction.from_json, _bodies(rows, "txn"))},
        domains={d.domain: d for d in map(DomainMetadata.from_json, _bodies(rows, "domainMetadata")) if not d.removed},
    )


def write_checkpoint(store: ObjectStore, version: int, state: TableState, *, tombstones_since: int) -> LastCheckpoint:
    """Write the classic checkpoint of ``version`` and point ``_last_checkpoint`` to it.

    Args:
        tombstones_since: ms since the epoch; removes from before are forgotten (a remove without a time is from 1970).
    """
    assert state.metadata is not None
    assert state.protocol is not None
    deleted = pc.fill_null(state.tombstones["deletionTimestamp"], 0)
    tombstones = state.tombstones.filter(pc.greater(deleted, tombstones_since))
    rows = pa.concat_tables(
        [
            _values("protocol", [_protocol(state.protocol)]),
            _values("metaData", [_metadata(state.metadata)]),
            _values("txn", [t.to_json() for t in state.transactions.values()]),
            _values("domainMetadata", [d.to_json() for d in state.domains.values()]),
            _structs("remove", tombstones, _REMOVE),
            _structs("add", state.files, _ADD),
        ]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="snappy", row_group_size=_ROW_GROUP)
    data = sink.getvalue().to_pybytes()
    store.put(names.checkpoint(version), data)
    hint = LastCheckpoint(version, rows.num_rows, len(data), state.files.num_rows)
    write_hint(store, hint)
    return hint


def _read_part(store: ObjectStore, path: str) -> pa.Table:
    with store.open_input(path) as source:
        file = pq.ParquetFile(source)
        # Statistics as structs repeat what `stats` says; they are read only where `stats` is left out.
        leaves = [
            file.schema.column(i).path
            for i in range(len(file.schema))
            if file.schema.column(i).path.split(".", 1)[0] in _SCHEMA.names
        ]
        # Parquet's own "null if the struct is null" needs one leaf that is never left out: path, version, ...
        has_json = any(leaf == "add.stats" for leaf in leaves)
        wanted = [
            leaf
            for leaf in leaves
            if not leaf.startswith("add.partitionValues_parsed")
            and not (has_json and leaf.startswith("add.stats_parsed"))
        ]
        table = file.read(columns=wanted)
        if has_json and _json_is_left_out(table) and any(leaf.startswith("add.stats_parsed") for leaf in leaves):
            table = file.read(columns=[leaf for leaf in leaves if not leaf.startswith("add.partitionValues_parsed")])
    return table


def _json_is_left_out(rows: pa.Table) -> bool:
    adds = rows["add"].combine_chunks()
    adds = adds.filter(pc.is_valid(adds))
    return len(adds) > 0 and bool(pc.any(pc.is_null(pc.struct_field(adds, "stats"))).as_py())


def _file_actions(rows: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    if name not in rows.column_names:
        return schema.empty_table()
    actions = rows[name].combine_chunks()
    actions = actions.filter(pc.is_valid(actions))
    if not len(actions):
        return schema.empty_table()
    columns = [_field(actions, column) for column in schema]
    table = pa.Table.from_arrays(columns, schema=schema)
    if name == "add" and actions.type.get_field_index("stats_parsed") >= 0:
        table = _with_parsed_stats(table, pc.struct_field(actions, "stats_parsed"))
    return table


def _field(actions: pa.Array, column: pa.Field) -> pa.Array:
    if actions.type.get_field_index(column.name) < 0:
        return pa.nulls(len(actions), column.type)
    values = pc.struct_field(actions, column.name)
    if column.type == DELETION_VECTOR:
        nulls = pc.is_null(values)
        fields = [_field(values, child) for child in DELETION_VECTOR]
        return pa.StructArray.from_arrays(fields, fields=list(DELETION_VECTOR), mask=nulls)
    return values.cast(column.type)


def _with_parsed_stats(table: pa.Table, parsed: pa.Array) -> pa.Table:
    """Statistics that a writer kept only as structs, as the JSON that the rest of the library reads."""
    wanted = pc.and_(pc.is_null(table["stats"]), pc.is_valid(parsed)).combine_chunks()
    if not pc.any(wanted, min_count=0).as_py():
        return table
    as_json = [json.dumps(row, default=_stat_text) for row in parsed.filter(wanted).to_pylist()]
    stats = pc.replace_with_mask(table["stats"].combine_chunks(), wanted, pa.array(as_json, pa.string()))
    return table.set_column(table.column_names.index("stats"), table.schema.field("stats"), stats)


def _stat_text(value: Any) -> Any:
    from datetime import date, datetime
    from decimal import Decimal

    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if value == Decimal(repr(float(value))) else str(value)
    return None


def _bodies(rows: pa.Table, name: str) -> list[dict[str, Any]]:
    if name not in rows.column_names:
        return []
    actions = rows[name].combine_chunks()
    return list(actions.filter(pc.is_valid(actions)).to_pylist())


def _pairs_to_maps(body: Mapping[str, Any]) -> dict[str, Any]:
    form = dict(body.get("format") or {})
    form["options"] = dict(form.get("options") or [])
    return {**body, "configuration": dict(body.get("configuration") or []), "format": form}


def _values(name: str, bodies: list[dict[str, Any]]) -> pa.Table:
    return _one_column(name, pa.array(bodies, type=_SCHEMA.field(name).type))


def _structs(name: str, table: pa.Table, kind: pa.StructType) -> pa.Table:
    columns = [table[child.name].combine_chunks() for child in kind]
    return _one_column(name, pa.StructArray.from_arrays(columns, fields=list(kind)))


def _one_column(name: str, actions: pa.Array) -> pa.Table:
    columns = [actions if column.name == name else pa.nulls(len(actions), column.type) for column in _SCHEMA]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _protocol(protocol: Protocol) -> dict[str, Any]:
    return protocol.to_json()


def _metadata(metadata: Metadata) -> dict[str, Any]:
    body = metadata.to_json()
    body["configuration"] = list(metadata.configuration.items())
    body["format"] = {"provider": metadata.format_provider, "options": list(metadata.format_options.items())}
    return body
