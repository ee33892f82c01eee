"""A progress bar on standard error, if standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

    from lakehouse_lib.progress import OnProgress
    from lakehouse_lib.progress import Progress as VerbProgress


class Progress:
    """The interface of a progress bar. This class shows nothing."""

    def expect(self, total: int) -> None:
        """Set the amount of the work."""

    def advance(self, name: str, amount: int = 1) -> None:
        """Record that a part of the work is done; ``name`` is the last item of this part."""

    def observer(self, name: str) -> OnProgress | None:  # noqa: ARG002
        """An observer that shows the progress of a verb in a second row until the verb ends; None: nothing is shown.

        Args:
            name: the table, or the verb and the table.
        """
        return None


class _Bar(Progress):
    """A row for the whole work, and below it a row for the verb that runs."""

    def __init__(self, bar: rich.progress.Progress, what: str, *, in_bytes: bool) -> None:
        self._bar = bar
        self._what = what
        self._in_bytes = in_bytes
        self._done = 0
        self._total: int | None = None
        self._task = bar.add_task(self._text(), total=None)
        self._verb: rich.progress.TaskID | None = None

    def expect(self, total: int) -> None:
        self._total = total
        self._bar.update(self._task, total=total, description=self._text())

    def advance(self, name: str, amount: int = 1) -> None:
        from lakehouse_lib.cli.terminal import printable

        self._remove_verb()
        self._done += amount
        text = f"{self._text()}, last: {printable(name)}"
        self._bar.update(self._task, completed=self._done, description=text)

    def observer(self, name: str) -> OnProgress | None:
        from lakehouse_lib.cli.terminal import printable

        self._remove_verb()
        label = printable(name)
        verb = self._verb = self._bar.add_task(label, total=None)

        def show(progress: VerbProgress) -> None:
            done, total = progress.done, progress.total
            if progress.bytes_total:
                done, total = progress.bytes_done, progress.bytes_total
            self._bar.update(verb, completed=done, total=total, description=f"{label}: {progress.amounts}")

        return show

    def _text(self) -> str:
        from lakehouse_lib.cli.terminal import size_text

        amounts = [amount for amount in (self._done, self._total) if amount is not None]
        return (
            " of ".join(size_text(amount) if self._in_bytes else f"{amount:,}" for amount in amounts) + f" {self._what}"
        )

    def _remove_verb(self) -> None:
        if self._verb is not None:
            self._bar.remove_task(self._verb)
            self._verb = None


@contextmanager
def progress(what: str, *, in_bytes: bool = False) -> Iterator[Progress]:
    """Show the progress, the time and the remaining time of a block.

    Args:
        what: the name of the items, such as ``tables``.
        in_bytes: whether the amount is a number of bytes.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    import rich.progress as columns
    from rich.console import Console

    with columns.Progress(
        columns.BarColumn(),
        columns.TextColumn("{task.description}", markup=False),
        columns.TimeElapsedColumn(),
        columns.TimeRemainingColumn(),
        console=Console(stderr=True, markup=False, emoji=False),
        transient=True,
    ) as bar:
        yield _Bar(bar, what, in_bytes=in_bytes)
