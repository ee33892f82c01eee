"""ALTER of members of structs, and the order of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, StructType, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, InvalidSchemaError
from tests.peers import parquet_files, plain, read_by_all, read_duckdb

PLACE = pa.struct([("city", pa.string()), ("zip", pa.int32())])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "place": pa.array([{"city": "a", "zip": 1}, {"city": None, "zip": 2}, None], PLACE),
        "items": pa.array([[{"city": "x", "zip": 7}], [], None], pa.list_(PLACE)),
        "tags": pa.array([[("k", {"city": "t", "zip": 9})], None, []], pa.map_(pa.string(), PLACE)),
        "a.b": ["p", "q", "r"],
    }
)
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


def names(kind: Any) -> list[str]:
    return [field.name for field in kind.fields]


@pytest.mark.parametrize("upgraded", [False, True], ids=["created with mapping", "upgraded"])
def test_members_are_renamed_dropped_widened_and_moved(tmp_path: Path, engine: Engine, upgraded: bool) -> None:
    write_deltalake(
        tmp_path, ROWS.drop_columns(["a.b"]) if upgraded else ROWS, configuration={} if upgraded else PROPERTIES
    )
    table = DeltaTable(tmp_path, engine=engine)
    if upgraded:
        table.alter.set_table_properties(PROPERTIES)
    before = parquet_files(tmp_path)
    table.alter.rename_column("PLACE.City", "town")
    table.alter.rename_column("items.element.zip", "post code")
    table.alter.drop_columns(["tags.value.city", "place.zip"])
    table.alter.change_column_type("items.element.`post code`", "long")
    table.alter.move_column("items.element.`post code`")
    table.alter.move_column("id", after="items")
    table.alter.add_columns([Field("place", StructType([Field("zip", "string")]))])  # not the dropped values
    assert parquet_files(tmp_path) == before
    rows = table.to_pyarrow_table()
    assert rows.column_names[:4] == ["place", "items", "id", "tags"]
    assert rows.drop_columns(["a.b"] if not upgraded else []).to_pylist() == [
        {
            "place": {"town": "a", "zip": None},
            "items": [{"post code": 7, "city": "x"}],
            "id": 1,
            "tags": [("k", {"zip": 9})],
        },
        {"place": {"town": None, "zip": None}, "items": [], "id": 2, "tags": None},
        {"place": None, "items": None, "id": 3, "tags": []},
    ]
    more = {
        "place": [{"town": "b", "zip": "z"}],
        "items": [[{"post code": 2**40, "city": "y"}]],
        "id": pa.array([4], pa.int32()),
        "tags": pa.array([[("n", {"zip": 1})]], pa.map_(pa.string(), pa.struct([("zip", pa.int32())]))),
        **({} if upgraded else {"a.b": ["s"]}),
    }
    write_deltalake(table, pa.table(more), mode="append")
    table.update({"id": "id + 10"}, predicate="place.town = 'a' OR place.zip = 'z'")
    expected = plain(table.to_pyarrow_table())
    assert sorted(expected["id"].to_pylist()) == [2, 3, 11, 14]
    assert table.optimize.compact()["numFilesAdded"] == 1
    assert plain(table.to_pyarrow_table()).equals(expected)
    assert read_duckdb(tmp_path).equals(expected)
    renames = [entry["operationParameters"] for entry in table.history() if entry["operation"] == "RENAME COLUMN"]
    assert renames[0] == {"oldColumnPath": "items.element.zip", "newColumnPath": "items.element.`post code`"}


def test_files_are_skipped_by_a_renamed_member(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration=PROPERTIES)
    table = DeltaTable(tmp_path)
    table.alter.rename_column("place.zip", "code")
    assert table.files("place.code = 2")
    assert not table.files("place.code = 20")


def test_the_order_of_columns(tmp_path: Path, engine: Engine) -> None:
    rows = pa.table({"a": [1, 2], "part": ["p", "q"], "b": ["x", "y"]})
    write_deltalake(tmp_path, rows, partition_by=["part"])
    table = DeltaTable(tmp_path, engine=engine)
    table.alter.move_column("b")
    table.alter.move_column("A", after="PART")
    assert names(table.schema()) == ["b", "part", "a"]
    write_deltalake(table, pa.table({"a": [3], "part": ["p"], "b": ["z"]}), mode="append")
    assert plain(table.to_pyarrow_table()).to_pylist() == plain(read_by_all(tmp_path)).to_pylist()
    assert table.history(1)[0]["operation"] == "WRITE"
    assert table.history(2)[1]["operationParameters"]["position"] == "AFTER part"


@pytest.mark.parametrize(
    ("verb", "arguments", "error", "message"),
    [
        ("rename_column", ("place.street", "x"), InvalidArgumentError, "'place.street' does not exist"),
        ("rename_column", ("id.x", "x"), InvalidArgumentError, "'id.x' does not exist"),
        ("rename_column", ("items.city", "x"), InvalidArgumentError, "'items.city' does not exist"),
        ("rename_column", ("items.element", "x"), InvalidArgumentError, "'items.element' does not exist"),
        ("rename_column", ("place.", "x"), InvalidArgumentError, "'place.' does not exist"),
        ("rename_column", ("a.b.c", "x"), InvalidArgumentError, "'a.b.c' does not exist"),
        ("rename_column", ("place.city", "ZIP"), InvalidSchemaError, "'place.zip' exists already"),
        ("rename_column", ("items.element.city", "x"), InvalidArgumentError, "CHECK full"),
        ("drop_columns", (["place.zip"],), InvalidArgumentError, "delta.dataSkippingStatsColumns"),
        ("drop_columns", (["tags.value.city", "tags.value.zip"],), InvalidArgumentError, "its struct has no member"),
        ("drop_columns", (["tags.value.city", "tags"],), InvalidArgumentError, "twice"),
        ("change_column_type", ("place.zip", "long"), InvalidArgumentError, "delta.dataSkippingStatsColumns"),
        ("change_column_type", ("tags.key", "binary"), InvalidArgumentError, "'tags.key' does not exist"),
        ("move_column", ("place.city", "id"), InvalidArgumentError, "expected one of zip"),
        ("move_column", ("id", "id"), InvalidArgumentError, "expected one of place"),
        ("move_column", ("id", 3), InvalidArgumentError, "after is 3"),
        ("move_column", ("nothing",), InvalidArgumentError, "'nothing' does not exist"),
    ],
    ids=str,
)
def test_what_is_refused(
    tmp_path: Path, verb: str, arguments: tuple[Any, ...], error: type[DeltaError], message: str
) -> None:
    rules = {"delta.constraints.full": "items IS NULL OR id > 0", "delta.dataSkippingStatsColumns": "id, place.zip"}
    write_deltalake(tmp_path, ROWS, configuration=PROPERTIES | rules)
    with pytest.raises(error, match=message):
        getattr(DeltaTable(tmp_path).alter, verb)(*arguments)
    assert DeltaTable(tmp_path).version() == 0
