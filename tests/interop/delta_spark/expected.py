"""The rows that delta-spark read from its tables, and a comparison with our readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.peers import plain

#: A variant is a struct of these; engines order them differently.
VARIANT = {"metadata", "value"}


@dataclass(frozen=True)
class Version:
    """A version as delta-spark read it. ``refused``: the reason why delta-spark could not read it, else None."""

    number: int
    rows: Path | None
    schema: tuple[tuple[str, object], ...]
    timestamp: int | None
    operation: str | None
    refused: str | None


@dataclass(frozen=True)
class Written:
    """A table that delta-spark wrote. ``changes`` are its change rows from version ``changes_from`` to the latest."""

    name: str
    path: Path
    versions: tuple[Version, ...]
    changes_from: int | None
    changes: Path | None


def written(folder: Path) -> list[Written]:
    """The tables below ``folder``, by name, in the layout of ``write.py``."""
    manifests = sorted((folder / "expected").rglob("manifest.json"))
    return [written_table(folder, str(manifest.parent.relative_to(folder / "expected"))) for manifest in manifests]


def written_table(folder: Path, name: str) -> Written:
    """The table ``folder/tables/NAME``."""
    expected = folder / "expected" / name
    manifest = json.loads((expected / "manifest.json").read_text())
    changes = manifest.get("changes")
    return Written(
        name,
        folder / "tables" / name,
        tuple(_version(entry, expected) for entry in manifest["versions"]),
        changes["from"] if changes else None,
        expected / changes["rows"] if changes else None,
    )


def _version(entry: Mapping[str, Any], expected: Path) -> Version:
    rows, schema = entry.get("rows"), entry.get("schema")
    return Version(
        entry["version"],
        expected / rows if rows is not None else None,
        names_and_types(schema) if schema is not None else (),
        entry.get("timestamp"),
        entry.get("operation"),
        entry.get("refused"),
    )


@lru_cache(maxsize=256)
def rows_of(file: Path) -> pa.Table:
    with pa.ipc.open_file(file) as reader:
        return plain(reader.read_all())


def names_and_types(kind: Any) -> Any:
    """A schema's JSON with names and types only, which are equal in Spark and in the log (Spark shows no field ids)."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return tuple((field["name"], names_and_types(field["type"])) for field in kind["fields"])
    if kind["type"] == "array":
        return ("array", names_and_types(kind["elementType"]))
    assert kind["type"] == "map", kind
    return ("map", names_and_types(kind["keyType"]), names_and_types(kind["valueType"]))


def difference(our_rows: pa.Table, their_rows: pa.Table) -> str:
    """The difference between two tables, or ""; NaN equals NaN, -0.0 differs from 0.0. ``their_rows`` are plain."""
    if our_rows.column_names != their_rows.column_names:
        return f"columns {our_rows.column_names}, not {their_rows.column_names}"
    our_rows = plain(our_rows)
    for name in their_rows.column_names:
        our_type, their_type = our_rows.schema.field(name).type, their_rows.schema.field(name).type
        if not same_type(our_type, their_type):
            return f"column {name!r} is {our_type}, not {their_type}"
    if our_rows.num_rows != their_rows.num_rows:
        return f"{our_rows.num_rows} rows, not {their_rows.num_rows}"
    for index, (our_row, their_row) in enumerate(zip(our_rows.to_pylist(), their_rows.to_pylist(), strict=True)):
        columns = [name for name in their_row if canonical(our_row[name]) != canonical(their_row[name])]
        if columns:
            return (
                f"row {index}: "
                + ", ".join(f"{name} = {our_row[name]!r}, not {their_row[name]!r}" for name in columns)[:400]
            )
    return ""


def canonical(value: Any) -> str:
    """A value as text: NaN equals NaN, and a variant's two members have one order."""
    if isinstance(value, dict):
        names = sorted(value) if value.keys() == VARIANT else value
        return "{" + ", ".join(f"{name}: {canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(canonical, value)) + "]"
    return repr(value)


def same_type(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether two types are equal, except for names and nullability of inner fields of lists and maps."""
    if first.num_fields != second.num_fields or first.id != second.id:
        return False
    if pa.types.is_struct(first):
        names = [[field.name for field in kind] for kind in (first, second)]
        if names[0] != names[1] and not set(names[0]) == set(names[1]) == VARIANT:
            return False
    if first.num_fields:
        return all(same_type(first.field(i).type, second.field(i).type) for i in range(first.num_fields))
    return bool(first.equals(second))
