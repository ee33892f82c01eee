"""Statistics of files that pyarrow wrote, compared with the rows and with delta-rs."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import deltalake
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import ArrayType, Field, PrimitiveType, Schema, StructType, TableLayout
from lakehouse_lib.statistics import (
    Bounds,
    FloatRange,
    bounds_of,
    float_ranges,
    footer_columns,
    from_footer,
    indexed_columns,
    leaves,
    num_records,
    union,
)
from tests.lakehouse_lib.expressions.predicate_cases import SCHEMA, VALUES, array, rows

WIDE = Decimal("12345678901234567890.1234567891")
ALL = indexed_columns(TableLayout(SCHEMA), {"delta.dataSkippingNumIndexedCols": "-1"})


def footer(table: pa.Table, **options) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata


def files_of(stats: list[str | None]) -> pa.Table:
    columns = {field.name: pa.nulls(len(stats), field.type) for field in FILE_SCHEMA}
    columns["path"] = pa.array([str(i) for i in range(len(stats))])
    columns["stats"] = pa.array(stats, pa.string())
    return pa.Table.from_pydict(columns, schema=FILE_SCHEMA)


def bounds_of_x(stats: list[str | None], kind: PrimitiveType) -> Bounds:
    return bounds_of(files_of(stats), {("x",): kind})[("x",)]


def column_at(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    column = table.column(path[0]).combine_chunks()
    for name in path[1:]:
        column = column.flatten()[column.type.get_field_index(name)]
    return column


@given(rows(), st.integers(1, 4), st.booleans(), st.booleans())
def test_bounds_agree_with_the_rows(table, row_group_size, as_integer, nan_known):
    meta = footer(table, row_group_size=row_group_size, store_decimal_as_integer=as_integer)
    floats = float_ranges(table) if nan_known else None
    text = from_footer(meta, SCHEMA, indexed=ALL, floats=floats)
    assert json.loads(text)["numRecords"] == table.num_rows
    files = files_of([text])
    assert num_records(files).to_pylist() == [table.num_rows]
    for path, bounds in bounds_of(files, dict(leaves(SCHEMA))).items():
        column = column_at(table, path)
        assert bounds.null_count.to_pylist() == [column.null_count], path
        kind = str(column.type)
        if bounds.min[0].is_valid or bounds.max[0].is_valid:
            assert kind not in ("bool", "binary"), path
        numbers = column.filter(pc.invert(pc.is_nan(column))) if pa.types.is_floating(column.type) else column
        low, high = pc.min(numbers), pc.max(numbers)
        if bounds.min[0].is_valid:
            assert pc.less_equal(bounds.min.cast(column.type, safe=False), low)[0].as_py(), path
        if bounds.max[0].is_valid:
            assert pc.greater_equal(bounds.max.cast(column.type, safe=False), high)[0].as_py(), path
            assert not pa.types.is_floating(column.type) or (
                nan_known and len(numbers) == len(column) - column.null_count
            )
        elif kind in ("int64", "date32[day]", "decimal128(5, 2)"):
            assert column.null_count == len(column), path
        if kind in ("int8", "int16", "int32", "int64", "date32[day]", "decimal128(5, 2)"):
            assert (bounds.min[0].as_py(), bounds.max[0].as_py()) == (low.as_py(), high.as_py()), path


def stats(kind: str, values: list, **options) -> tuple[object, object, object]:
    schema = Schema([Field("x", kind)])
    table = pa.table({"x": array(values, kind)})
    indexed = indexed_columns(TableLayout(schema), {})
    text = from_footer(footer(table, **options), schema, indexed=indexed, floats=float_ranges(table))
    body = json.loads(text, parse_float=Decimal)
    return tuple(body[key].get("x") for key in ("minValues", "maxValues", "nullCount"))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("long", [3, None, -5], (-5, 3, 1)),
        ("long", [None, None], (None, None, 2)),
        ("double", [0.0], (Decimal("-0.0"), Decimal("0.0"), 0)),
        ("double", [float("inf"), 1.0], (Decimal("1.0"), None, 0)),
        ("decimal(38,10)", [WIDE], (WIDE, WIDE, 0)),
        ("date", [-1, 1], ("1969-12-31", "1970-01-02", 0)),
        ("timestamp", [-1, 1001], ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.002Z", 0)),
        ("timestamp_ntz", [1000], ("1970-01-01T00:00:00.001", "1970-01-01T00:00:00.001", 0)),
        ("timestamp", [253_402_300_799_999_999], ("9999-12-31T23:59:59.999Z", None, 0)),
        ("string", ["é" * 32], ("é" * 32, "é" * 32, 0)),
        ("string", ["é" * 33], ("é" * 32, "é" * 32 + "\U0010ffff", 0)),
        ("string", ["a" * 33], ("a" * 32, "a" * 32 + "\x7f", 0)),
        ("string", ["a" * 32 + "\x7f"], ("a" * 32, "a" * 32 + "\U0010ffff", 0)),
        ("string", ["a" * 32 + "\U0010ffff" * 3 + "b"], ("a" * 32, "a" * 32 + "\U0010ffff" * 3 + "\x7f", 0)),
        ("string", ["\U0010ffff" * 80], ("\U0010ffff" * 32, None, 0)),
        ("string", ["a\"\\\n"], ("a\"\\\n", "a\"\\\n", 0)),
        ("binary", [b"a"], (None, None, 0)),
        ("boolean", [True, None], (None, None, 1)),
    ],
)  # fmt: skip
def test_statistics_that_are_written(kind, values, expected):
    assert stats(kind, values) == expected


def test_a_string_too_long_for_the_footer_has_no_bounds():
    assert stats("string", ["x" * 10_000, "a"]) == (None, None, 0)
    # One row group without bounds leaves the whole file without bounds.
    assert stats("string", ["x" * 10_000, "a"], row_group_size=1) == (None, None, 0)


def test_without_statistics_in_the_footer():
    assert stats("long", [1, 2], write_statistics=False) == (None, None, None)


def test_names_with_dots_lists_and_structs_keep_apart():
    schema = Schema(
        [
            Field("l", ArrayType("long")),
            Field("a.b", "long"),
            Field("a", StructType([Field("b", "long"), Field("l", ArrayType("long"))])),
        ]
    )
    table = pa.table({"l": [[1], [2, 3]], "A.b": [7, 8], "a": [{"b": 1, "l": [9]}, None]})
    text = from_footer(footer(table), schema, indexed=indexed_columns(TableLayout(schema), {}))
    assert json.loads(text) == {
        "numRecords": 2,
        "minValues": {"a.b": 7, "a": {"b": 1}},
        "maxValues": {"a.b": 8, "a": {"b": 1}},
        "nullCount": {"a.b": 0, "a": {"b": 1}},
    }


def test_which_columns():
    schema = Schema([*(Field(f"c{i}", "long") for i in range(40)), Field("s", StructType([Field("x", "long")]))])

    def chosen(partitions=(), **configuration):
        named = {f"delta.dataSkipping{key}": value for key, value in configuration.items()}
        return {".".join(path) for path in indexed_columns(TableLayout(schema, tuple(partitions)), named).paths}

    assert chosen() == {f"c{i}" for i in range(32)}
    assert chosen(["c0"]) == {f"c{i}" for i in range(1, 33)}
    assert chosen(NumIndexedCols="-1") == {f"c{i}" for i in range(40)} | {"s.x"}
    assert chosen(NumIndexedCols="0") == set()
    assert chosen(StatsColumns="c39, `s`, none, c1", NumIndexedCols="2") == {"c39", "s.x", "c1"}
    assert chosen(["c1"], StatsColumns="c1,S.x") == {"s.x"}
    for bad in ("x", "-2", ""):
        with pytest.raises(InvalidArgumentError, match="dataSkippingNumIndexedCols"):
            chosen(NumIndexedCols=bad)


@pytest.mark.parametrize("kind", sorted(set(VALUES) - {"binary", "boolean"}))
def test_reads_what_delta_rs_writes(kind, tmp_path):

    values = [value for value in VALUES[kind] if value == value]
    column = array(values, kind)
    deltalake.write_deltalake(str(tmp_path), pa.table({"x": column}))
    log = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (text,) = [json.loads(line)["add"]["stats"] for line in log if '"add"' in line]
    bounds = bounds_of_x([text], PrimitiveType(kind))
    assert bounds.null_count.to_pylist() == [0]
    assert bounds.num_records.to_pylist() == [len(values)]
    for bound, holds, extreme in ((bounds.min, pc.less_equal, pc.min), (bounds.max, pc.greater_equal, pc.max)):
        if bound[0].is_valid:
            assert holds(bound[0], extreme(column).cast(bound.type)).as_py()
    assert bounds.min[0].is_valid or kind in ("float", "double")


def test_odd_statistics_are_unknown_and_do_not_affect_other_rows():
    good = '{"numRecords":2,"minValues":{"x":1},"maxValues":{"x":3},"nullCount":{"x":0}}'
    odd = [
        None, "", "nonsense", "[1]", '{"numRecords":2', '{"numRecords":"2"}', '{"numRecords":2} {"numRecords":3}',
        '{"minValues":{"x":"a"}}', '{"minValues":5}', '{"maxValues":{"x":1.5}}',
        '{"maxValues":{"x":99999999999999999999}}',
        '{"minValues":{"x":9},"maxValues":{"x":1}}', '{"minValues":{"x":true}}', '{"nullCount":{"x":null}}',
    ]  # fmt: skip
    mixed = [text for odd_text in odd for text in (good, odd_text)] * 7
    bounds = bounds_of_x(mixed, PrimitiveType("long"))
    count = len(mixed) // 2
    for array_, value in ((bounds.min, 1), (bounds.max, 3), (bounds.null_count, 0), (bounds.num_records, 2)):
        assert array_.to_pylist()[::2] == [value] * count
    assert bounds.min.to_pylist()[1::2] == [None] * count
    assert bounds.max.to_pylist()[1::2] == [None] * count
    pretty = json.dumps(json.loads(good), indent=2).replace("\n", "\r\n")
    assert bounds_of_x([pretty, good], PrimitiveType("long")).max.to_pylist() == [3, 3]


def test_wide_bounds_show_nulls_only_at_their_ends():
    def count(nulls):
        text = json.dumps({"numRecords": 5, "tightBounds": False, "nullCount": {"x": nulls}})
        return bounds_of_x([text], PrimitiveType("long")).null_count.to_pylist()

    assert [count(0), count(3), count(5)] == [[0], [None], [5]]


def test_moments_in_any_zone_and_rounded_outwards():
    text = '{"minValues":{"x":"2020-01-01T00:00:00.123-08:00"},"maxValues":{"x":"2020-01-01T08:00:00.123Z"}}'
    bounds = bounds_of_x([text, None], PrimitiveType("timestamp"))
    moment = dt.datetime(2020, 1, 1, 8, 0, 0, 123_000, dt.UTC)
    assert bounds.min.to_pylist() == [moment, None]
    assert bounds.max.to_pylist() == [moment + dt.timedelta(milliseconds=1), None]


def test_ranges_of_floats_at_every_depth():
    nan = float("nan")
    table = pa.table(
        {
            "a": [1.0, nan, None],
            "s": [{"f": nan, "i": 1}, None, {"f": None, "i": 2}],
            "l": [[2.0, nan], None, []],
            "m": pa.array([[("k", 3.0)], None, []], pa.map_(pa.string(), pa.float32())),
            "i": [1, 2, 3],
        }
    )
    assert float_ranges(table) == {
        ("a",): FloatRange(1.0, 1.0, 1, True),
        ("s", "f"): FloatRange(None, None, 2, True),
        ("l", "list", "element"): FloatRange(2.0, 2.0, 0, True),
        ("m", "key_value", "value"): FloatRange(3.0, 3.0, 0, False),
    }
    halves = (float_ranges(table.slice(0, 1)), float_ranges(table.slice(1)))
    assert union(*halves) == float_ranges(table)
    assert float_ranges(table.slice(0, 1))[("a",)] == FloatRange(1.0, 1.0, 0, False)
    assert footer_columns(table.schema, []) is True
    assert footer_columns(table.schema, [("s", "f"), ("l", "list", "element")]) == [
        "a",
        "s.i",
        "m.key_value.key",
        "m.key_value.value",
        "i",
    ]


@pytest.mark.parametrize(("bits", "kind"), [(0x7FF00000000007A2, "f8"), (0xFFF0000000000001, "f8"), (0x7F800001, "f4")])
def test_a_range_ignores_the_bits_of_nan(bits, kind):
    signalling = np.array([bits], f"u{kind[1]}").view(kind)
    for numbers in ([-5.0, 9.0, 1.0, 2.0], [1.0, 2.0, -5.0, 9.0]):
        values = np.insert(np.array(numbers, kind), 2, signalling)
        assert float_ranges(pa.table({"x": values})) == {("x",): FloatRange(-5.0, 9.0, 0, True)}


def test_columns_that_differ_in_case_have_the_statistics_of_the_exact_name():
    meta = footer(pa.table({"a": [1], "A": [5], "B": [7], "s": [{"x": 1}], "S": [{"y": 9}]}))
    schema = Schema.from_arrow(pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.struct([("y", pa.int64())]))]))
    indexed = indexed_columns(TableLayout(schema), {})
    assert json.loads(from_footer(meta, schema, indexed=indexed))["maxValues"] == {"a": 1, "b": 7}
    ambiguous = footer(pa.table({"ID": [1], "Id": [5]}))
    id_schema = Schema([Field("id", "long")])
    columns = indexed_columns(TableLayout(id_schema), {})
    assert json.loads(from_footer(ambiguous, id_schema, indexed=columns))["maxValues"] == {}
