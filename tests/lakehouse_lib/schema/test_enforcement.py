"""Whether data fits a schema, and how it is aligned with the schema."""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.errors import SchemaMismatchError
from lakehouse_lib.schema import ArrayType, Field, MapType, Schema, StructType, align, enforce, merge

PERSON = StructType([Field("name", "string"), Field("age", "integer", nullable=False)])
SCHEMA = Schema(
    [
        Field("id", "long", nullable=False),
        Field("price", "decimal(12,2)"),
        Field("person", PERSON),
        Field("tags", ArrayType("string", contains_null=False)),
        Field("scores", MapType("string", "double")),
    ]
)


def test_one_error_lists_every_mismatch():
    incoming = pa.schema(
        [
            ("price", pa.string()),
            ("PERSON", pa.struct([("name", pa.int64()), ("nick", pa.string())])),
            ("tags", pa.list_(pa.int8())),
            ("scores", pa.map_(pa.int32(), pa.float32())),
            ("extra", pa.int64()),
        ]
    )
    with pytest.raises(SchemaMismatchError) as raised:
        enforce(SCHEMA, incoming, table="/t")
    assert raised.value.table == "/t"
    assert raised.value.message.partition(": ")[2].split("; ") == [
        "id is missing, expected long not null",
        "price is string, expected decimal(12,2)",
        "person.name is long, expected string",
        "person.age is missing, expected integer not null",
        "person.nick is string, expected no such column",
        "tags.element is byte, expected string",
        "scores.key is integer, expected string",
        "extra is long, expected no such column",
    ]


def test_a_name_twice_is_a_mismatch():
    with pytest.raises(SchemaMismatchError, match="id is the name of 2 columns, expected one"):
        enforce(Schema([Field("id", "long")]), pa.schema([("id", pa.int64()), ("ID", pa.int64())]))


@pytest.mark.parametrize(
    ("table", "fits", "does_not"),
    [
        ("long", [pa.int8(), pa.uint64(), pa.float64(), pa.null()], [pa.string(), pa.bool_(), pa.date32()]),
        ("short", [pa.int8(), pa.int64()], [pa.string()]),
        ("double", [pa.float32(), pa.float16(), pa.int64(), pa.decimal128(3, 1)], [pa.string()]),
        ("decimal(12,2)", [pa.int64(), pa.decimal128(12, 3), pa.decimal256(5, 2)], [pa.float64()]),
        ("timestamp", [pa.timestamp("ns", tz="Asia/Tokyo")], [pa.timestamp("us"), pa.date32(), pa.string()]),
        ("timestamp_ntz", [pa.timestamp("s")], [pa.timestamp("us", tz="UTC")]),
        ("string", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())], [pa.binary(), pa.int8()]),
    ],
)
def test_types_that_are_cast_to_the_schema(table, fits, does_not):
    schema = Schema([Field("x", table)])
    for arrow in fits:
        enforce(schema, pa.schema([("X", arrow)]))
        assert align(pa.table({"X": pa.nulls(2, arrow)}), schema).schema == schema.to_arrow()
    for arrow in does_not:
        with pytest.raises(SchemaMismatchError, match=f"x is .*, expected {table.split('(')[0]}"):
            enforce(schema, pa.schema([("X", arrow)]))


def test_merge_adds_at_every_depth():
    incoming = pa.schema(
        [
            pa.field("new", pa.int8(), nullable=False),
            ("person", pa.struct([("city", pa.large_string()), ("age", pa.int16())])),
        ]
    )
    merged = merge(SCHEMA, incoming)
    assert merged.names == ["id", "price", "person", "tags", "scores", "new"]
    assert merged.field("new") == Field("new", "byte", nullable=True)
    assert merged.field("person").type == StructType([*PERSON.fields, Field("city", "string")])
    assert merge(merged, incoming) == merged
    assert merge(Schema([Field("x", "void")]), pa.schema([("x", pa.int8())])) == Schema([Field("x", "byte")])
    with pytest.raises(SchemaMismatchError, match="price is double, expected decimal"):
        merge(SCHEMA, pa.schema([("price", pa.float64()), ("more", pa.int8())]))


