"""Tables and lines on a terminal. Values of a table's log are printed without control characters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: The width of output that is not on a terminal.
_WIDTH = 1_000
#: The number of items of a list that are printed. ``--json`` prints all items.
_MOST_ITEMS = 10


class Terminal:
    """Prints results for people."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
        self._console = Console(markup=False, emoji=False, highlight=False, width=width)

    def line(self, text: str = "") -> None:
        """Print a line. A long line is not wrapped."""
        self._console.print(printable(text), soft_wrap=True)

    def lines(self, items: Sequence[str]) -> None:
        """Print the first items of a list, and how many more there are."""
        for item in items[:_MOST_ITEMS]:
            self.line(f"  {item}")
        if len(items) > _MOST_ITEMS:
            self.line(f"  and {len(items) - _MOST_ITEMS:,} more; --json lists more")

    def rows(self, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table. Numbers are aligned to the right."""
        values = [list(row) for row in rows]
        cells = [[cell_text(value) for value in row] for row in values]
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        for number, title in enumerate(titles):
            is_number = bool(values) and all(isinstance(row[number], int | float | None) for row in values)
            # A narrow terminal wraps titles and texts, but no number and no word of a title.
            words = title.split() + ([row[number] for row in cells] if is_number else [])
            justify: Literal["right", "left"] = "right" if is_number else "left"
            table.add_column(title, justify=justify, overflow="fold", min_width=max(map(len, words)))
        for row in cells:
            table.add_row(*row)
        self._print(table)

    def pairs(self, values: Mapping[str, Any]) -> None:
        """Print a table of names and values."""
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in values.items():
            table.add_row(printable(name), cell_text(value))
        self._print(table)

    def _print(self, table: Table) -> None:
        """Print a table without spaces at the ends of lines."""
        with self._console.capture() as capture:
            self._console.print(table)
        for line in capture.get().splitlines():
            sys.stdout.write(f"{line.rstrip()}\n")


class Size(int):
    """A number of bytes, printed with a unit."""


def cell_text(value: Any) -> str:
    """The text of a value in a table: a dash for nothing, groups of digits, units of sizes."""
    if value is None or value == "":
        return "-"
    if isinstance(value, Size):
        return size_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(printable(str(item)) for item in value) or "-"
    if isinstance(value, Mapping):
        return "\n".join(f"{printable(str(name))}={printable(str(item))}" for name, item in value.items()) or "-"
    return printable(str(value))


def size_text(size: int) -> str:
    """A number of bytes with a unit, such as ``1.5 MiB``."""
    power = min(max(abs(size).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{size / 1024**power:,.{1 if power else 0}f} {_UNITS[power]}"


def time_text(milliseconds: int | None) -> str | None:
    """A time of the log, ms since the epoch, to the second in UTC."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return str(milliseconds)


def printable(text: str) -> str:
    """Text with escapes instead of control characters, which the terminal would execute. Line ends are kept."""
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )
