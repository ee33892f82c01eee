"""Work in threads, in order and in bounded memory: while Arrow reads or writes Parquet, other threads run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Each holds a block of a checkpoint in memory.
_MOST_THREADS = 8
#: Before that many a thread is not worth its start.
_INLINE = 3


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """``work`` on each item, in the order of the items.

    No more results wait to be taken than there are threads, and items are asked for as late, so that a slow taker does
    not fill the memory.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    if isinstance(items, Sized):
        threads = min(threads, len(items))
    items = chain(first, rest)
    if threads < 2 or len(first) < 2:  # a thread costs more than a small table's whole checkpoint
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Result]] = deque()
        for item in items:
            if len(waiting) == threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()


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
