"""The changes of a schema, by the version that has made them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, Schema, write_deltalake
from lakehouse_lib.operations.inspect import schema_changes as module
from lakehouse_lib.operations.inspect.schema_changes import SchemaChange, changes_between, schema_changes
from lakehouse_lib.schema import StructType

ROWS = pa.table({"id": pa.array([1], pa.int32()), "note": ["a"], "price": [1.0]})
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A table whose schema has changed in the versions 2 to 6, with two appends between."""
    write_deltalake(tmp_path, ROWS, configuration=PROPERTIES)
    table = DeltaTable(tmp_path)
    write_deltalake(table, ROWS, mode="append")
    table.alter.rename_column("note", "remark")
    table.alter.drop_columns(["price"])
    table.alter.add_columns([Field("price", StructType([Field("net", "long")]))])
    table.alter.change_column_type("id", "long")
    table.alter.set_column_not_null("id")
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    return table


CHANGES = [
    SchemaChange("id", "not null", version=6),
    SchemaChange("id", "widened", "integer", "long", 5),
    SchemaChange("price", "added", None, "struct<net: long>", 4),
    SchemaChange("price", "dropped", "double", None, 3),
    SchemaChange("remark", "renamed", "note", "remark", 2),
]


def test_each_change_has_its_version(table: DeltaTable) -> None:
    assert table.version() == 7
    assert schema_changes(table.snapshot, 100) == CHANGES
    assert schema_changes(table.snapshot, 4) == CHANGES[:3]
    assert schema_changes(DeltaTable(table.table_uri, 3).snapshot, 100) == CHANGES[3:]
    table.create_checkpoint()
    for version in range(4):
        (Path(table.table_uri.removeprefix("file://")) / f"_delta_log/{version:020d}.json").unlink()
    assert schema_changes(DeltaTable(table.table_uri).snapshot, 100) == CHANGES[:2]  # the schema of version 3 is gone


def test_the_beginning_of_a_large_commit_is_read(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    commit = log / f"{4:020d}.json"
    lines = commit.read_text().splitlines()
    monkeypatch.setattr(module, "_BEGINNING", len(commit.read_bytes()) + 1000)
    files = [json.dumps({"txn": {"appId": str(number), "version": 1}}) for number in range(1000)]
    commit.write_text("\n".join([*lines, *files]))
    assert schema_changes(DeltaTable(table.table_uri).snapshot, 100) == CHANGES
    commit.write_text("\n".join([*files, *lines]))  # no writer puts the schema last; the next version has the change
    changes = schema_changes(DeltaTable(table.table_uri).snapshot, 100)
    assert {(change.column, change.kind, change.version) for change in changes} == {
        (change.column, change.kind, 5 if change.version == 4 else change.version) for change in CHANGES
    }


def test_columns_inside_columns() -> None:
    def nested(*fields: Field) -> Schema:
        member = {"type": "struct", "fields": [json.loads(field.to_json()) for field in fields]}
        kind = {"type": "map", "keyType": "string", "valueType": member, "valueContainsNull": True}
        array = {"type": "array", "elementType": kind, "containsNull": True}
        column = {"name": "a", "type": array, "nullable": True, "metadata": {}}
        return Schema.from_json(json.dumps({"type": "struct", "fields": [column]}))

    before = nested(Field("x", "integer"), Field("y", "string"))
    after = nested(Field("x", "string"), Field("Y", "string"), Field("z", "date"))
    assert changes_between(before, before) == []
    assert changes_between(before, after) == [
        SchemaChange("a.element.value.x", "retyped", "integer", "string"),
        SchemaChange("a.element.value.Y", "renamed", "y", "Y"),
        SchemaChange("a.element.value.z", "added", None, "date"),
    ]
