"""With ``evolution`` add_columns, a batch adds the new columns of its files to the table in the commit of its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import orc

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import open_store
from tests.spark_jobs.loading import PRICE_RULE, SCHEMA, Shop


def shop_of(folder: Path, kind: str, **options: Any) -> Shop:
    return Shop(folder, {"format": SourceFormat(kind, evolution="add_columns"), "files_per_batch": 9, **options})


def added_columns(shop: Shop) -> dict[str, str]:
    """The columns that the schema file does not have, with their types, as delta-rs reads them."""
    fields = DeltaTable(str(shop.table)).schema().fields
    assert all(field.nullable for field in fields[1:])
    return {field.name: str(field.type.type) for field in fields[3:]}


def rows_of(shop: Shop, *columns: str) -> list[tuple[Any, ...]]:
    table = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id").select(["id", *columns])
    return [tuple(row.values()) for row in table.to_pylist()]


def test_new_columns_of_csv(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "csv", suite={"name": "s", "expectations": [PRICE_RULE]})
    shop.land("a.csv", "1,1,x", "2,-1,x")
    shop.land("b.csv", "3,1,5,2024-01-31", "4,free,6,", header="id,price,units,day")
    shop.land("c.csv", "5,1.5,", header="id,units,day")
    shop.land("d.csv", "6,1,true", header="id,PRICE,flag")  # differs only in case
    shop.land("e.csv", "1,true", header="price,flag")
    shop.land("f.csv", '7,"open', header="id,flag")
    result = Load(shop.source()).run()
    assert added_columns(shop) == {"units": "decimal(18,2)", "day": "date"}
    assert [(row[0], row[1] and str(row[1]), row[2] and str(row[2])) for row in rows_of(shop, "units", "day")] == [
        (1, None, None),
        (3, "5.00", "2024-01-31"),
        (5, "1.50", None),
    ]
    assert shop.quarantined() == [
        ("a.csv", 3, "price", "price not negative"),
        ("b.csv", 3, "price", "not a valid decimal(15,2)"),
    ]
    assert sorted(result.refused) == ["d.csv", "e.csv", "f.csv"]
    assert "PRICE is not a column of the schema" in result.refused["d.csv"]
    shop.land("g.csv", "8,free,2024-01-31,x", header="id,units,day,extra")
    shop.land("h.csv", "9,1,x")
    Load(shop.source()).run()
    assert added_columns(shop)["extra"] == "string"
    assert [row[0] for row in rows_of(shop)] == [1, 3, 5, 9]
    assert shop.quarantined()[-1] == ("g.csv", 2, "units", "not a valid decimal(18,2)")


@pytest.mark.parametrize("kind", ["json", "json_array"])
def test_new_keys_of_json(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    objects: list[dict[str, Any]] = [
        {"id": 1, "units": 1, "code": "a"},
        {"id": 2, "units": 2.5, "ok": True},
        {"id": 3, "tags": ["a"]},
        {"id": 4, "note": "x", "ok": None},
    ]
    for name, rows in {"a": objects, "b": [{"id": 5, "tags": ["a"], "more": 1}]}.items():
        text = json.dumps(rows) if kind == "json_array" else "\n".join(map(json.dumps, rows))
        (shop.landing / f"{name}.json").write_text(text)
    result = Load(shop.source()).run()
    types = {"units": "decimal(18,2)", "code": "string", "ok": "boolean", "tags": "array", "more": "long"}
    assert added_columns(shop) == types
    rows = [(*row[:1], row[1] and str(row[1]), *row[2:]) for row in rows_of(shop, "units", "code", "ok")]
    assert rows[:2] == [(1, "1.00", "a", None), (2, "2.50", None, True)]
    assert rows[2:] == [(number, None, None, None) for number in (3, 4, 5)]
    assert not result.refused


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_new_columns_of_typed_files(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    place = pa.struct([("lat", pa.float64()), ("names", pa.list_(pa.string()))])
    tables = {
        "a": pa.table({"id": [1], "units": pa.array([1], pa.int32())}),
        "b": pa.table({"id": [2], "units": pa.array([2], pa.int64()), "place": [{"lat": 1.5, "names": ["x"]}]}),
        "c": pa.table({"id": [3], "units": ["many"]}),
        "d": pa.table({"id": ["x"], "other": [1]}),
    }
    tables["b"] = tables["b"].set_column(2, "place", tables["b"]["place"].cast(place))
    for name, table in tables.items():
        (pq if kind == "parquet" else orc).write_table(table, str(shop.landing / name))
    result = Load(shop.source()).run()
    assert set(added_columns(shop)) == {"units", "place"}
    assert added_columns(shop)["units"] == "long"
    assert rows_of(shop, "units", "price", "place") == [
        (1, 1, None, None),
        (2, 2, None, {"lat": 1.5, "names": ["x"]}),
    ]
    assert {name: reason.split(": ")[1].split(". ")[0] for name, reason in result.refused.items()} == {
        "c": "units is string, expected long",
        "d": "other is not a column of the schema; id is string, expected long",
    }


def test_a_redo_adds_the_columns_of_the_intent_once(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "csv")
    shop.land("a.csv", "1,1,x")
    Load(shop.source()).run()
    shop.land("b.csv", "2,5", "x,5", header="id,units")
    shop.run_killed_before_commit()
    assert added_columns(shop) == {}
    shop.land("c.csv", "3,many", header="id,units")
    Load(shop.source()).run()
    assert added_columns(shop) == {"units": "long"}
    assert rows_of(shop, "units") == [(1, None), (2, 5)]
    assert [row[0] for row in shop.quarantined()] == ["b.csv", "c.csv"]
    assert Load(shop.source()).nothing_to_do() is not None


def test_a_batch_that_is_not_loaded_adds_no_column(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "csv")
    shop.land("a.csv", "1,1,x")
    Load(shop.source()).run()
    shop.land("b.csv", "x,y", header="id,id")
    shop.land("c.csv", '2,"y', header="id,units")
    assert len(Load(shop.source()).run().refused) == 2
    assert added_columns(shop) == {}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_with_a_column_that_the_table_computes_is_refused(tmp_path: Path, kind: str) -> None:
    """Its type in the file may differ from the table's, and then no run could commit the batch."""
    shop = shop_of(tmp_path, kind)
    stock = Field("stock", "integer", metadata={"CURRENT_DEFAULT": "7"})
    properties = {"delta.feature.allowColumnDefaults": "supported"}
    create_table(open_store(str(shop.table)), Schema([*SCHEMA.fields, stock]), configuration=properties)
    for name, column in {"a": "STOCK", "b": "units"}.items():
        if kind == "csv":
            shop.land(name, "1,5", header=f"id,{column}")
        else:
            pq.write_table(pa.table({"id": [1], column: [5]}), shop.landing / name)
    refused = Load(shop.source()).run().refused
    assert "STOCK is not a column of the schema" in refused.pop("a")
    assert not refused
    assert rows_of(shop, "stock", "units") == [(1, 7, 5)]


def test_csv_without_a_header_names_no_columns() -> None:
    with pytest.raises(InvalidArgumentError, match="without a header"):
        SourceFormat("csv", header=False, evolution="add_columns")
