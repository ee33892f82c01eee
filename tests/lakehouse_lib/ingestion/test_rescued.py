"""The column ``_rescued`` has what does not fit the schema, as JSON that another parser reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.rescued import json_objects, members
from tests.spark_jobs.loading import PRICE_RULE, Shop


def rows_of(shop: Shop) -> list[tuple[Any, ...]]:
    """The rows by id, with the parsed value of ``_rescued``."""
    table = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id")
    rows = table.select(["id", "price", "note", "_rescued"]).to_pylist()
    return [
        (row["id"], row["price"] and str(row["price"]), row["note"], row["_rescued"] and json.loads(row["_rescued"]))
        for row in rows
    ]


def test_other_columns_and_values_of_csv(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {"format": SourceFormat("csv", evolution="rescue"), "files_per_batch": 9})
    shop.land("a.csv", "1,1.50,x", "2,free,y", "x,1,z")
    shop.land("b.csv", '3,"say ""hi""\n",1', "4,,1", "5,\\,free", header="id,tele\tphone,price")
    shop.land("c.csv", "1.50,x", header="price,note")
    shop.land("d.csv", "6,7", "8", header="id,id2")
    shop.land("e.csv", "7,7", header="id,id")
    result = Load(shop.source()).run()
    assert rows_of(shop) == [
        (1, "1.50", "x", None),
        (2, None, "y", {"price": "free"}),
        (3, "1.00", None, {"tele\tphone": 'say "hi"\n'}),
        (4, "1.00", None, None),
        (5, None, None, {"price": "free", "tele\tphone": "\\"}),
        (6, None, None, {"id2": "7"}),
    ]
    rows = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    assert {(row["_file"], row["_line"], row["_reason"]) for row in rows} == {
        ("a.csv", 4, "not a valid long"),
        ("d.csv", 3, "1 fields; expected 2"),
    }
    assert {name: reason.split(": ")[1].split(". ")[0] for name, reason in result.refused.items()} == {
        "c.csv": "id is missing, expected long",
        "e.csv": "id is the name of 2 columns, expected one",
    }


def test_a_row_in_quarantine_has_its_rescued_values(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {"format": SourceFormat("csv", evolution="rescue")})
    shop.land("a.csv", "x,free,1234", "1,2.00,5678", header="id,price,phone")
    Load(shop.source()).run()
    (row,) = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    assert (row["id"], row["price"], json.loads(row["_rescued"])) == ("x", "free", {"price": "free", "phone": "1234"})


@pytest.mark.parametrize("kind", ["json", "json_array"])
def test_other_keys_and_values_of_json(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path, {"format": SourceFormat(kind, evolution="rescue")})
    objects: list[dict[str, Any]] = [
        {"id": 1, "new": [1, {"a": "é\n"}], "more": 1.50},
        {"id": 2, "price": 1.5, "note": {"a": [1]}},
        {"id": 3, "price": "free"},
        {"id": 4, "price": 2},
        {"id": "x"},
    ]
    text = json.dumps(objects) if kind == "json_array" else "\n".join(map(json.dumps, objects))
    (shop.landing / "a.json").write_text(text)
    Load(shop.source()).run()
    assert rows_of(shop) == [
        (1, None, None, {"new": [1, {"a": "é\n"}], "more": 1.5}),
        (2, "1.50", None, {"note": {"a": [1]}}),
        (3, None, None, {"price": "free"}),
        (4, "2.00", None, None),
    ]
    assert shop.quarantined() == [("a.json", 5 if kind == "json" else 1, "id", "not a valid long")]


def test_an_existing_table_gets_the_column_and_the_suite_sees_the_rows(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,1,x")
    Load(shop.source(schema=shop.source().schema)).run()
    shop.land("b.csv", "2,free,x", "3,-1,x,", "4,-1,x")
    suite = {"name": "s", "expectations": [PRICE_RULE]}
    Load(shop.source(format=SourceFormat("csv", evolution="rescue"), suite=suite)).run()
    assert rows_of(shop) == [(1, "1.00", "x", None), (2, None, "x", {"price": "free"})]
    assert {row[3] for row in shop.quarantined() if row[1] == 4} == {"price not negative"}


def test_typed_files_cannot_be_rescued() -> None:
    with pytest.raises(InvalidArgumentError, match="evolution is 'rescue' for parquet files"):
        SourceFormat("parquet", evolution="rescue")


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.text(), st.booleans())), st.text(), st.text())
def test_members_are_json(rows: list[tuple[str | None, str | None, bool]], first: str, second: str) -> None:
    if first == second:
        second += "2"
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(2)]
    chosen = np.array([flag for *_, flag in rows], bool)
    parts = [members(first, columns[0]), members(second, columns[1], chosen)]
    for text, (a, b, flag) in zip(json_objects(parts, len(rows)).to_pylist(), rows, strict=True):
        expected = {name: value for name, value in ((first, a), (second, b if flag else None)) if value is not None}
        assert (text and json.loads(text)) == (expected or None)
