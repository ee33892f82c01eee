"""Batches keep their rows, in pieces with at most the given bytes of each column, in any encoding."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.errors import SchemaMismatchError
from lakehouse_lib.schema import Schema, align_batches
from lakehouse_lib.schema.rows import batches
from lakehouse_lib.schema.rows.batches import weight

_TEXT = [pa.string(), pa.large_string(), pa.string_view()]
_BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
_VALUES = st.lists(st.none() | st.sampled_from(["", "a", "twelve bytes", "more than twelve bytes"]), max_size=9)


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Array, int]:
    """A column in some encoding, and the bytes of its values."""
    values = draw(_VALUES)
    kind = draw(st.sampled_from(_TEXT + _BYTES))
    plain = pa.array(values, pa.string()).cast(pa.binary() if kind in _BYTES else pa.string()).cast(kind)
    encoding = draw(
        st.sampled_from(["plain", "dictionary", "runs", "list", "large list", "list view", "struct", "map"])
    )
    size = sum(len(value or "") for value in values)
    if encoding == "plain" or not values:
        return plain, size
    if encoding == "dictionary":
        places = draw(st.lists(st.none() | st.integers(0, len(values) - 1), max_size=12))
        used = [values[place] or "" for place in places if place is not None]
        return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), plain), sum(map(len, used))
    if encoding == "runs":
        ends = [3 * (place + 1) for place in range(len(values))]
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), plain), 3 * size
    if encoding == "struct":
        return pa.StructArray.from_arrays([plain], ["x"]), size
    if encoding == "map":
        keys = pa.array(["k"] * len(values))
        return pa.MapArray.from_arrays([0, len(values)], keys, plain), max(size, len(values))
    lists = {
        "list": lambda: pa.ListArray.from_arrays([0, 1, len(values)], plain),
        "large list": lambda: pa.LargeListArray.from_arrays([0, 1, len(values)], plain),
        "list view": lambda: pa.ListViewArray.from_arrays([0, 1], [1, len(values) - 1], plain),
    }
    return lists[encoding](), max(size, len(values))


@given(columns())
def test_a_weight_is_the_size_of_the_plain_values(drawn):
    column, size = drawn
    assert weight(column) == size
    assert weight(column.slice(len(column))) == 0
    assert weight(column.slice(0, 1)) <= size


@given(columns(), st.integers(0, 30))
def test_pieces_are_the_rows_in_order(drawn, most):
    column, _ = drawn
    batch = pa.record_batch({"x": column})
    pieces = list(align_batches([batch], Schema.from_arrow(batch.schema), piece_bytes=most))
    assert [value for piece in pieces for value in piece["x"].to_pylist()] == column.to_pylist()
    assert all(weight(piece["x"]) <= most or len(piece) == 1 for piece in pieces)


_FIXED = pa.array([b"abcd", None, b"efgh", b"ijkl"], pa.binary(4))


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (_FIXED, 16),
        (_FIXED.slice(1, 2), 8),
        (pa.StructArray.from_arrays([_FIXED], ["x"]).slice(1), 12),
        (pa.ListArray.from_arrays([0, 1, 4], _FIXED).slice(1), 12),
        (pa.FixedSizeListArray.from_arrays(_FIXED, 2).slice(1), 8),
        (pa.MapArray.from_arrays([0, 4], pa.array([1, 2, 3, 4]), _FIXED), 16),
        (pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 3, 3], pa.int8()), _FIXED), 16),
        (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5, 6], pa.int32()), _FIXED), 20),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_binaries_of_one_size_have_a_weight(column, size):
    assert weight(column) == size


def test_binaries_of_one_size_are_cut_into_pieces():
    batch = pa.record_batch({"x": pa.array([b"0123456789"] * 100, pa.binary(10))})
    pieces = list(align_batches([batch], Schema.from_arrow(batch.schema), piece_bytes=300))
    assert [len(piece) for piece in pieces] == [25] * 4
    assert [value for piece in pieces for value in piece["x"].to_pylist()] == batch["x"].to_pylist()


def test_a_batch_that_is_small_stays_whole():
    batch = pa.record_batch({"x": ["a"] * 100})
    assert len(list(align_batches([batch], Schema.from_arrow(batch.schema)))) == 1


def test_a_row_that_no_array_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(batches, "_MOST_BYTES", 100)
    batch = pa.record_batch({"id": [1, 2], "x": pa.array(["a", "b" * 101], pa.string_view())})
    with pytest.raises(SchemaMismatchError, match=r"column .x. has 101 bytes or list elements; expected fewer than"):
        list(align_batches([batch], Schema.from_arrow(batch.schema), table="t", piece_bytes=10))
