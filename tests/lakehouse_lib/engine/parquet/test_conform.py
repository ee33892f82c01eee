"""A file's columns as the table's columns, with other names, ids, old types, other encodings, at every depth."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, LogCorruptedError, UnsupportedFeatureError
from lakehouse_lib.engine.parquet.conform import Members, conform, has_field_ids
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.expressions import parse
from lakehouse_lib.schema import Field
from lakehouse_lib.schema.column_mapping import Mode
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.lakehouse_lib.engine.parquet.one_file_tables import ID, NAME, one_file, read
from tests.log_builder import array, data_file, field, mapping, put_table, struct, with_id
from tests.peers import read_duckdb


class Made(NamedTuple):
    """A generated column: the table's type, the file's type, and stored value -> expected value."""

    table_type: Any
    stored: pa.DataType
    values: st.SearchStrategy[tuple[Any, Any]]


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return values.map(lambda value: (value, value))


def into(values: st.SearchStrategy[Any], change: Callable[[Any], Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return values.map(lambda value: (value, change(value)))


INT8, INT16, INT32 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32))
FLOAT = st.floats(width=32, allow_nan=False)
DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
CENTS = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)

LEAVES = [
    Made("long", pa.int64(), same(st.integers(-(2**63), 2**63 - 1))),
    Made("long", pa.int32(), same(INT32)),
    Made("integer", pa.int8(), same(INT8)),
    Made("short", pa.int8(), same(INT8)),
    Made("double", pa.float32(), same(FLOAT)),
    Made("double", pa.int32(), into(INT32, float)),
    Made("decimal(12,2)", pa.int32(), into(INT32, Decimal)),
    Made("decimal(22,2)", pa.int64(), into(st.integers(-(2**63), 2**63 - 1), Decimal)),
    Made("decimal(20,6)", pa.decimal128(11, 2), same(CENTS)),
    Made("timestamp_ntz", pa.date32(), into(DATES, lambda day: dt.datetime(day.year, day.month, day.day))),
    Made("timestamp_ntz", pa.timestamp("us"), same(TIMES)),
    Made("timestamp", pa.timestamp("us", "America/New_York"), into(TIMES, lambda at: at.replace(tzinfo=dt.UTC))),
    Made("string", pa.large_string(), same(TEXT)),
    Made("binary", pa.large_binary(), same(st.binary(max_size=3))),
    Made("binary", pa.binary(2), same(st.binary(min_size=2, max_size=2))),
    Made("boolean", pa.bool_(), same(st.booleans())),
    Made("void", pa.int32(), into(INT32, lambda _: None)),
]


@st.composite
def types(draw: st.DrawFn, mode: Mode, depth: int = 3) -> Made:
    """A column's type, and a type that a file may store it in."""
    kind = draw(st.sampled_from(["leaf", "struct", "list", "map"] if depth else ["leaf"]))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    if kind == "list":
        inner = draw(types(mode, depth - 1))
        stored = draw(st.sampled_from([pa.list_, pa.large_list]))(pa.field("item", inner.stored))
        return Made(array(inner.table_type), stored, lists(inner.values))
    if kind == "map":
        inner = draw(types(mode, depth - 1))
        return Made(mapping("string", inner.table_type), pa.map_(pa.string(), inner.stored), maps(inner.values))
    members = [draw(types(mode, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    table_types, stored = [], []
    for number, member in enumerate(members):
        table_types.append(field(f"m{number}", member.table_type, physical=f"p{number}", id=number + 1))
        stored.append(stored_field(number, member.stored, mode))
    lacks = field("lacks", "string", physical="p9", id=99)
    extra = stored_field(50, pa.int64(), mode)
    values = st.tuples(*(st.none().map(lambda _: (None, None)) | member.values for member in members)).map(
        lambda pairs: (
            {stored[n].name: pair[0] for n, pair in enumerate(pairs)},
            {f"m{n}": pair[1] for n, pair in enumerate(pairs)} | {"lacks": None},
        )
    )
    order = draw(st.permutations([*stored, extra]))
    return Made(struct(*table_types, lacks), pa.struct(order), values)


def stored_field(number: int, kind: pa.DataType, mode: Mode) -> pa.Field:
    name = {"none": f"m{number}", "name": f"p{number}", "id": f"x{(number * 7 + 1) % 5}{number}"}[mode]
    return with_id(pa.field(name, kind), number + 1) if mode == "id" else pa.field(name, kind)


def lists(values: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    items = st.lists(st.none().map(lambda _: (None, None)) | values, max_size=3)
    return items.map(lambda pairs: ([value for value, _ in pairs], [value for _, value in pairs]))


def maps(values: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    def keyed(items: list[Any]) -> list[tuple[str, Any]]:
        return [(str(number), item) for number, item in enumerate(items)]

    return lists(values).map(lambda pair: (keyed(pair[0]), keyed(pair[1])))


@given(st.data(), st.sampled_from(["none", "name", "id"]))
def test_every_type_at_every_depth(data: st.DataObject, mode: Mode) -> None:
    made = data.draw(types(mode))
    pairs = data.draw(st.lists(st.none().map(lambda _: (None, None)) | made.values, max_size=6))
    table_field = Field.from_json(json.dumps(field("m0", made.table_type, physical="p0", id=1)))
    stored = stored_field(0, made.stored, mode)
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array([value for value, _ in pairs], stored.type)], pa.schema([stored])), sink)
    file = pq.ParquetFile(sink)
    (file_field,) = file.schema_arrow
    assert Members([file_field], mode).index(table_field) == 0
    assert has_field_ids([file_field]) == (mode == "id")
    column = conform(file.read().column(0), file_field, table_field, mode)
    column.validate(full=True)
    assert column.type == table_field.type.to_arrow()
    assert column.to_pylist() == [value for _, value in pairs]


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("integer", pa.array([1.5])),
        ("float", pa.array([1.5], pa.float64())),
        ("double", pa.array([1], pa.int64())),
        ("string", pa.array([1], pa.int64())),
        ("long", pa.array(["1"])),
        ("timestamp", pa.array([dt.date(2026, 1, 1)])),
        ("date", pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us"))),
        ("byte", pa.array([300], pa.int32())),
        ("decimal(5,0)", pa.array([123456], pa.int32())),
        ("decimal(4,2)", pa.array([Decimal("123.45")], pa.decimal128(5, 2))),
        ("boolean", pa.array([1], pa.int32())),
        ("string", pa.array([b"\xff"], pa.binary())),
        ("long", pa.array([{"a": 1}])),
        (struct(field("a", "long")), pa.array([1])),
        (array("long"), pa.array([1])),
        (mapping("string", "long"), pa.array([[1]])),
        (struct(field("a", array("long"))), pa.array([{"a": ["x"]}])),
    ],
)
def test_a_file_of_another_type_is_named(tmp_path: Path, kind: Any, stored: pa.Array) -> None:
    one_file(tmp_path, pa.table({"k": [1], "v": stored}), field("k", "long"), field("v", kind))
    with pytest.raises(LogCorruptedError, match=r"column v of the data file a\.parquet") as refused:
        read(tmp_path)
    assert refused.value.hint is not None
    assert read(tmp_path, ["k"]) == [{"k": 1}]


@pytest.mark.parametrize(
    "change",
    [
        {"fromType": "string", "toType": "long"},
        {"fromType": "long", "toType": "double"},
        {"fromType": "decimal(10,4)", "toType": "decimal(11,6)"},
        {"fromType": "byte", "toType": "decimal(2,0)"},
        {"fromType": "short", "toType": "decimal(5,1)"},
        {"fromType": "integer", "toType": "decimal(9,0)"},
        {"fromType": "long", "toType": "decimal(18,0)"},
        {"fromType": "date", "toType": "timestamp"},
        {"fromType": "long", "toType": "integer"},
        {"fromType": "teapot", "toType": "long"},
        {"toType": "long"},
        {},
        "nonsense",
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_lossy_type_change_is_refused_by_name(tmp_path: Path, change: Any, nested: bool) -> None:
    changed = field("v", "long", changes=[{"fromType": "byte", "toType": "long"}, change])
    top = field("s", array(struct(changed))) if nested else changed
    one_file(tmp_path, pa.table({"k": [1]}), field("k", "long"), top, features=["typeWidening"])
    with pytest.raises(UnsupportedFeatureError, match=r"typeWidening.*expected a type that holds every value"):
        read(tmp_path)
    assert read(tmp_path, ["k"]) == [{"k": 1}]


def test_variants_are_structs_of_binaries(tmp_path: Path) -> None:
    kind = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    rows = pa.table({"k": [1, 2], "v": pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, None], kind)})
    shredded = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    other = pa.table({"k": [3], "v": pa.array([{"metadata": b"\x01\x00\x00", "typed_value": 5}], shredded)})
    adds = [data_file(tmp_path, "a.parquet", rows), data_file(tmp_path, "b.parquet", other)]
    adds[1]["stats"] = '{"numRecords": 1, "minValues": {"k": 3}, "maxValues": {"k": 3}, "nullCount": {"k": 0}}'
    put_table(tmp_path, [field("k", "long"), field("v", "variant")], adds, features=["variantType", "variantShredding"])
    table = DeltaTable(tmp_path).to_pyarrow_table(filters="k < 3")
    assert table.schema.field("v").type.field("metadata").type == pa.binary()
    assert table.to_pylist() == [
        {"k": 1, "v": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}},
        {"k": 2, "v": None},
    ]
    with pytest.raises(UnsupportedFeatureError, match=r"column v of b\.parquet.*variantShredding"):
        read(tmp_path)
    assert len(read(tmp_path, ["k"])) == 3
    assert DeltaTable(tmp_path).delete("k = 1")["num_deleted_rows"] == 1  # copies the first file only
    with pytest.raises(UnsupportedFeatureError, match="variantShredding"):
        DeltaTable(tmp_path).optimize.compact()


