"""The progress of a verb, for an observer: a function that the caller of a verb passes as ``on_progress``.

A verb without an observer counts nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

#: The smallest number of seconds between two lines of a log.
LOG_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """The progress of a verb.

    Attributes:
        items: a noun for the items that are counted, such as ``tasks`` or ``files to delete``.
        done: the number of items that are done.
        total: the number of all items; None: it is not known yet.
        bytes_done, bytes_total: the bytes of these items; ``bytes_total`` is None if ``total`` is None.
        seconds: the time since the verb began to count.
        rows: the number of rows that a load has read; None: rows are not counted.
    """

    items: str
    done: int
    total: int | None
    bytes_done: int
    bytes_total: int | None
    seconds: float
    rows: int | None = None

    @property
    def seconds_left(self) -> float | None:
        """The seconds until all items are done, at the speed so far; None: unknown."""
        done, total = (self.bytes_done, self.bytes_total) if self.bytes_total else (self.done, self.total)
        if total is None or not done:
            return None
        return max(0.0, self.seconds * (total - done) / done)

    @property
    def amounts(self) -> str:
        """The amounts as text for people, such as ``3 of 9 tasks, 30 of 90 MiB``."""
        parts = [_of(f"{self.done:,}", None if self.total is None else f"{self.total:,}") + f" {self.items}"]
        if self.bytes_done or self.bytes_total:
            done, total = self.bytes_done >> 20, None if self.bytes_total is None else f"{self.bytes_total >> 20:,}"
            parts.append(_of(f"{done:,}", total) + " MiB")
        if self.rows is not None:
            parts.append(f"{self.rows:,} rows")
            if self.bytes_done and self.seconds:
                parts.append(f"{self.bytes_done / self.seconds / (1 << 20):,.1f} MiB/s")
        return ", ".join(parts)


#: An observer of a verb. It is called from any thread, one call at a time, and should return at once.
OnProgress: TypeAlias = Callable[[Progress], object]


class Counter:
    """Counts the items that a verb has done, and calls the observer after each change.

    Args:
        sizes: the bytes of each item; None: the number of items is not known before all are done.
    """

    def __init__(self, items: str, on_progress: OnProgress, sizes: NDArray[np.int64] | None = None) -> None:
        self._items = items
        self._on_progress: OnProgress | None = on_progress
        self._sizes = sizes
        self._total = None if sizes is None else len(sizes)
        self._bytes_total = None if sizes is None else int(sizes.sum())
        self._done = 0
        self._bytes_done = 0
        self._rows: int | None = None
        self._done_numbers: set[int] = set()
        self._lock = threading.Lock()
        self._started = time.monotonic()
        if sizes is not None:
            self._notify()

    def end(self, number: int) -> None:
        """Count the item with this number as done. A second call, such as by a repeated task, has no effect."""
        assert self._sizes is not None
        with self._lock:
            if number not in self._done_numbers:
                self._done_numbers.add(number)
                self._add(1, int(self._sizes[number]))

    def add(self, count: int, size: int = 0) -> None:
        """Count this number of further items as done."""
        with self._lock:
            self._add(count, size)

    def add_rows(self, count: int) -> None:
        """Count this number of further rows as read."""
        with self._lock:
            self._rows = (self._rows or 0) + count
            self._notify()

    def finish(self) -> None:
        """Count all items as done, including those that were not reported."""
        with self._lock:
            if self._total is None:
                self._total, self._bytes_total = self._done, self._bytes_done
            if self._bytes_total is not None:
                self._add(self._total - self._done, self._bytes_total - self._bytes_done)

    def _add(self, count: int, size: int) -> None:
        self._done += count
        self._bytes_done += size
        self._notify()

    def _notify(self) -> None:
        if self._on_progress is None:
            return
        seconds = time.monotonic() - self._started
        progress = Progress(
            self._items, self._done, self._total, self._bytes_done, self._bytes_total, seconds, self._rows
        )
        try:
            self._on_progress(progress)
        except Exception:  # the verb continues without the observer
            logger.warning("the observer of the progress has failed, and is not called again", exc_info=True)
            self._on_progress = None


def log_observer(what: str, seconds: float = LOG_SECONDS) -> OnProgress:
    """An observer that writes a line to the log, at most once in this number of seconds.

    Args:
        what: the subject of the line, such as ``compact of lake/orders``.
    """
    last = time.monotonic()

    def log(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            left = progress.seconds_left
            time_left = "" if left is None else f", {left:,.0f} s left"
            logger.info("%s: %s%s", what, progress.amounts, time_left)

    return log


def _of(done: str, total: str | None) -> str:
    return done if total is None else f"{done} of {total}"
