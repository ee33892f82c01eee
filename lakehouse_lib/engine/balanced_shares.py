"""Division of work into shares of about equal bytes, for tasks that run at the same time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def balanced_shares(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The items of each share, as indexes into ``sizes``; the largest share first.

    The largest item goes to the share with the fewest bytes, then the next item. This is the LPT rule (longest
    processing time first): the largest share is at most a third larger than in the best division
    (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).

    Args:
        sizes: the bytes of each item.
        count: the number of shares, at least 1. With fewer items, each item is a share.
    """
    shares: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    # Of shares with equal bytes, the one with the fewest items is next, so that items without bytes are divided too.
    loads = [(0, 0, number) for number in range(len(shares))]
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        size, items, number = heapq.heappop(loads)
        shares[number].append(item)
        heapq.heappush(loads, (size + sizes[item], items + 1, number))
    return [shares[number] for _, _, number in sorted(loads, key=lambda load: (-load[0], load[2]))]
