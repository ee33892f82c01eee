"""Schemas that are not valid are refused quickly, with the value; very large schemas work."""

import json
import time

import pytest

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.json_form import MAX_NESTING
from lakehouse_lib.snapshot import load_snapshot
from tests import log_builder
from tests.log_builder import METADATA, array, mapping, put, struct


def field(name="x", kind="long", **more):
    return log_builder.field(name, kind) | more


def map_of(kind):
    return mapping("string", kind)


def open_table(folder, schema_string, **metadata):
    return load_snapshot(put(folder, 0, {"metaData": METADATA | {"schemaString": schema_string} | metadata}))


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("", "not JSON"),
        ("no json", "not JSON"),
        ('{"type":"struct","fields":[', "not JSON"),
        ('{"type":"struct","fields":NaN}', "not JSON"),
        ('"long"', "expected a StructType"),
        ("5", "not a type"),
        ("null", "not a type"),
        ("[]", "not a type"),
        (array("long"), "expected a StructType"),
        ({"type": "struct"}, "has no fields"),
        ({"type": "struct", "fields": {}}, "fields is {}"),
        ({"type": ["struct"], "fields": []}, "not a type"),
        (struct(5), "a field of the schema has no name or no type"),
        (struct({"name": "x"}), "a field of the schema has no name or no type"),
        (struct({"type": "long"}), "a field of the schema has no name or no type"),
        (struct(field(5)), "a field of the schema has no name or no type"),
        (struct(field(kind=None)), "not a type"),
        (struct(field(kind=5)), "not a type"),
        (struct(field(kind={"type": "what"})), "not a type"),
        (struct(field(kind={"type": "array"})), "has no elementType"),
        (struct(field(kind={"type": "map", "keyType": "string"})), "has no valueType"),
        (struct(field(kind=array("long") | {"containsNull": "no"})), "containsNull is 'no'"),
        (struct(field(nullable="false")), "nullable is 'false'"),
        (struct(field(metadata=[1])), r"metadata of the column 'x' is \[1\]"),
        (struct(field("day"), field("Day")), "two columns are named 'day' and 'Day'"),
        (struct(field(kind=struct(field("é"), field("É")))), "two columns are named"),
    ],
)
def test_a_schema_that_is_not_valid_is_refused(tmp_path, schema, what):
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(InvalidSchemaError, match=what):
        Schema.from_json(text)
    with pytest.raises(InvalidSchemaError, match=what):
        open_table(tmp_path, text)


@pytest.mark.parametrize("columns", [["q"], ["X"], ["x.y"], [""]])
def test_a_partition_column_that_does_not_exist_is_refused(tmp_path, columns):
    with pytest.raises(InvalidSchemaError, match=rf"partitioned by '{columns[0]}', which is not a column.*{tmp_path}"):
        open_table(tmp_path, json.dumps(struct(field())), partitionColumns=columns)


@pytest.mark.parametrize("kind", [struct(field("y")), array("long"), map_of("long")])
def test_a_partition_column_of_a_nested_type(tmp_path, kind):
    with pytest.raises(InvalidSchemaError, match=rf"partitioned by 'x', which is a column of the type {kind['type']}"):
        open_table(tmp_path, json.dumps(struct(field(kind=kind))), partitionColumns=["x"])


@pytest.mark.slow
def test_twenty_thousand_columns_work_and_do_not_take_long(tmp_path):
    text = json.dumps(struct(*(field(f"column{n}") for n in range(20_000))))
    begin = time.process_time()
    snapshot = open_table(tmp_path, text)
    assert snapshot.field("COLUMN19999").name == "column19999"
    assert len(snapshot.schema.to_arrow()) == 20_000
    assert time.process_time() - begin < 5  # 0.2 s on an idle processor


@pytest.mark.parametrize("wrap", [lambda kind: struct(field(kind=kind)), array, map_of], ids=["struct", "array", "map"])
def test_a_hundred_levels_work_and_more_are_refused(tmp_path, wrap):
    kind = "long"
    for _ in range(MAX_NESTING):
        kind = wrap(kind)
    text = json.dumps(struct(field(kind=kind)))
    schema = open_table(tmp_path / "deep", text).schema
    assert schema == Schema.from_json(schema.to_json())
    assert hash(schema) == hash(Schema.from_json(text))
    assert schema.to_arrow().names == ["x"]
    assert MAX_NESTING == 100
    with pytest.raises(InvalidSchemaError, match="more than 100 levels"):
        open_table(tmp_path / "deeper", json.dumps(struct(field(kind=wrap(kind)))))


@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ('{"type":"array","containsNull":true,"elementType":', "}"),
        ('{"type":"struct","fields":[{"name":"x","nullable":true,"metadata":{},"type":', "}]}"),
        ("[", "]"),
    ],
)
def test_a_thousand_levels_are_refused_quickly(tmp_path, levels, begin, end):
    text = json.dumps(struct(field())).replace('"long"', f'{begin * levels}"long"{end * levels}')
    started = time.perf_counter()
    with pytest.raises(InvalidSchemaError, match="nested") as caught:
        open_table(tmp_path, text)
    assert time.perf_counter() - started < 5
    assert len(str(caught.value)) < 1_000


def test_a_type_of_a_later_protocol_keeps_its_name(tmp_path):
    schema = open_table(tmp_path, json.dumps(struct(field("a"), field("b", "hologram")))).schema
    assert str(schema.field("b").type) == "hologram"
