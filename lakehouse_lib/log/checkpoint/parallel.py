"""Work in threads, in order and in bounded memory. Arrow releases the GIL while it reads or writes Parquet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from lakehouse_lib import threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Each thread holds a row group of a checkpoint in memory.
_MOST_THREADS = min(threads.processors(), 8)
#: For fewer items a thread costs more than it saves.
_INLINE = 3


def map_in_order(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The results of ``work`` on each item, in the order of the items, computed in threads.

    The number of results that wait for the caller is at most the number of threads, and an item is taken only when a
    thread needs it. So a slow caller does not fill the memory.
    """
    count = min(_MOST_THREADS, len(items) if isinstance(items, Sized) else _MOST_THREADS)
    # For one item no thread is started: starting it takes longer than reading the checkpoint of a small table.
    return threads.map_in_threads(work, items, count if count > 1 else 0, ahead=count)


def read_ahead(items: Iterator[_Item], count: int) -> Iterator[_Item]:
    """The items, while a thread computes the next ``count`` of them."""
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
