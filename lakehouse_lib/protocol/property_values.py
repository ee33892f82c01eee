"""Parsers of table property values. A parser returns the value of a text, or raises ValueError if it is not valid."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_INTERVAL = re.compile(r"\s*(?:interval\b)?", re.IGNORECASE | re.ASCII)
_PART = re.compile(
    r"\s*([+-]?\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?(?:\s+|\Z)", re.IGNORECASE | re.ASCII
)
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE | re.ASCII)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,]+?))\s*(\.|,|$)")


def boolean(text: str) -> bool:
    """The value of ``true`` or ``false``, in upper or lower case."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def choice(*names: str) -> Callable[[str], str]:
    """A parser for exactly one of these names."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser for whole numbers from ``least`` to ``most``."""

    def parse(text: str) -> int:
        if not _NUMBER.fullmatch(text.strip()):
            raise ValueError(text)
        number = int(text)  # ValueError for thousands of digits
        if number < least or (most is not None and number > most):
            raise ValueError(text)
        return number

    return parse


def interval(text: str) -> timedelta:
    """An SQL interval such as ``interval 1 week`` or ``168 hours``, not negative. Months and years are not valid,
    because their length varies."""
    parts = _INTERVAL.sub("", text, count=1)
    total, position = timedelta(0), 0
    while position < len(parts) and (match := _PART.match(parts, position)):
        try:
            total += int(match[1]) * _UNITS[match[2].lower()]
        except OverflowError as error:
            raise ValueError(text) from error
        position = match.end()
    if position == 0 or parts[position:] or total < timedelta(0):
        raise ValueError(text)
    return total


def size(text: str) -> int:
    """A size of at least 1 byte: ``104857600``, ``100mb`` or ``1 g``; units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) < 1:
        raise ValueError(text)
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]


def column_names(text: str) -> tuple[tuple[str, ...], ...]:
    """The columns in a text such as ``a, b.c, `d,e`.f``, each as the names on its path: ``("a",), ("b", "c"), ...``."""
    columns: list[tuple[str, ...]] = []
    position, parts = 0, []
    while position < len(text):
        match = _NAME.match(text, position)
        if match is None:
            raise ValueError(text)
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        if match[3] != ".":
            columns.append(tuple(parts))
            parts = []
        position = match.end()
    if parts:  # a dot at the end
        raise ValueError(text)
    return tuple(columns)
