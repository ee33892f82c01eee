"""Measure the peak memory of processes by polling."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psutil


class Peak:
    """The peak of the values of ``now`` while the block runs, in megabytes.

    Args:
        now: returns the resident bytes at this moment.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.megabytes = 0.0
        self._now = now
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.megabytes = max(self.megabytes, self._now() / 1e6)


def family() -> int:
    """The resident bytes of this process and its descendants."""
    process = psutil.Process()
    return sum(_resident(member) for member in (process, *process.children(recursive=True)))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
