"""Format sizes, numbers, times and sentences for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from lakehouse_lib.cli.terminal import size_text

#: The text for a value that is not known.
NOTHING = "–"
_BYTES = re.compile(r"\b(\d{4,}) bytes\b")
_AGES = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def count_text(number: int | None) -> str:
    """A whole number with groups of digits."""
    return NOTHING if number is None else f"{number:,}"


def counted_text(number: int, noun: str) -> str:
    """A number with a noun, such as ``1 file`` or ``2,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(size: int | None) -> str:
    """A number of bytes with a unit, such as ``1.5 MiB``."""
    return NOTHING if size is None else size_text(size)


def share_text(share: float | None) -> str:
    """A share as a percentage."""
    return NOTHING if share is None else f"{share:.0%}"


def decimal_text(number: float | None) -> str:
    """A number with one decimal."""
    return NOTHING if number is None else f"{number:,.1f}"


def duration_text(seconds: float | None) -> str:
    """A duration, such as ``350 ms``, ``12.0 s`` or ``1 h 5 min``."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:,.0f} ms"
    if seconds < 60:
        return f"{seconds:,.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def time_text(milliseconds: int | None) -> str:
    """A time (ms since the epoch) in UTC, to the minute."""
    moment = _moment(milliseconds)
    return NOTHING if moment is None else moment.strftime("%Y-%m-%d %H:%M UTC")


def iso_text(milliseconds: int | None) -> str:
    """A time in the form of the attribute ``datetime`` of HTML; empty if it is not known."""
    moment = _moment(milliseconds)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def age_text(milliseconds: int | None, now: int) -> str:
    """The distance of a time from now, such as ``3 hours ago`` or ``in 2 days``.

    Args:
        milliseconds, now: ms since the epoch.
    """
    if _moment(milliseconds) is None or milliseconds is None:
        return NOTHING
    seconds = (now - milliseconds) / 1000
    for length, unit in _AGES:
        number = int(abs(seconds) // length)
        if number:
            text = counted_text(number, unit)
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now" if seconds >= 0 else "in a minute"


def sentence_text(sentence: str) -> str:
    """The sentence of a reason, with units: ``2097152 bytes`` becomes ``2.0 MiB``."""
    return _BYTES.sub(lambda match: size_text(int(match[1])), sentence)


def name_text(name: str) -> str:
    """The name of a verb or a reason as words: ``small_files`` becomes ``small files``."""
    return name.replace("_", " ")


def _moment(milliseconds: Any) -> datetime | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int):
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return None
