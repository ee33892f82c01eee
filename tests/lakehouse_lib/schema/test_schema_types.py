"""Schemas compared with delta-rs, in both directions."""

from __future__ import annotations

import json
import pickle

import deltalake
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema import (
    ArrayType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    check_names,
    check_usable,
)

PRIMITIVES = ["byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date"]
PRIMITIVES += ["timestamp", "timestamp_ntz", "decimal(1,0)", "decimal(10,2)", "decimal(38,38)"]
METADATA = st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=5) | st.booleans(), max_size=2)


# A C string ends at NUL, so Arrow schemas with NUL in a name cannot be exchanged between libraries.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def fields(types):
    field_arguments = st.tuples(NAMES, types, st.booleans(), METADATA)
    distinct = st.lists(field_arguments, min_size=1, max_size=4, unique_by=lambda arguments: arguments[0].lower())
    return distinct.map(lambda many: [Field(*each) for each in many])


TYPES = st.recursive(
    st.sampled_from(PRIMITIVES).map(PrimitiveType),
    lambda inner: (
        st.tuples(inner, st.booleans()).map(lambda arguments: ArrayType(*arguments))
        | st.tuples(inner, inner, st.booleans()).map(lambda arguments: MapType(*arguments))
        | fields(inner).map(StructType)
    ),
    max_leaves=5,
)


@given(fields(TYPES).map(Schema))
def test_json_round_trip_and_delta_rs(schema):
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert [field.metadata for field in again] == [field.metadata for field in schema]
    delta_rs_schema = deltalake.Schema.from_json(schema.to_json())
    assert json.loads(delta_rs_schema.to_json()) == json.loads(schema.to_json())
    assert Schema.from_json(delta_rs_schema.to_json()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_changing_a_returned_value_does_not_change_other_schemas():
    nested = StructType([Field("a", "long", metadata={"ids": {"a": [1]}})])
    text = Schema([Field("s", nested)]).to_json()
    schema = Schema.from_json(text)
    schema.fields.append(Field("b", "long"))
    schema.field("s").type.fields.append(Field("b", "long"))
    (member,) = schema.field("s").type.fields
    member.metadata["comment"] = "b"
    member.metadata["ids"]["a"].append(2)
    assert schema.to_json() == Schema.from_json(text).to_json() == text
    assert (type(schema.fields), type(member.metadata)) == (list, dict)  # as in deltalake


@given(fields(TYPES).map(Schema))
def test_arrow_round_trip_and_delta_rs(schema):
    bare = Schema.from_arrow(schema.to_arrow())
    assert bare.to_arrow().equals(schema.to_arrow())
    delta_rs_schema = pa.schema(deltalake.Schema.from_json(bare.to_json()))
    assert Schema.from_arrow(delta_rs_schema) == bare
    assert Schema.from_json(deltalake.Schema.from_arrow(bare.to_arrow()).to_json()) == bare


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.uint8(), "short"),
        (pa.uint16(), "integer"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(4), "binary"),
        (pa.date64(), "date"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.timestamp("s", tz="Europe/Berlin"), "timestamp"),
        (pa.decimal256(20, 3), "decimal(20,3)"),
        (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
        (pa.null(), "void"),
    ],
)
def test_arrow_types_that_are_accepted(arrow, delta):
    assert Schema.from_arrow(pa.schema([("x", arrow)])).field("X").type == PrimitiveType(delta)


@pytest.mark.parametrize(
    "arrow", [pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(50, 2)]
)
def test_arrow_types_that_are_refused(arrow):
    with pytest.raises(InvalidSchemaError, match=r"column 'a\.element\.b'"):
        Schema.from_arrow(pa.schema([("a", pa.list_(pa.struct([("b", arrow)])))]))


def test_names():
    with pytest.raises(InvalidSchemaError, match="'a' and 'A'"):
        Schema([Field("a", "long"), Field("A", "long")])
    nested = Schema([Field("ok", StructType([Field("not\tok", "long")])), Field("x=y", "long")])
    with pytest.raises(InvalidSchemaError, match=r"'ok\.not\\tok', 'x=y'") as raised:
        check_names(nested, table="/t")
    assert raised.value.table == "/t"
    check_names(Schema([Field("a.b", "long"), Field("é-1", "long"), Field("a b", "long"), Field("(a,b;{c})", "long")]))


@pytest.mark.parametrize("name", ["int", "bigint", "decimal(39,0)", "decimal(2,3)", "decimal(0,0)", "Long", ""])
def test_types_that_do_not_exist_are_refused(name):
    with pytest.raises(InvalidSchemaError):
        PrimitiveType(name)


@pytest.mark.parametrize("text", ["", "5", "{}", '"long"', '{"type":"struct"}', '{"type":"struct","fields":[{}]}'])
def test_json_that_is_not_a_schema_is_refused(text):
    with pytest.raises(InvalidSchemaError):
        Schema.from_json(text)


@pytest.mark.parametrize(
    "kind",
    [
        StructType([Field("x", "void", nullable=False)]),
        StructType([Field("x", ArrayType("void", contains_null=False))]),
        StructType([Field("x", MapType("void", "long"))]),
        StructType([Field("x", MapType("long", "void", value_contains_null=False))]),
    ],
    ids=["member", "element", "key", "value"],
)
def test_void_that_must_not_be_null_has_no_arrow_type(kind):
    schema = Schema.from_json(Schema([Field("s", kind)]).to_json())
    with pytest.raises(InvalidSchemaError, match=r"column 's\.x' has values that are void and NOT NULL"):
        schema.to_arrow()


def test_an_unknown_type_is_refused_only_when_used():
    text = '{"type":"struct","fields":[{"name":"v","type":"interval year","nullable":true,"metadata":{}}]}'
    schema = Schema.from_json(text)
    assert json.loads(schema.to_json()) == json.loads(text)
    for use in (schema.to_arrow, lambda: check_usable(schema)):
        with pytest.raises(InvalidSchemaError, match="column 'v' has the type 'interval year'"):
            use()


@pytest.mark.parametrize(
    "name", ["decimal(100,2)", "decimal(0,0)", "decimal(5,7)", "decimal(5,-1)", f"decimal({10**4000},2)"]
)
def test_a_decimal_that_no_table_has_is_a_type_without_values(name: str) -> None:
    text = f'{{"type":"array","elementType":"{name}","containsNull":true}}'
    kind = ArrayType.from_json(text)
    assert kind.to_json() == text
    with pytest.raises(InvalidSchemaError, match="cannot read or write"):
        kind.to_arrow()
