"""Shares have every item once, about equal bytes, and the largest share first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.engine.balanced_shares import balanced_shares


@given(st.lists(st.integers(0, 1 << 40), max_size=60), st.integers(1, 9))
def test_shares_are_balanced(sizes: list[int], count: int) -> None:
    shares = balanced_shares(sizes, count)
    assert sorted(item for share in shares for item in share) == list(range(len(sizes)))
    assert len(shares) == min(count, len(sizes))
    assert all(shares)
    loads = [sum(sizes[item] for item in share) for share in shares]
    assert loads == sorted(loads, reverse=True)
    # No division has a largest share below the mean or the largest item. The LPT rule is within 4/3 of the best one,
    # and the last item of a share was added when the share had at most the mean of the other items.
    last = min((sizes[item] for item in shares[0]), default=0) if shares else 0
    assert not shares or len(shares[0]) == 1 or loads[0] <= (sum(sizes) - last) / len(shares) + last


def test_items_without_bytes_are_divided_too() -> None:
    assert [len(share) for share in balanced_shares([0] * 6, 3)] == [2, 2, 2]
