import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.operations.optimize.z_order.keys import has_order, keys, vocabulary

VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(18, 0): st.decimals(-(10**18) + 1, 10**18 - 1, places=0),
    pa.decimal128(38, 4): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda digits: Decimal(f"{digits}E-4")),
    pa.decimal128(38, 0): st.integers(-(2**70), 2**70).map(Decimal),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    pa.large_string(): st.text("ab", max_size=3),
}


def rank(value):
    """The order of Spark's sort: nulls lowest, NaN highest, strings by their bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data(), skipped=st.integers(0, 3))
def test_keys_are_in_the_order_of_the_values(kind, data, skipped):
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=40))
    array = pa.array(values, kind)
    words = vocabulary(array, 5) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
    whole = keys(pa.chunked_array([array.slice(0, 7), array.slice(7)]), words)
    assert np.array_equal(whole[skipped:], keys(array.slice(skipped), words))
    for value, key in zip(values, whole.tolist(), strict=True):
        for other_value, other_key in zip(values, whole.tolist(), strict=True):
            if rank(value) < rank(other_value):
                assert key <= other_key
            elif rank(value) == rank(other_value):
                assert key == other_key


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [None, float("-inf"), -1.5, -0.0, 1e-300, 2.0, float("inf"), float("nan")]),
        (pa.decimal128(38, 2), [None, Decimal("-5.01"), Decimal("-5"), Decimal(0), Decimal("0.01"), Decimal(10**30)]),
        (pa.decimal128(10, 2), [None, Decimal("-5.01"), Decimal("-5"), Decimal(0), Decimal("0.01")]),
        (pa.bool_(), [None, False, True]),
        (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
        (pa.timestamp("us"), [None, datetime(1, 1, 1), datetime(2020, 1, 1), datetime(9999, 12, 31)]),
    ],
    ids=str,
)
def test_different_values_have_different_keys(kind, values):
    results = keys(pa.array(values, kind))
    assert (results[1:] > results[:-1]).all()


def test_both_zeros_are_one_value():
    assert len(set(keys(pa.array([0.0, -0.0])).tolist())) == 1


@pytest.mark.parametrize(("kind", "quiet"), [(np.float32, 0x7FC00000), (np.float64, 0x7FF8000000000000)])
def test_every_nan_has_one_key(kind, quiet):
    whole = np.dtype(f"u{np.dtype(kind).itemsize}")
    signalling = quiet - (quiet & -quiet) + 1  # the bit that makes it quiet is removed
    sign = 1 << (8 * whole.itemsize - 1)
    nans = np.array([quiet, signalling, quiet | sign, signalling | sign], whole).view(kind)
    results = keys(pa.array([float("inf")], pa.from_numpy_dtype(kind)))
    assert np.isnan(nans).all()
    assert len(set(keys(pa.array(nans)).tolist())) == 1
    assert keys(pa.array(nans))[0] > results[0]


def test_a_vocabulary_is_bounded_distinct_and_ordered():
    words = vocabulary(pa.array(["b", None, "a", "b", "c", "é", ""] * 50), 4)
    assert len(words) <= 4
    assert words.to_pylist() == sorted(set(words.to_pylist()), key=str.encode)
    assert vocabulary(pa.array([None, None], pa.string()), 4).to_pylist() == []


def test_text_without_words_has_one_key():
    assert set(keys(pa.array(["a", "b"]), pa.array([], pa.string())).tolist()) == {0}
    assert keys(pa.array(["a", None]), pa.array([], pa.string()))[1] < 0


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.list_(pa.int8()), pa.map_(pa.string(), pa.string()), pa.struct([("a", pa.int8())]), pa.null()],
    ids=str,
)
def test_types_without_an_order_are_recognized(kind):
    assert not has_order(kind)
    assert all(has_order(data_type) for data_type in VALUES)


def test_a_worker_does_not_import_pandas():
    program = """
import sys
import numpy, pyarrow as pa
from lakehouse_lib.arrow.repeated_text import with_dictionaries, without_dictionaries
from lakehouse_lib.arrow.streams import rows_of, stream_of
from lakehouse_lib.operations.optimize.z_order import keys, layout, shuffle
data = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(numpy.arange(3))])
rows = pa.Table.from_arrays([data, data.cast(pa.string())], names=["n", "s"])
groups = list(shuffle._row_groups(rows, ["n", "s"]))
words = keys.vocabulary(rows["s"].combine_chunks(), 10)
keys.keys(rows["s"], words), keys.keys(rows["n"])
without_dictionaries(rows_of(stream_of(with_dictionaries(rows))))
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
