"""Measure the peak memory of processes, and report when it exceeds a limit."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from pathlib import Path

import psutil


class Peak:
    """The peak of the values of ``now`` while the block runs, in megabytes, by polling.

    Args:
        now: returns the resident bytes at this moment.
        limit: if ``now`` returns more bytes, ``exceed`` is called.
    """

    def __init__(
        self, now: Callable[[], int], *, limit: float = math.inf, exceed: Callable[[], None] = lambda: None
    ) -> None:
        self.megabytes = 0.0
        self.is_exceeded = False
        self._now, self._limit, self._exceed = now, limit, exceed
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
            resident = self._now()
            self.megabytes = max(self.megabytes, resident / 1e6)
            if resident > self._limit and not self.is_exceeded:
                self.is_exceeded = True
                self._exceed()


def family(root: int | None = None) -> int:
    """The resident bytes of a process and its descendants; 0 after its end.

    Args:
        root: the process id; None: this process.
    """
    try:
        process = psutil.Process(root)
        members = (process, *process.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0
    return sum(_resident(member) for member in members)


def high_water(process: int) -> float:
    """The largest resident memory that a process has had since its start, in megabytes; 0 after its end."""
    try:
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return 0.0 if peak is None else int(peak[1]) * 1024 / 1e6


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
