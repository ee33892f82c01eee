"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress


class Progress:
    """The progress of a command, which is not shown."""

    def expect(self, total: int) -> None:
        """Set the amount of the work."""

    def advance(self, name: str, amount: int = 1) -> None:
        """Record that a part of the work is done; ``name`` is its last item."""


class _Bar(Progress):
    def __init__(self, bar: rich.progress.Progress, what: str, total: int | None) -> None:
        self._bar = bar
        self._what = what
        self._task = bar.add_task(what, total=total)

    def expect(self, total: int) -> None:
        self._bar.update(self._task, total=total)

    def advance(self, name: str, amount: int = 1) -> None:
        from lakehouse_lib.cli.terminal import printable

        self._bar.update(self._task, advance=amount, description=f"{self._what}, last: {printable(name)}")


@contextmanager
def progress(what: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Progress]:
    """Show the progress, the time and the remaining time of a block.

    Args:
        what: what the items are, such as ``tables``.
        total: the amount of the work; None: it is not known yet.
        in_bytes: the amount is a number of bytes.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    import rich.progress as columns
    from rich.console import Console

    with columns.Progress(
        columns.BarColumn(),
        columns.DownloadColumn(binary_units=True) if in_bytes else columns.MofNCompleteColumn(),
        columns.TextColumn("{task.description}", markup=False),
        columns.TimeElapsedColumn(),
        columns.TimeRemainingColumn(),
        console=Console(stderr=True, markup=False, emoji=False),
        transient=True,
    ) as bar:
        yield _Bar(bar, what, total)