def test_align_orders_casts_and_fills():
    data = pa.table(
        {
            "TAGS": pa.array([["a"], None, []], pa.large_list(pa.large_string())),
            "Id": pa.array([1, 2, 3], pa.int8()),
            "person": pa.array([{"AGE": 5}, None, {"AGE": 6}], pa.struct([("AGE", pa.int8())])),
            "scores": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    expected = [
        {"id": 1, "price": None, "person": {"name": None, "age": 5}, "tags": ["a"], "scores": [("k", 1.0)]},
        {"id": 2, "price": None, "person": None, "tags": None, "scores": []},
        {"id": 3, "price": None, "person": {"name": None, "age": 6}, "tags": [], "scores": None},
    ]
    for start in range(3):
        aligned = align(data.slice(start), SCHEMA)
        aligned.validate(full=True)
        assert aligned.schema == nullable(SCHEMA.to_arrow())
        assert aligned.to_pylist() == expected[start:]
        batch = align(data.combine_chunks().to_batches()[0].slice(start), SCHEMA)
        assert isinstance(batch, pa.RecordBatch)
        assert batch.to_pylist() == expected[start:]


def test_a_value_that_does_not_fit_is_refused_by_align():
    schema = Schema([Field("t", "timestamp_ntz")])
    with pytest.raises(
        SchemaMismatchError, match=r"t has a value of timestamp\[ns\] that does not fit .*; expected timestamp_ntz"
    ):
        align(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), schema)
    assert align(pa.table({"t": pa.array([1000], pa.timestamp("ns"))}), schema).num_rows == 1


@pytest.mark.parametrize("kind", ["float", "double"])
def test_decimals_become_the_nearest_floats(kind):
    decimals = [Decimal(number).scaleb(-2) for number in range(1000)] + [Decimal("16777217.0000000001"), None]
    values = pa.array(decimals, pa.decimal128(38, 10))
    numbers = [None if value is None else float(value) for value in decimals]
    if kind == "float":
        numbers = pa.array(numbers, pa.float32()).to_pylist()
        numbers[-2] = 16777218.0  # by way of the nearest double, it would be 16777216
    schema = Schema([Field("x", kind), Field("l", ArrayType(kind)), Field("d", kind)])
    lists = pa.array([[value] for value in decimals], pa.list_(values.type))
    data = pa.table({"x": pa.chunked_array([values[:7], values[7:]]), "l": lists, "d": values.dictionary_encode()})
    assert align(data, schema).to_pydict() == {"x": numbers, "l": [[number] for number in numbers], "d": numbers}


@given(
    st.lists(
        st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.text()})),
        max_size=6,
    ),
    st.integers(0, 6),
)
def test_nested_values_survive(values, start):
    schema = Schema([Field("x", ArrayType(StructType([Field("b", "string"), Field("a", "long")])))])
    kind = pa.large_list(pa.struct([("a", pa.int8()), ("b", pa.large_string())]))
    aligned = align(pa.table({"x": pa.array(values, kind)}).slice(start), schema)
    aligned.validate(full=True)
    assert aligned.column("x").to_pylist() == values[start:]


@pytest.mark.parametrize("kind", [pa.uint64(), pa.uint32(), pa.int64()], ids=str)
def test_the_largest_integers_fit_decimals_with_enough_digits(kind):
    largest = 2 ** (kind.bit_width - str(kind).startswith("int")) - 1
    data = pa.table({"x": pa.array([largest, None], kind)})
    digits = len(str(largest))
    assert align(data, Schema([Field("x", f"decimal({digits},0)")]))["x"].to_pylist() == [largest, None]
    with pytest.raises(SchemaMismatchError, match="that does not fit"):
        align(data, Schema([Field("x", f"decimal({digits - 1},0)")]))
