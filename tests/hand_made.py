"""Tables made by hand from the protocol text: data files by pyarrow, one commit of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    """A field of a schema in the log; ``physical`` and ``id`` are those of column mapping."""
    noted = {
        "physical": "delta.columnMapping.physicalName",
        "id": "delta.columnMapping.id",
        "changes": "delta.typeChanges",
    }
    body = {noted.get(key, key): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": body}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def with_id(one: pa.Field, number: int) -> pa.Field:
    """The field as Parquet files have it when their writer notes field ids."""
    return one.with_metadata({b"PARQUET:field_id": str(number).encode()})


def data_file(root: Path, path: str, rows: pa.Table, log_path: str | None = None, **how: Any) -> dict[str, Any]:
    """Write a data file and return its ``add``; ``partition`` holds its partition values, the rest is of Parquet."""
    partition: Mapping[str, str | None] = how.pop("partition", {})
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file, **how)
    return {
        "path": log_path or path,
        "partitionValues": dict(partition),
        "size": file.stat().st_size,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }


def commit(
    root: Path,
    fields: Sequence[Mapping[str, Any]],
    adds: Iterable[Mapping[str, Any]],
    *,
    partition_by: Sequence[str] = (),
    features: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> Path:
    """Version 0 of a table with these fields and files; the table's folder."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        listed = sorted(features)
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": listed, "writerFeatures": listed}
    metadata = {
        "id": "00000000-0000-0000-0000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
    }
    log = root / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": dict(one)} for one in adds)]
    (log / f"{0:020}.json").write_text("".join(json.dumps(one) + "\n" for one in actions))
    return root
