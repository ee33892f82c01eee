"""With ``evolution`` add_columns, a batch adds the new members of structs, and new JSON keys with nested values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import read_by_all
from tests.spark_jobs.loading import Shop

SCHEMA = Schema.from_arrow(
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("place", pa.struct([("lat", pa.float64())])),
            ("items", pa.list_(pa.struct([("sku", pa.string())]))),
            ("prices", pa.map_(pa.string(), pa.struct([("amount", pa.int64())]))),
        ]
    )
)


def shop_of(folder: Path, kind: str, schema: Schema = SCHEMA) -> Shop:
    options = {"format": SourceFormat(kind, evolution="add_columns"), "files_per_batch": 9, "schema": schema}
    return Shop(folder, options)


def land(shop: Shop, name: str, rows: list[dict[str, Any]], **types: pa.DataType) -> None:
    """A file of the shop's format; ``types`` are those of the columns of Parquet and ORC other than ``id``."""
    kind, path = shop.options["format"].kind, shop.landing / name
    if kind in ("parquet", "orc"):
        schema = pa.schema([pa.field("id", pa.int64()), *types.items()])
        (pq if kind == "parquet" else orc).write_table(pa.Table.from_pylist(rows, schema), str(path))
    else:
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if kind == "json" else f"[{', '.join(lines)}]")


def types_of(shop: Shop) -> dict[str, str]:
    return {field.name: str(field.type) for field in load_snapshot(open_store(str(shop.table))).schema.fields}


