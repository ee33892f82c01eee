"""The progress of the tasks that read the files of a batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.progress import Counter


class ReadProgress:
    """Counts the files, bytes and rows that tasks have read. A file that is read twice is counted once.

    In this process, tasks report each read and each block. Tasks on a cluster are counted when they end.

    Args:
        shares: for each task, its files, and the part of the only file that it reads; None: it reads whole files.
    """

    def __init__(self, counter: Counter, shares: Sequence[tuple[Sequence[Fingerprint], FilePart | None]]) -> None:
        self._counter = counter
        self._lock = threading.Lock()
        self._shares = dict(enumerate(shares))
        self._bytes_left: dict[str, int] = {}
        self._tasks_left: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        for files, _ in shares:
            for file in files:
                self._bytes_left[file.name] = file.size
                self._tasks_left[file.name] = self._tasks_left.get(file.name, 0) + 1

    def read(self, name: str, size: int) -> None:
        """Count bytes of a file."""
        with self._lock:
            size = min(size, self._bytes_left[name])
            if size:
                self._bytes_left[name] -= size
                self._counter.add(0, size)

    def end_file(self, name: str) -> None:
        """Count a file that a task has read to its end, or refused."""
        with self._lock:
            if not self._tasks_left[name]:
                return
            self._tasks_left[name] -= 1
            if not self._tasks_left[name]:
                self._counter.add(1, self._bytes_left[name])
                self._bytes_left[name] = 0

    def set_rows(self, task: str, rows: int) -> None:
        """Set the number of rows that a task has read. A smaller number, of a task that starts again, has no effect."""
        with self._lock:
            more = rows - self._rows.get(task, 0)
            if more > 0:
                self._rows[task] = rows
                self._counter.add_rows(more)

    def end_task(self, number: int) -> None:
        """Count the bytes and files of a task on a cluster; a repeated task ends twice, and is counted once."""
        with self._lock:
            files, part = self._shares.pop(number, ((), None))
        for file in files:
            self.read(file.name, file.size if part is None else part.end - part.begin)
            self.end_file(file.name)
