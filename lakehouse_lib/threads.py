"""Work in threads, the number of processors for them, and locks that are free after a fork."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

#: The CPU limit of this container (cgroup v2): microseconds of CPU time, or ``max``, in each period of microseconds.
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def processors() -> int:
    """The number of processors that this process may use: those of its affinity, but not more than its CPU limit."""
    available = len(os.sched_getaffinity(0))
    try:
        quota, period = _CPU_LIMIT.read_text().split()
    except (OSError, ValueError):  # not in a cgroup v2 with a limit
        return available
    return available if quota == "max" else max(1, min(available, -(-int(quota) // int(period))))


def map_in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int, *, ahead: int | None = None
) -> Iterator[_Result]:
    """The results of ``work`` on each item, in the order of the items; the first error in that order is raised.

    After an error, or when the caller takes no more results, work that has not started is cancelled.

    Args:
        threads: for 0, or a single item, the work is done in the thread that takes the results.
        ahead: how many items after the next result are taken from ``items`` and started, so that a slow caller does
            not fill the memory; None: all items.
    """
    iterator = iter(items)
    first = list(islice(iterator, 2))
    items = chain(first, iterator)
    if not threads or len(first) < 2:
        yield from map(work, items)
        return
    futures: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, "lakehouse") as pool:
        try:
            for item in items:
                futures.append(pool.submit(work, item))
                if ahead is not None and len(futures) > ahead:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class ProcessLock:
    """A reentrant lock that each process has for itself.

    A child process that was forked while a thread held an ordinary lock would wait for ever, because that thread does
    not exist in the child.
    """

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}
        self._of_thread = threading.local()

    def __enter__(self) -> None:
        lock = self._locks.setdefault(os.getpid(), threading.RLock())
        lock.acquire()
        self._of_thread.__dict__.setdefault("held", []).append(lock)

    def __exit__(self, *error: object) -> None:
        # In a child that was forked inside the block, this is the parent's lock, which the thread holds there, too.
        self._of_thread.held.pop().release()
