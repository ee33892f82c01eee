"""Nested columns of JSON files are loaded, and values inside them that do not fit send their rows to quarantine."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import lakehouse_lib
from lakehouse_lib.ingestion.batches import files as batch_files
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.json.values import json_text, nested_column
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Schema
from tests.spark_jobs.loading import PRICE_RULE, Shop

ADDRESS = pa.struct([pa.field("zip", pa.string(), nullable=False), pa.field("since", pa.date32())])
ITEMS = pa.list_(pa.struct([("price", pa.decimal128(20, 3))]))
SCHEMA = Schema.from_arrow(
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.int64()),
            pa.field("address", ADDRESS),
            pa.field("items", ITEMS),
            pa.field("counts", pa.map_(pa.int32(), pa.int64())),
        ]
    )
)
LINES = [
    '{"id": 1, "address": {"zip": 123, "since": "2024-01-31"}, "counts": {"7": 1, "8": null}}',
    '{"id": 2, "items": [{"price": 12345678901234567.125}, {}, null], "address": null, "counts": {}}',
    '{"id": 3, "address": {"zip": null, "since": "2024-02-31", "street": "x"}}',
    '{"id": 4, "items": [{"price": 1.10}, {"price": "free"}]}',
    '{"id": 5, "counts": {"x": 1, "1": [], "01": 2}, "items": {}}',
    '{"id": 6, "address": "here", "price": -1}',
]
#: The faults of the lines 3 to 6.
FAULTS = {
    3: [
        ("address.street", "not a column of the schema"),
        ("address.zip", "null in a column that must not be null"),
        ("address.since", "not a valid date"),
    ],
    4: [("items.element.price", "not a valid decimal(20,3)")],
    5: [
        ("items", "not a JSON array"),
        ("counts.key", "not a valid integer"),
        ("counts.key", "a key more than once"),
        ("counts.value", "not a plain value"),
    ],
    6: [("address", "not a JSON object")],
}
GOOD = [
    (1, {"zip": "123", "since": "2024-01-31"}, None, [(7, 1), (8, None)]),
    (2, None, [{"price": Decimal("12345678901234567.125")}, {"price": None}, None], []),
]


def shop_of(folder: Path, kind: str, evolution: str = "refuse") -> Shop:
    shop = Shop(folder, {"format": SourceFormat(kind, evolution=evolution), "schema": SCHEMA})
    text = "[" + ",\n".join(LINES) + "]" if kind == "json_array" else "\n".join(LINES)
    (shop.landing / "a.json").write_text(text)
    return shop


def rows_of(shop: Shop, table: type = DeltaTable) -> list[tuple[object, ...]]:
    rows = table(str(shop.table)).to_pyarrow_table().sort_by("id").to_pylist()
    for row in rows:
        if row["address"]:
            row["address"]["since"] = str(row["address"]["since"])
    return [(row["id"], row["address"], row["items"], row["counts"]) for row in rows]


@pytest.mark.parametrize("kind", ["json", "json_array"])
def test_nested_columns_are_loaded_and_misfits_go_to_quarantine(tmp_path: Path, kind: str) -> None:
    shop = shop_of(tmp_path, kind)
    Load(shop.source()).run()
    assert rows_of(shop) == GOOD
    rows = {row["_line"]: row for row in DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()}
    faults = {line: [(fault["column"], fault["reason"]) for fault in row["_violations"]] for line, row in rows.items()}
    assert faults == FAULTS
    assert {row["_file"] for row in rows.values()} == {"a.json"}
    assert (rows[4]["items"], rows[6]["address"]) == ('[{"price": 1.10}, {"price": "free"}]', "here")


def test_a_nested_column_is_rescued_as_a_whole(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, "json", "rescue")
    Load(shop.source()).run()
    rows = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id")
    rescued = [text and json.loads(text) for text in rows["_rescued"].to_pylist()]
    whole = [json.loads(line) for line in LINES]
    names = [(), (), ("address",), ("items",), ("counts", "items"), ("address",)]
    assert rescued == [{name: row[name] for name in own} or None for row, own in zip(whole, names, strict=True)]
    assert rows_of(shop)[:2] == GOOD
    assert [row[3] for row in rows_of(shop)[2:]] == [None] * 4


BAD_PRICE = '{"id": 7, "price": -1, "address": {"zip": "1"}, "items": [{"price": 1.5}, null], "counts": {"8": null}}'


def with_bad_price(path: Path, rule: dict[str, Any] = PRICE_RULE) -> Load:
    """A load of rows with nested columns and a suite, which one of the rows breaks."""
    shop = shop_of(path, "json")
    (shop.landing / "a.json").write_text("\n".join([*LINES, BAD_PRICE]))
    return Load(shop.source(suite={"name": "s", "expectations": [rule]}))


def test_a_suite_judges_rows_with_nested_columns(tmp_path: Path) -> None:
    load = with_bad_price(tmp_path)
    assert not load.needs_spark()
    load.run()
    shop = Shop(tmp_path)
    assert rows_of(shop) == GOOD
    reasons = {line: (column, reason) for _, line, column, reason in shop.quarantined()}
    assert {line: faults[0] for line, faults in FAULTS.items()} | {7: ("price", "price not negative")} == reasons
    about_items = {
        **PRICE_RULE,
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "items", "regex": "x"},
    }
    assert with_bad_price(tmp_path / "other", about_items).needs_spark()


@pytest.mark.slow
def test_great_expectations_quarantines_the_same_nested_values(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_bad_price(tmp_path / "here").run()
    monkeypatch.setattr(batch_files, "is_complete", lambda *_: False)
    with_bad_price(tmp_path / "there").run(spark)
    rows, quarantines = [], []
    for name in ("here", "there"):
        shop = Shop(tmp_path / name)
        rows.append(rows_of(shop, lakehouse_lib.DeltaTable))  # delta-rs reads no null struct of Spark's files
        quarantines.append(DeltaTable(str(shop.quarantine)).to_pyarrow_table().sort_by("_line").to_pylist())
    assert rows[0] == rows[1] == GOOD
    assert quarantines[0] == quarantines[1]


def test_members_with_many_unknown_names_have_few_reasons() -> None:
    values = [{f"m{number}": 1} for number in range(1000)]
    checks = nested_column(values, pa.field("a", pa.struct([("x", pa.int64())]))).checks
    assert len(checks) == 101
    assert (checks[-1][:2], int(sum(check[2].sum() for check in checks))) == (
        ("a", "members that are not in the schema"),
        1000,
    )


@pytest.mark.slow
def test_json_of_any_depth_has_a_text() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert json_text({"a": value, "b": {}}) == f'{{"a": {"[" * 100_000}1{"]" * 100_000}, "b": {{}}}}'


def test_no_column_with_a_nested_key_takes_a_text() -> None:
    kind = pa.map_(pa.struct([("x", pa.int64())]), pa.int64())
    assert [check[:2] for check in nested_column([{"a": 1}], pa.field("m", kind)).checks] == [
        ("m.key", "not a JSON object")
    ]
