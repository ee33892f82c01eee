"""Work in threads, in order and in bounded memory: while Arrow reads or writes Parquet, other threads run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from lakehouse_lib import threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Each holds a block of a checkpoint in memory.
_MOST_THREADS = 8
#: Before that many a thread is not worth its start.
_INLINE = 3


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """``work`` on each item, in the order of the items.

    While a result is taken every thread has work. No more results than threads wait to be taken, and items are asked
    for as late, so that a slow taker does not fill the memory.
    """
    count = min(os.cpu_count() or 1, _MOST_THREADS, len(items) if isinstance(items, Sized) else _MOST_THREADS)
    # A thread costs more than a small table's whole checkpoint.
    return threads.in_order(work, items, count if count > 1 else 0, ahead=count)


def ahead(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """The items, of which the next ``count`` are made in a thread meanwhile."""
    first = list(islice(items, _INLINE))
    yield from first
    if len(first) < _INLINE:
        return
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, end) for _ in range(count))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, items, end))
            yield item