def test_a_dot_in_a_name_is_not_a_path(tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1], "a": [{"b": 2, "c": 3}], "a.c": ["x"]})
    fields = [field("a", struct(field("b", "long"))), field("a.c", "string"), field("a.b", "long")]
    one_file(tmp_path, rows, *fields)
    assert read(tmp_path) == [{"a": {"b": 2}, "a.c": "x", "a.b": 1}]
    assert read(tmp_path, ["a.b"]) == [{"a.b": 1}]
    assert read(tmp_path, ["a"]) == [{"a": {"b": 2}}]


def test_case_matters_only_if_a_file_has_both_names(tmp_path: Path) -> None:
    one_file(
        tmp_path, pa.table({"ID": [1], "s": [{"X": 2}]}), field("id", "long"), field("S", struct(field("x", "long")))
    )
    assert read(tmp_path, where="id = 1") == [{"id": 1, "S": {"x": 2}}]
    other = tmp_path / "other"
    one_file(other, pa.table([[1], [2]], names=["A", "a"]), field("a", "long"))
    assert read(other) == [{"a": 2}]


def test_ids_decide_in_id_mode_and_names_where_a_file_has_none(tmp_path: Path) -> None:
    fields = [
        field("one", "long", physical="p1", id=1),
        field("s", struct(field("two", "long", physical="p3", id=3)), physical="p2", id=2),
        field("p1", "long", physical="p4", id=4),
    ]
    inner = pa.struct([with_id(pa.field("p4", pa.int64()), 3)])
    ids = [
        with_id(pa.field("p4", pa.int64()), 1),
        with_id(pa.field("p1", inner), 2),
        with_id(pa.field("p2", pa.int64()), 9),
    ]
    with_ids = pa.table([[1], pa.array([{"p4": 2}], inner), [0]], pa.schema(ids))
    without = pa.table({"p1": [11], "p2": [{"p3": 12}], "p4": [13]})
    adds = [data_file(tmp_path, "a.parquet", with_ids), data_file(tmp_path, "b.parquet", without)]
    put_table(tmp_path, fields, adds, features=["columnMapping"], configuration=ID)
    assert read(tmp_path) == [{"one": 1, "s": {"two": 2}, "p1": None}, {"one": 11, "s": {"two": 12}, "p1": 13}]
    assert read(tmp_path, ["p1"], "one = 11") == [{"p1": 13}]


