"""One line a step, as it happens."""

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
    """Prints the story while it runs; colours only on a terminal.

    Attributes:
        steps: the length of each finished act in seconds, in order.
    """

    stream: TextIO = sys.stdout
    steps: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Piped output has no width of its own; a fixed one keeps lines whole in a log file.
        width = None if self.stream.isatty() else 140
        self.console = Console(file=self.stream, highlight=False, width=width, soft_wrap=True)
        self._began = time.monotonic()
        self._act: tuple[str, float] | None = None

    def act(self, title: str) -> None:
        """Begins the next act of the demo and notes how long the one before it took."""
        self.end()
        self._act = (title, time.monotonic())
        self.console.print(f"\n[bold]{escape(title)}[/]")

    def end(self) -> None:
        if self._act is not None:
            title, began = self._act
            self.steps.append((title, time.monotonic() - began))
            self._act = None

    def line(self, kind: str, text: str, seconds: float | None = None) -> None:
        """`kind` is one of done, failed, refused, note."""
        clock = f"{time.monotonic() - self._began:6.1f}s"
        took = f" [dim]({seconds:.1f} s)[/]" if seconds is not None else ""
        self.console.print(f"[dim]{clock}[/] {_MARKS[kind]} {escape(text)}{took}")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began
