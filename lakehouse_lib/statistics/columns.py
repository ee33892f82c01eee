"""Which columns get statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.schema import DataType, StructType, TableLayout

#: A column's names from the top: ("a",) or, inside structs, ("a", "b").
ColumnPath = tuple[str, ...]

DEFAULT_INDEXED_COLUMNS = 32

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,]+?))\s*(\.|,|$)")


@dataclass(frozen=True)
class StatisticsColumns:
    """The leaf columns that statistics are kept of; arrays and maps count as one leaf and get none themselves."""

    paths: frozenset[ColumnPath]

    def __contains__(self, path: object) -> bool:
        return path in self.paths


def leaves(schema: StructType, above: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataType]]:
    """Every leaf column in order: structs are entered, arrays and maps are leaves."""
    for field in schema.fields:
        path = (*above, field.name)
        if isinstance(field.type, StructType):
            yield from leaves(field.type, path)
        else:
            yield path, field.type


def indexed_columns(layout: TableLayout, configuration: Mapping[str, str]) -> StatisticsColumns:
    """The leaf columns that the table's properties ask statistics for; never partition columns.

    ``delta.dataSkippingStatsColumns`` names them (a struct means all of its leaves; names that are no columns are
    passed over); without it the first ``delta.dataSkippingNumIndexedCols`` leaves count, 32 unless set, -1 for all.

    Raises:
        InvalidArgumentError: the number is none.
    """
    paths = [path for path, _ in leaves(layout.schema) if not layout.is_partition_column(path[0])]
    named = configuration.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = [tuple(part.lower() for part in one) for one in _parse_names(named)]
        chosen = [path for path in paths if any(_starts_with(path, one) for one in wanted)]
        return StatisticsColumns(frozenset(chosen))
    text = configuration.get("delta.dataSkippingNumIndexedCols", str(DEFAULT_INDEXED_COLUMNS))
    try:
        count = int(text)
    except ValueError:
        count = -2
    if count < -1:
        raise InvalidArgumentError(
            f"delta.dataSkippingNumIndexedCols is {text!r}",
            hint="Set it to a number of columns, or to -1 for all.",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    return StatisticsColumns(frozenset(paths if count == -1 else paths[:count]))


def _starts_with(path: ColumnPath, wanted: ColumnPath) -> bool:
    return tuple(part.lower() for part in path[: len(wanted)]) == wanted


def _parse_names(text: str) -> Iterator[ColumnPath]:
    # a, b.c, `d,e`.f
    at, parts = 0, []
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise InvalidArgumentError(
                f"delta.dataSkippingStatsColumns is {text!r}",
                hint="Set it to column names with commas between them, in backticks where a name needs it.",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        if match[3] != ".":
            yield tuple(parts)
            parts = []
        at = match.end()