@pytest.mark.parametrize("configuration", [{}, NAME, ID], ids=["none", "name", "id"])
def test_row_groups_are_skipped_by_their_own_names_without_moving_positions(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    # The file's "k" is another column; in id mode only the ids count.
    mode = configuration.get("delta.columnMapping.mode", "none")
    name = {"none": "k", "name": "p-k", "id": "anything"}[mode]
    columns = [with_id(pa.field(name, pa.int64()), 1), with_id(pa.field("dropped", pa.int64()), 7)]
    rows = pa.table([[*range(100)], [*range(100, 0, -1)]], pa.schema(columns))
    add = data_file(tmp_path, "a.parquet", rows, row_group_size=10)
    put_table(
        tmp_path,
        [field("k", "long", physical="p-k", id=1) if configuration else field("k", "long")],
        [add],
        features=["columnMapping"] if configuration else [],
        configuration=configuration,
    )
    delete_by_vector(tmp_path, {"a.parquet": inline([5, 42, 43, 99])})
    assert read(tmp_path, where="k >= 40 AND k < 45") == [{"k": 40}, {"k": 41}, {"k": 44}]
    assert len(read(tmp_path)) == DeltaTable(tmp_path).to_pyarrow_table(columns=[]).num_rows == 96
    snapshot = DeltaTable(tmp_path).snapshot
    predicate = parse("k >= 40 AND k < 45", snapshot.schema)
    scan = Scan.of(snapshot, None, predicate)
    with scan.reader.open("a.parquet", None) as file:
        assert scan.reader.candidates(file, predicate) == [4]
    if mode != "id":  # DuckDB 1.5 does not find columns by id
        assert sorted(read_duckdb(tmp_path)["k"].to_pylist()) == sorted(row["k"] for row in read(tmp_path))


def test_dictionaries_fixed_sizes_and_views(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "l": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
            "t": pa.array(["x", None], pa.string_view()),
            "d": pa.array(["x", None]).dictionary_encode(),
            "i": pa.array([7, None], pa.dictionary(pa.int32(), pa.int16())),
            "e": pa.array([["x", "x", None], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            "u": pa.array([2**32 - 1, None], pa.uint32()),
            "h": pa.array([1.5, None], pa.float16()),
            "n": pa.nulls(2),
        }
    )
    kinds = {"l": array("long"), "t": "string", "d": "string", "i": "long"}
    kinds |= {"e": array("string"), "u": "long", "h": "float", "n": struct(field("a", "long"))}
    one_file(tmp_path, rows, *(field(name, kind) for name, kind in kinds.items()))
    assert read(tmp_path) == [
        {"l": [1, 2], "t": "x", "d": "x", "i": 7, "e": ["x", "x", None], "u": 2**32 - 1, "h": 1.5, "n": None},
        dict.fromkeys(rows.column_names),
    ]


def test_nanoseconds_are_cut_downwards(tmp_path: Path) -> None:
    kinds = {"at": pa.timestamp("ns", "UTC"), "wall": pa.timestamp("ns")}
    rows = pa.table({name: pa.array([-1, 1999, None], kind) for name, kind in kinds.items()})
    add = data_file(tmp_path, "a.parquet", rows, version="2.6")
    put_table(tmp_path, [field("at", "timestamp"), field("wall", "timestamp_ntz")], [add], features=["timestampNtz"])
    result = DeltaTable(tmp_path).to_pyarrow_table()
    for name in kinds:
        assert result[name].cast(pa.int64()).to_pylist() == [-1, 1, None]
