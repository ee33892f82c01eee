"""Nested values in every form of Arrow stay the same, whatever is stored under their nulls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.schema import ArrayType, Field, Schema, StructType, align
from tests.peers import read_delta_rs
from tests.table_builder import longs

_TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()]
_LEAVES = st.sampled_from([pa.int8(), pa.uint16(), pa.null(), *_TEXTS])
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(pa.list_view),
        inner.map(pa.large_list_view),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.tuples(inner, inner).map(lambda kinds: pa.struct([("x", kinds[0]), ("y", kinds[1])])),
    ),
    max_leaves=4,
)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    types = pa.types
    strategy: st.SearchStrategy[Any]
    if types.is_struct(kind):
        strategy = st.fixed_dictionaries({member.name: _values(member.type) for member in kind})
    elif types.is_map(kind):
        strategy = st.lists(st.tuples(st.text(max_size=2), _values(kind.item_type)), max_size=2)
    elif types.is_fixed_size_list(kind):
        strategy = st.lists(_values(kind.value_type), min_size=2, max_size=2)
    elif types.is_nested(kind):
        strategy = st.lists(_values(kind.value_type), max_size=2)
    elif types.is_integer(kind):
        strategy = st.integers(0, 100)
    elif types.is_null(kind):
        strategy = st.none()
    else:
        texts = st.sampled_from(["", "a", "a text longer than a view's twelve bytes"])
        strategy = texts.map(str.encode) if kind == pa.binary_view() else texts
    return st.none() | strategy


def _hidden(array: pa.Array, keep: Sequence[bool]) -> pa.Array:
    """The rows with nulls, under which the members' values stay in memory."""
    kind, validity = array.type, pa.array(keep)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(array.flatten(), fields=list(kind), mask=_not(validity))
    if pa.types.is_map(kind):
        members = [pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])]
    elif pa.types.is_nested(kind):
        members = [array.values]
    else:
        return array
    return pa.Array.from_buffers(kind, len(array), [validity.buffers()[1], *_own_buffers(array)], children=members)


def _not(mask: pa.Array) -> pa.Array:
    return pa.array([not flag for flag in mask.to_pylist()])


def _own_buffers(array: pa.Array) -> list[pa.Buffer | None]:
    count = {"fixed_size_list": 0, "list_view": 2, "large_list_view": 2}
    return array.buffers()[1 : 1 + next((n for name, n in count.items() if str(array.type).startswith(name)), 1)]


@given(st.data())
def test_align_keeps_nested_values(data: st.DataObject) -> None:
    kind = data.draw(_TYPES)
    rows = data.draw(st.integers(1, 6))
    array = pa.array([data.draw(_values(kind)) for _ in range(rows)], kind)
    if not array.null_count:
        array = _hidden(array, [data.draw(st.booleans()) for _ in range(rows)])
    array.validate(full=True)
    array = array.slice(data.draw(st.integers(0, rows)), data.draw(st.integers(0, rows)))
    aligned = align(pa.table({"x": array}), Schema.from_arrow(pa.schema([("x", kind)])))
    aligned.validate(full=True)
    assert aligned["x"].to_pylist() == array.to_pylist()


def test_values_under_a_null_do_not_move_to_other_rows() -> None:
    lists = pa.array([[1], [2], [3]])
    hidden = pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array([False, True, False]))
    schema = Schema([Field("x", ArrayType("long"))])
    assert align(pa.table({"x": hidden}), schema)["x"].to_pylist() == [[1], None, [3]]
    embeddings = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert align(pa.table({"x": embeddings}), schema)["x"].to_pylist() == [[1, 2], None, [3, 4]]


def test_a_null_under_a_null_does_not_violate_not_null() -> None:
    lists = pa.array([[1], [None], [3]])
    hidden = pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array([False, True, False]))
    schema = Schema([Field("x", ArrayType("long", contains_null=False))])
    assert align(pa.table({"x": hidden}), schema)["x"].to_pylist() == [[1], None, [3]]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("x", [{"a": "s"}, None]),
        pl.Series("x", [[{"a": "s"}, None], None]),
        pl.Series("x", [{"a": b"s"}, None]),
        pl.Series("x", ["s", None], dtype=pl.Categorical),
        pl.Series("x", ["s", None], dtype=pl.Enum(["s"])),
    ],
    ids=["struct", "list of structs", "bytes", "categorical", "enum"],
)
def test_texts_of_polars_are_views(column: pl.Series) -> None:
    frame = pa.table(column.to_frame())
    aligned = align(frame, Schema.from_arrow(frame.schema))
    aligned.validate(full=True)
    assert aligned["x"].to_pylist() == column.to_list()


def test_a_member_that_may_not_be_null_in_a_null_struct_of_views() -> None:
    frame = pa.table({"x": pa.array([{"a": "s"}, None], pa.struct([("a", pa.string_view())]))})
    schema = Schema([Field("x", StructType([Field("a", "string", nullable=False)]))])
    assert align(frame, schema)["x"].to_pylist() == [{"a": "s"}, None]


_MEMBERS = {
    "number": (pa.int32(), 7),
    "flag": (pa.bool_(), True),
    "text": (pa.string(), "a"),
    "bytes": (pa.binary(), b"a"),
    "amount": (pa.decimal128(10, 2), Decimal("1.50")),
    "day": (pa.date32(), date(2024, 1, 1)),
    "moment": (pa.timestamp("us"), datetime(2024, 1, 1)),
    "list": (pa.list_(pa.int64()), [1, None]),
    "map": (pa.map_(pa.string(), pa.float64()), [("k", 1.0)]),
    "struct": (pa.struct([pa.field("x", pa.int64(), nullable=False)]), {"x": 1}),
}


def test_a_struct_is_null_whose_members_may_not_be(tmp_path: Path) -> None:
    strict = pa.struct([pa.field(name, kind, nullable=False) for name, (kind, _) in _MEMBERS.items()])
    loose = pa.struct([(name, kind) for name, (kind, _) in _MEMBERS.items()])
    row = {name: value for name, (_, value) in _MEMBERS.items()}
    values = [{"s": row if number % 3 else None} for number in range(9)]
    DeltaTable.create(tmp_path, pa.schema([("id", pa.int64()), ("s", strict)]))
    for kind in (strict, loose):
        data = pa.Table.from_pylist(values, pa.schema([("s", kind)]))
        data = data.append_column("id", pa.array(range(9), pa.int64())).slice(2)
        write_deltalake(tmp_path, data, mode="append")
    write_deltalake(tmp_path, longs(id=[9]), mode="append")
    write_deltalake(tmp_path, pa.table({"id": pa.array([10], pa.int64()), "s": pa.nulls(1)}), mode="append")
    expected = [*(value["s"] for value in values[2:] for _ in range(2)), None, None]
    for read in (DeltaTable(tmp_path).to_pyarrow_table(), read_delta_rs(tmp_path)):
        assert read.sort_by("id")["s"].to_pylist() == expected
