"""Print the progress of the demo, a line for each step."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.markup import escape

_MARKS = {"done": "[green]✓[/]", "failed": "[red]✗[/]", "refused": "[yellow]![/]", "note": "[cyan]·[/]"}


@dataclass
class Progress:
    """Prints acts and steps as they happen, with colours on a terminal.

    Attributes:
        steps: title and seconds of each finished act, in order.
    """

    stream: TextIO = sys.stdout
    steps: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A pipe has no width; with a fixed width, lines in a log file are not wrapped.
        width = None if self.stream.isatty() else 140
        self.console = Console(file=self.stream, highlight=False, width=width, soft_wrap=True)
        self._began = time.monotonic()
        self._act: tuple[str, float] | None = None

    def act(self, title: str) -> None:
        """Begin the next act, and record the seconds of the one before."""
        self.end()
        self._act = (title, time.monotonic())
        self.console.print(f"\n[bold]{escape(title)}[/]")

    def end(self) -> None:
        if self._act is not None:
            title, began = self._act
            self.steps.append((title, time.monotonic() - began))
            self._act = None

    def line(self, kind: str, text: str, seconds: float | None = None) -> None:
        """Print a line; `kind` is done, failed, refused or note."""
        clock = f"{time.monotonic() - self._began:6.1f}s"
        took = f" [dim]({seconds:.1f} s)[/]" if seconds is not None else ""
        self.console.print(f"[dim]{clock}[/] {_MARKS[kind]} {escape(text)}{took}")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began
