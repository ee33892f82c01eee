"""Table properties (``delta.*``) that this library honours, with the defaults delta-spark users expect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt

ISOLATION_LEVEL = "delta.isolationLevel"
#: Who sets a property of a table that is there: no verb of this library does.
SET_BY = "delta-spark's ALTER TABLE ... SET TBLPROPERTIES, or deltalake's alter.set_table_properties"

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


class IsolationLevel(StrEnum):
    """Which concurrent commits a transaction has to fear, from the strictest level to the least (delta-spark's).

    SERIALIZABLE: the log's order is a serial one, for writes and reads.
    WRITE_SERIALIZABLE: some serial order of the writes exists; a blind append may stand in the log before a commit that
        would have had to see its rows.
    SNAPSHOT_ISOLATION: what others add does not count; for commits that change no row, never for a whole table.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


@dataclass(frozen=True)
class TableProperties:
    """The properties a table has, each parsed when it is asked for: what cannot be read stops only what needs it.

    Every one raises InvalidArgumentError for a value that cannot be read; a guess could lose data.
    """

    _configuration: Mapping[str, str]
    _table: str | None

    @classmethod
    def of(cls, configuration: Mapping[str, str], table: str | None = None) -> TableProperties:
        """Those of a metaData action; ``table`` is named in errors."""
        return cls(configuration, table)

    @property
    def checkpoint_interval(self) -> int:
        """Commits from one checkpoint to the next; default 10."""
        return _positive(self._configuration, "delta.checkpointInterval", 10, self._table)

    @property
    def deleted_file_retention(self) -> timedelta:
        """How long vacuum and checkpoints remember a removed file; default a week."""
        name = "delta.deletedFileRetentionDuration"
        return parse_interval(self._configuration.get(name, "interval 1 week"), name, self._table)

    @property
    def isolation_level(self) -> IsolationLevel:
        """Of commits that change rows; default Serializable."""
        return _isolation_level(self._configuration.get(ISOLATION_LEVEL), self._table)

    def check(self) -> None:
        """Parse all of them."""
        _ = self.checkpoint_interval, self.deleted_file_retention, self.isolation_level


@dataclass(frozen=True)
class LogRetention:
    """How long versions stay in the log: ``duration``, or for ever while ``cleanup`` is off."""

    duration: timedelta = timedelta(days=30)
    cleanup: bool = True

    @classmethod
    def of(cls, configuration: Mapping[str, str], table: str | None = None) -> LogRetention:
        """Parse the properties a table has; InvalidArgumentError as above."""
        duration = configuration.get("delta.logRetentionDuration")
        return cls(
            cls.duration if duration is None else parse_interval(duration, "delta.logRetentionDuration", table),
            configuration.get("delta.enableExpiredLogCleanup", "true").strip().lower() == "true",
        )


def parse_interval(text: str, name: str, table: str | None = None) -> timedelta:
    """An SQL interval such as ``interval 1 week`` or ``168 hours``; months and years have no fixed length."""
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total, position = timedelta(0), 0
    while position < len(rest) and (match := _PART.match(rest, position)):
        try:
            total += int(match[1]) * _UNITS[match[2].lower()]
        except (OverflowError, ValueError) as error:  # ValueError: of thousands of digits
            raise InvalidArgumentError(
                f"{name} = {excerpt(text)} is longer than any calendar",
                table=table,
                hint="'interval 1000000 days' is for ever",
                code="DELTA_INVALID_TABLE_PROPERTY",
            ) from error
        position = match.end()
    if position == 0 or rest[position:].strip() or total < timedelta(0):
        raise InvalidArgumentError(
            f"{name} = {excerpt(text)} is no interval",
            table=table,
            hint=_set_to("a text like 'interval 7 days' or 'interval 168 hours'"),
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    return total


def _positive(configuration: Mapping[str, str], name: str, default: int, table: str | None) -> int:
    text = configuration.get(name)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) < 1:
        raise InvalidArgumentError(
            f"{name} = {excerpt(text)} is no positive whole number",
            table=table,
            hint=_set_to("1 or more"),
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    return int(text)


def _isolation_level(text: str | None, table: str | None) -> IsolationLevel:
    if text is None:
        return IsolationLevel.SERIALIZABLE
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        if text.strip().lower() == level.lower():
            return level
    raise InvalidArgumentError(
        f"{ISOLATION_LEVEL} = {excerpt(text)} is no isolation level of a table",
        table=table,
        hint=_set_to("Serializable or WriteSerializable"),
        code="DELTA_INVALID_TABLE_PROPERTY",
    )


def _set_to(what: str) -> str:
    return f"Set it to {what}: of a table that is there, by {SET_BY}"
