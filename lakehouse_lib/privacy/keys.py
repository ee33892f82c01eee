"""The typed keys of a person's rows: compared as sets, stored as JSON, rendered as SQL."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_lib.privacy import sql
from lakehouse_lib.schema import Field, PrimitiveType

# A condition names a run of at least this many lines by its first and last line.
_LONG_RUN = 20
_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")


@dataclass(frozen=True)
class ColumnKeys:
    """Keys of one column: a row is the person's if the column has one of these values.

    Attributes:
        column: the column's name.
        type: the column's type, as the protocol names it.
        values: the keys, ascending; empty: no row is the person's.
    """

    column: str
    type: str
    values: tuple[int | str, ...]

    @classmethod
    def of(cls, field: Field, values: Iterable[int | str]) -> ColumnKeys:
        """The keys of a column; a value that its type cannot hold is dropped, because no row can have it.

        Raises:
            TypeError: the column's type is not a string, a whole number or a decimal.
        """
        typed: list[Any] = sorted(sql.of_type(values, field.type))
        return cls(field.name, str(field.type), tuple(typed))

    def sql(self) -> str:
        """SQL that is true for exactly the rows with one of these values."""
        return sql.is_one_of(self.column, PrimitiveType(self.type), self.values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"column": self.column, "type": self.type, "values": list(self.values)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> ColumnKeys:
        """The inverse of ``to_dict``."""
        return cls(body["column"], body["type"], tuple(body["values"]))


@dataclass(frozen=True)
class RecordLines:
    """Records of a quarantine that come from some lines of one file.

    Attributes:
        source, file: the values of the quarantine's columns ``_source`` and ``_file``.
        runs: the first and the last line of each run of lines, ascending, without overlap.
    """

    source: str
    file: str
    runs: tuple[tuple[int, int], ...]

    def sql(self) -> str:
        """SQL that is true for exactly these records."""
        conditions = [sql.is_one_of("_source", _STRING, [self.source]), sql.is_one_of("_file", _STRING, [self.file])]
        return f"({' AND '.join([*conditions, self._on_lines()])})"

    def _on_lines(self) -> str:
        long_runs = [run for run in self.runs if run[1] - run[0] + 1 >= _LONG_RUN]
        lines = [line for run in self.runs if run not in long_runs for line in range(run[0], run[1] + 1)]
        conditions = [f"`_line` BETWEEN {first} AND {last}" for first, last in long_runs]
        if lines:
            conditions.append(sql.is_one_of("_line", _LONG, lines))
        return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"

    @property
    def count(self) -> int:
        """The number of lines."""
        return sum(last - first + 1 for first, last in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"source": self.source, "file": self.file, "runs": [list(run) for run in self.runs]}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> RecordLines:
        """The inverse of ``to_dict``."""
        return cls(body["source"], body["file"], tuple((first, last) for first, last in body["runs"]))


@dataclass(frozen=True)
class PersonKeys:
    """All keys of a person's rows in one table.

    Attributes:
        columns: keys by column; a row with a key in any of these columns is the person's.
        records: records of a quarantine that have no readable key and that are treated as the person's rows.
    """

    columns: tuple[ColumnKeys, ...]
    records: tuple[RecordLines, ...] = ()

    def sql(self) -> str:
        """SQL that is true for exactly the person's rows; ``FALSE`` without keys."""
        return any_of([*(part.sql() for part in self.columns), *(part.sql() for part in self.records)])

    @property
    def is_empty(self) -> bool:
        """Whether there are neither keys nor records."""
        return not self.records and not any(part.values for part in self.columns)

    def covers(self, other: PersonKeys) -> bool:
        """Whether these keys include every key of ``other``."""
        own = _values(self.columns)
        if not all(values <= own[column] for column, values in _values(other.columns).items()):
            return False
        runs = _merged(self.records)
        return all(_lies_in(run, runs[part.source, part.file]) for part in other.records for run in part.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "columns": [part.to_dict() for part in self.columns],
            "records": [part.to_dict() for part in self.records],
        }

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> PersonKeys:
        """The inverse of ``to_dict``."""
        return cls(
            tuple(ColumnKeys.from_dict(part) for part in body["columns"]),
            tuple(RecordLines.from_dict(part) for part in body["records"]),
        )


def any_of(conditions: Sequence[str]) -> str:
    """A condition that is true if one of ``conditions`` is true; ``FALSE`` without conditions."""
    if len(conditions) < 2:
        return conditions[0] if conditions else sql.NOTHING
    return " OR ".join(f"({condition})" for condition in conditions)


def _values(columns: Iterable[ColumnKeys]) -> defaultdict[str, set[int | str]]:
    values: defaultdict[str, set[int | str]] = defaultdict(set)
    for keys in columns:
        values[keys.column.lower()].update(keys.values)
    return values


def _merged(records: Iterable[RecordLines]) -> defaultdict[tuple[str, str], list[tuple[int, int]]]:
    """Runs by source and file, ascending, without overlap."""
    merged: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for source, file, (first, last) in sorted((part.source, part.file, run) for part in records for run in part.runs):
        runs = merged[source, file]
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        else:
            runs.append((first, last))
    return merged


def _lies_in(run: tuple[int, int], runs: Sequence[tuple[int, int]]) -> bool:
    place = bisect_right(runs, run[0], key=lambda pair: pair[0]) - 1
    return place >= 0 and run[1] <= runs[place][1]
