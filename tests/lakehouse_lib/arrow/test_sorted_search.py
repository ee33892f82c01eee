"""Binary search in a sorted column, with and without pyarrow's own search, compared with Python's bisect."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.arrow.sorted_search import count_below

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(st.characters(max_codepoint=127), max_size=3),
    pa.decimal128(20, 2): st.decimals(-1000, 1000, places=2),
    pa.date32(): st.dates(),
}


@pytest.fixture(params=["pyarrow's", "ours"])
def search(request: pytest.FixtureRequest) -> Iterator[None]:
    """pyarrow's own search (from pyarrow 26 on) and the library's search."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ours":
            patch.delattr(pc, "search_sorted", raising=False)
        yield


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_count_is_where_bisect_inserts(kind: pa.DataType) -> None:
    @given(st.lists(KINDS[kind], max_size=20), st.lists(st.none() | KINDS[kind], max_size=20))
    def check(values: list[Any], needles: list[Any]) -> None:
        values.sort()
        for or_equal, bisect in ((False, bisect_left), (True, bisect_right)):
            counts = count_below(pa.array(values, kind), pa.array(needles, kind), or_equal=or_equal).tolist()
            pairs = [(count, needle) for count, needle in zip(counts, needles, strict=True) if needle is not None]
            assert [count for count, _ in pairs] == [bisect(values, needle) for _, needle in pairs]

    check()