def rows_of(shop: Shop, *columns: str) -> list[tuple[Any, ...]]:
    """The values of the columns in the order of the ids, as this library, DuckDB and delta-rs read them."""
    rows = read_by_all(shop.table).sort_by("id").select(["id", *columns]).to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_new_members_of_typed_files(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    named = pa.struct([("names", pa.list_(pa.string())), ("lat", pa.float32())])
    sized = pa.list_(pa.struct([("size", pa.int32()), ("sku", pa.string())]))
    money = pa.map_(pa.string(), pa.struct([("amount", pa.int64()), ("currency", pa.string())]))
    row = {"place": {"names": ["x"], "lat": 1.5}, "items": [{"size": 1, "sku": "a"}, None]}
    land(
        shop,
        "a",
        [{"id": 1, **row, "prices": [("x", {"amount": 1, "currency": "EUR"})]}, {"id": 2}],
        place=named,
        items=sized,
        prices=money,
    )
    land(shop, "b", [{"id": 3, "place": {"lat": 2.0}}], place=pa.struct([("lat", pa.float64())]))
    assert not Load(shop.source()).run().refused
    assert types_of(shop) == {
        "id": "long",
        "place": "struct<lat: double, names: array<string>>",
        "items": "array<struct<sku: string, size: integer>>",
        "prices": "map<string,struct<amount: long, currency: string>>",
    }
    assert rows_of(shop, "place", "items", "prices") == [
        (1, {"lat": 1.5, "names": ["x"]}, [{"sku": "a", "size": 1}, None], [("x", {"amount": 1, "currency": "EUR"})]),
        (2, None, None, None),
        (3, {"lat": 2.0, "names": None}, None, None),
    ]
    zoned = pa.struct([("zone", pa.struct([("code", pa.int64())]))])
    land(shop, "c", [{"id": 4, "place": {"zone": {"code": 7}}}, {"id": 5, "place": {"zone": None}}], place=zoned)
    assert not Load(shop.source()).run().refused
    coded = pa.struct([("zone", pa.struct([("name", pa.string())]))])
    land(shop, "d", [{"id": 6, "place": {"zone": {"name": "x"}}}], place=coded)
    assert not Load(shop.source()).run().refused
    assert types_of(shop)["place"] == (
        "struct<lat: double, names: array<string>, zone: struct<code: long, name: string>>"
    )
    assert [(row[0], row[1]["zone"]) for row in rows_of(shop, "place") if row[1]] == [
        (1, None),
        (3, None),
        (4, {"code": 7, "name": None}),
        (5, None),
        (6, {"code": None, "name": "x"}),
    ]
    assert Load(shop.source()).nothing_to_do() is not None


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_with_members_that_cannot_be_added_are_refused(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    members: dict[str, dict[str, pa.DataType]] = {
        "a": {"size": pa.int32(), "notes": pa.list_(pa.int32())},
        "b": {"size": pa.int64(), "notes": pa.list_(pa.int64())},
        "c": {"size": pa.string()},
        "d": {"LAT": pa.float64()},
        "e": {"Size": pa.int32()},
        "f": {"a=b": pa.int32(), "other": pa.int32()},
        "g": {"lat": pa.string(), "more": pa.int32()},
    }
    for number, (name, types) in enumerate(members.items()):
        place = pa.struct(list(types.items()))
        land(shop, name, [{"id": number, "place": dict.fromkeys(types)}], place=place)
    result = Load(shop.source()).run()
    assert types_of(shop)["place"] == "struct<lat: double, size: long, notes: array<long>>"
    assert {name: reason.split(": ", 1)[1].split(". ")[0] for name, reason in result.refused.items()} == {
        "c": "place.size is string, expected long",
        "d": "place.LAT is not a column of the schema",
        "e": "place.Size is not a column of the schema",
        "f": "place.a=b is not a column of the schema; place.other is not a column of the schema",
        "g": "place.more is not a column of the schema; place.lat is string, expected double",
    }
    assert [row[0] for row in rows_of(shop, "place")] == [0, 1]


def test_a_member_without_a_type_is_text(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "parquet")
    place = pa.struct([("lat", pa.float64()), ("empty", pa.null()), ("later", pa.null())])
    land(shop, "a", [{"id": 1, "place": {"lat": 1.0}}], place=place)
    land(
        shop,
        "b",
        [{"id": 2, "place": {"later": {"x": 1}}}],
        place=pa.struct([("later", pa.struct([("x", pa.int64())]))]),
    )
    assert not Load(shop.source()).run().refused
    assert types_of(shop)["place"] == "struct<lat: double, empty: string, later: struct<x: long>>"
    assert rows_of(shop, "place")[1][1]["later"] == {"x": 1}


def test_a_redo_adds_the_members_of_the_intent_once(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "json")
    land(shop, "a", [{"id": 1, "place": {"lat": 1}}])
    Load(shop.source()).run()
    land(shop, "b", [{"id": 2, "place": {"lat": 1, "height": 5}}, {"id": 3, "place": {"lat": "x", "height": 5}}])
    shop.run_killed_before_commit()
    assert types_of(shop)["place"] == "struct<lat: double>"
    land(shop, "c", [{"id": 4, "place": {"height": "high"}}])
    Load(shop.source()).run()
    assert types_of(shop)["place"] == "struct<lat: double, height: long>"
    assert rows_of(shop, "place") == [(1, {"lat": 1.0, "height": None}), (2, {"lat": 1.0, "height": 5})]
    assert [row[:1] + row[2:] for row in shop.quarantined()] == [
        ("b", "place.lat", "not a valid double"),
        ("c", "place.height", "not a valid long"),
    ]
    assert Load(shop.source()).nothing_to_do() is not None


@pytest.mark.parametrize("kind", ["json", "json_array"])
def test_nested_keys_of_json(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    land(
        shop,
        "a",
        [
            {"id": 1, "place": {"lat": 1, "zone": {"code": 7, "since": "2024-01-31"}}, "tags": ["a", "b"]},
            {"id": 2, "items": [{"sku": "a", "price": 1.25}, {"price": 3}], "lines": [{"n": 1}, {"ok": True}, None]},
            {"id": 3, "prices": {"x": {"amount": 1, "note": None}}, "place": None, "tags": [], "grid": [[1], [2.5]]},
            {"id": 4, "place": {"zone": None, "codes": []}, "tags": None},
        ],
    )
    land(shop, "b", [{"id": 5, "place": {"zone": {"code": "x", "name": "y"}}}, {"id": 6, "tags": [{"a": 1}]}])
    assert not Load(shop.source()).run().refused
    zone = "struct<code: string, since: date, name: string>"
    assert types_of(shop) == {
        "id": "long",
        "place": f"struct<lat: double, zone: {zone}, codes: array<string>>",
        "items": "array<struct<sku: string, price: decimal(18,2)>>",
        "prices": "map<string,struct<amount: long, note: string>>",
        "tags": "array<string>",
        "lines": "array<struct<n: long, ok: boolean>>",
        "grid": "array<array<decimal(18,2)>>",
    }
    places = {row[0]: row[1] for row in rows_of(shop, "place")}
    assert str(places[1]["zone"].pop("since")) == "2024-01-31"
    assert places == {
        1: {"lat": 1.0, "zone": {"code": "7", "name": None}, "codes": None},
        2: None,
        3: None,
        4: {"lat": None, "zone": None, "codes": []},
        5: {"lat": None, "zone": {"code": "x", "since": None, "name": "y"}, "codes": None},
    }
    lines = {row[0]: row[1:] for row in rows_of(shop, "lines", "tags")}
    assert lines[2] == ([{"n": 1, "ok": None}, {"n": None, "ok": True}, None], None)
    assert [lines[row][1] for row in (1, 3, 4)] == [["a", "b"], [], None]
    assert [row[2:] for row in shop.quarantined()] == [("tags.element", "not a plain value")]


def test_keys_with_values_of_several_kinds_are_left_out(tmp_path: Path) -> None:
    """A later file of another kind does not take the key from the files before it."""
    shop = shop_of(tmp_path, "json")
    land(
        shop,
        "a",
        [
            {"id": 1, "size": 1},
            {"id": 2, "mixed": 1},
            {"id": 3, "mixed": {"a": 1}},
            {"id": 4, "place": {"mixed": [1], "lat": 1}},
            {"id": 5, "place": {"mixed": 1, "new": 1}},
            {"id": 6, "empty": {}},
            {"id": 7, "PLACE": {"lat": 1}},
            {"id": 8, "place": {"Lat": 1}},
            {"id": 9, "place": {"new": 1, "New": 2}},
        ],
    )
    land(shop, "b", [{"id": 10}, {"id": 11, "size": {"width": 1}}, {"id": 12, "size": None, "place": {"new": [1]}}])
    assert not Load(shop.source()).run().refused
    assert set(types_of(shop)) == {"id", "place", "items", "prices", "size"}
    assert types_of(shop)["place"] == "struct<lat: double, new: long>"
    assert [row[:2] for row in rows_of(shop, "size")] == [(1, 1), (10, None)]
    reasons = {(row[0], row[1]): row[2] for row in shop.quarantined()}
    assert reasons == {
        ("a", 2): "mixed",
        ("a", 3): "mixed",
        ("a", 4): "place.mixed",
        ("a", 5): "place.mixed",
        ("a", 6): "empty",
        ("a", 7): "PLACE",
        ("a", 8): "place.Lat",
        ("a", 9): "place.New",
        ("b", 2): "size",
        ("b", 3): "place.new",
    }


@pytest.mark.parametrize("depth", [15, 17, 300])
def test_deeply_nested_values_are_not_added(tmp_path: Path, depth: int) -> None:
    shop = shop_of(tmp_path, "json")
    (shop.landing / "a").write_text('{"id": 1}\n{"id": 2, "deep": ' + "[" * depth + "]" * depth + "}")
    assert not Load(shop.source()).run().refused
    assert ("deep" in types_of(shop)) == (depth == 15)
    assert len(read_by_all(shop.table)) == (2 if depth == 15 else 1)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_an_object_with_keys_that_are_values_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additions, "MOST_COLUMNS", 101)
    shop = shop_of(tmp_path, kind)
    ids = {f"k{row}": 1 for row in range(102)}
    place = pa.struct([(name, pa.int64()) for name in ids])
    land(shop, "ids", [{"id": 1, "place": ids}], place=place)
    land(shop, "few", [{"id": 2, "place": {"k0": 1}}], place=pa.struct([("k0", pa.int64())]))
    result = Load(shop.source()).run()
    expected = "more than 100 members of place" if kind == "json" else "place.k101 is not a column of the schema"
    assert list(result.refused) == ["ids"]
    assert expected in result.refused["ids"]
    assert types_of(shop)["place"] == "struct<lat: double, k0: long>"


def test_batches_do_not_add_members_of_json_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows with the members beyond the limit go to quarantine."""
    monkeypatch.setattr(additions, "MOST_COLUMNS", 5)
    shop = shop_of(tmp_path, "json")
    for number in range(3):
        land(shop, f"{number}", [{"id": number, "place": {f"k{number}{key}": 1 for key in "abc"}}])
        Load(shop.source()).run()
    assert types_of(shop)["place"] == "struct<lat: double, k0a: long, k0b: long, k0c: long>"
    assert [row[0] for row in rows_of(shop)] == [0]
    assert {row[0] for row in shop.quarantined()} == {"1", "2"}


def test_the_schema_file_may_have_members_in_another_order(tmp_path: Path) -> None:
    """Members that only the table has are NULL in files that lack them."""
    place = pa.struct([("height", pa.int64()), ("lat", pa.float64()), ("zone", pa.struct([("a", pa.int64())]))])
    table = Schema.from_arrow(SCHEMA.to_arrow().set(1, pa.field("place", place)))
    shop = shop_of(tmp_path, "parquet")
    create_table(open_store(str(shop.table)), table)
    land(
        shop,
        "a",
        [{"id": 1, "place": {"lat": 1.0, "b": 2}}],
        place=pa.struct([("lat", pa.float64()), ("b", pa.int8())]),
    )
    assert not Load(shop.source()).run().refused
    assert rows_of(shop, "place") == [(1, {"height": None, "lat": 1.0, "zone": None, "b": 2})]
