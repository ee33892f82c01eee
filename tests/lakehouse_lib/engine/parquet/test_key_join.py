"""The join by keys: it finds every pair of equal keys, and hardly any other."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.engine.parquet.merge.key_join import KeyJoin, common_type

LETTERS = st.text("ab", max_size=20)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)])),
    "byte": (pa.int8(), st.integers(-3, 3)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, 2.0])),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan, 2.0])),
    "decimal": (
        pa.decimal128(38, 2),
        st.sampled_from([Decimal("1.50"), Decimal("-1.50"), Decimal(2), Decimal(10) ** 35]),
    ),
    "string": (pa.string(), LETTERS | LETTERS.map(lambda text: text * 5) | st.sampled_from(["", "\0", "\0\0", "ä"])),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "date": (pa.date32(), st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2))),
    "timestamp": (pa.timestamp("us", tz="UTC"), st.sampled_from([dt.datetime(1900, 1, 1), dt.datetime(2026, 1, 1)])),
    "boolean": (pa.bool_(), st.booleans()),
}


def key_of(values: tuple[Any, ...]) -> Any:
    """A key that is equal for equal values as in SQL; None if a value is null."""
    if None in values:
        return None
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)


def chunked(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    """The values in three chunks, which begin inside their buffers."""
    array = pa.array([values[0], *values] if values else [], kind)[1:]
    third = len(array) // 3
    return pa.chunked_array([array[:third], array[third : 2 * third], array[2 * third :]], kind)


@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
def test_every_pair_of_equal_keys_is_found(data: Any, names: list[str]) -> None:
    rows = st.lists(st.tuples(*(st.none() | KINDS[name][1] for name in names)), max_size=30)
    source, batch = data.draw(rows), data.draw(rows)
    kinds = [KINDS[name][0] for name in names]
    columns = [
        [chunked([row[place] for row in side], kind) for place, kind in enumerate(kinds)] for side in (source, batch)
    ]
    join = pickle.loads(pickle.dumps(KeyJoin(columns[0], [common_type(kind, kind) for kind in kinds])))
    joined_pairs = [
        pair for left, right in join.pairs(columns[1], 7) for pair in zip(left.tolist(), right.tolist(), strict=True)
    ]
    expected = [
        (row, other)
        for row, key in enumerate(map(key_of, batch))
        for other, partner in enumerate(map(key_of, source))
        if key is not None and key == partner
    ]
    assert sorted(joined_pairs) == expected


def test_a_text_does_not_cancel_the_number_before_it() -> None:
    source, batch = (
        [pa.chunked_array([pa.array([number], pa.int8())]), pa.chunked_array([pa.array([text])])]
        for number, text in ((0, ""), (1, "\0"))
    )
    assert list(KeyJoin(source, [pa.int64(), pa.string()]).pairs(batch, 7)) == []


@pytest.mark.parametrize("length", [3, 8, 13, 100])
def test_keys_that_differ_in_one_byte_do_not_match(length: int) -> None:
    texts = np.full((256 * length, length), ord("x"), np.uint8)
    for place in range(length):
        texts[256 * place : 256 * (place + 1), place] = np.arange(256)
    distinct_texts = sorted({row.tobytes() for row in texts})
    keys = [pa.chunked_array([pa.array(distinct_texts, pa.binary())])]
    pairs = list(KeyJoin(keys, [pa.binary()]).pairs(keys, 1 << 20))
    assert sum(len(left) for left, _ in pairs) == len(distinct_texts)


def test_pairs_are_bounded() -> None:
    keys = [pa.chunked_array([pa.array([1] * 100)])]
    sizes = [len(left) for left, _ in KeyJoin(keys, [pa.int64()]).pairs(keys, 999)]
    assert max(sizes) == 999
    assert sum(sizes) == 10_000
