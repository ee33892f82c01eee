"""Table properties (``delta.*``) that this library honours, with the defaults delta-spark users expect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakehouse_lib.errors import InvalidArgumentError

_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_PART = re.compile(r"\s*([+-]?\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class TableProperties:
    """``deleted_file_retention``: how long vacuum and checkpoints remember a removed file."""

    checkpoint_interval: int = 10
    deleted_file_retention: timedelta = timedelta(weeks=1)

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> TableProperties:
        """Parse the properties a table has.

        Raises:
            InvalidArgumentError: a value that cannot be read; a guess could lose data.
        """
        default = cls()
        retention = configuration.get("delta.deletedFileRetentionDuration")
        return cls(
            _positive(configuration, "delta.checkpointInterval", default.checkpoint_interval),
            default.deleted_file_retention
            if retention is None
            else parse_interval(retention, "delta.deletedFileRetentionDuration"),
        )


def parse_interval(text: str, name: str) -> timedelta:
    """An SQL interval such as ``interval 1 week`` or ``168 hours``; months and years have no fixed length."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total, position = timedelta(0), 0
    while position < len(rest) and (match := _PART.match(rest, position)):
        total += int(match[1]) * _UNITS[match[2].lower()]
        position = match.end()
    if position == 0 or rest[position:].strip() or total < timedelta(0):
        raise InvalidArgumentError(
            f"{name} = {text!r} is no interval", hint="Write it like 'interval 7 days' or 'interval 168 hours'"
        )
    return total


def _positive(configuration: Mapping[str, str], name: str, default: int) -> int:
    text = configuration.get(name)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) < 1:
        raise InvalidArgumentError(f"{name} = {text!r} is no positive whole number", hint="Set it to 1 or more")
    return int(text)
