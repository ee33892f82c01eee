"""NOT NULL: the row rule for columns, members, elements and map values that the schema declares as not nullable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.nested import entries
from lakehouse_lib.arrow.values import flags_of, literal, numbers_of
from lakehouse_lib.errors import ConstraintViolatedError
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.schema.table_layout import TableLayout
from lakehouse_lib.schema.types import ArrayType, DataType, MapType, StructType


@dataclass(frozen=True)
class NotNull:
    """A rule that a place in a column is not null; places inside a null value are ignored.

    Attributes:
        column: the top-level column's name.
        kind: its type.
        path: the path below the column: names of members, ``element`` of lists, ``key`` and ``value`` of maps.
        refuses_empty: whether empty text counts as null, because partition values in the log do not distinguish them.
    """

    column: str
    kind: DataType
    path: tuple[str, ...] = ()
    refuses_empty: bool = False

    @property
    def name(self) -> str:
        """``NOT NULL`` and the dotted path."""
        place = ".".join((self.column, *self.path))
        return (
            f"NOT NULL {place} (empty text in a partition column is null)"
            if self.refuses_empty
            else f"NOT NULL {place}"
        )

    @property
    def code(self) -> str:
        """The code of the error."""
        return ConstraintViolatedError.code

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def needs_spark(self) -> bool:
        """False: Arrow can evaluate the rule."""
        return False

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL."""
        value = quoted(self.column)
        if self.refuses_empty:
            return f"OCTET_LENGTH({value}) > 0"
        return _condition(value, self.kind, self.path, 0)

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows have a null at this place."""
        values = rows.column(self.column)
        if self.refuses_empty:
            is_empty: NDArray[np.bool_] = _lengths(values) == 0
            return is_empty
        return _has_null(values, self.path)


def not_null_rules(layout: TableLayout) -> list[NotNull]:
    """A rule for each place of a table that the schema declares as not nullable, in the schema's order."""
    rules = []
    for field in layout.schema.fields:
        if not field.nullable:
            empty = field.name in layout.text_partition_columns
            rules.append(NotNull(field.name, field.type, refuses_empty=empty))
        rules += [NotNull(field.name, field.type, path) for path in _required_paths(field.type)]
    return rules


def _required_paths(kind: DataType) -> Iterator[tuple[str, ...]]:
    """The paths below a value of a type where null is not allowed, without map keys: no engine has null map keys."""
    for name, inner, nullable in _places(kind):
        if not nullable:
            yield (name,)
        for path in _required_paths(inner):
            yield (name, *path)


def _places(kind: DataType) -> list[tuple[str, DataType, bool]]:
    """The parts directly inside a type: name, type, and whether they may be null."""
    if isinstance(kind, StructType):
        return [(field.name, field.type, field.nullable) for field in kind.fields]
    if isinstance(kind, ArrayType):
        return [("element", kind.element_type, kind.contains_null)]
    if isinstance(kind, MapType):
        return [("key", kind.key_type, True), ("value", kind.value_type, kind.value_contains_null)]
    return []


def _condition(value: str, kind: DataType, path: tuple[str, ...], depth: int) -> str:
    """An SQL condition that is true if ``value`` has no null at the path, and never NULL."""
    if not path:
        return f"{value} IS NOT NULL"
    if isinstance(kind, StructType):
        member = f"{value}.{quoted(path[0])}"
        return f"({value} IS NULL OR {_condition(member, kind.field(path[0]).type, path[1:], depth)})"
    if isinstance(kind, ArrayType):
        items, inner = value, kind.element_type
    else:
        assert isinstance(kind, MapType)
        is_key = path[0] == "key"
        items = f"{'MAP_KEYS' if is_key else 'MAP_VALUES'}({value})"
        inner = kind.key_type if is_key else kind.value_type
    item = f"item{depth}"
    return f"({value} IS NULL OR FORALL({items}, {item} -> {_condition(item, inner, path[1:], depth + 1)}))"


def _has_null(values: pa.Array, path: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which values have a null at the path; with a path, a value that is null itself does not count."""
    if not path:
        return ~_is_valid(values) if values.null_count else np.zeros(len(values), bool)
    if pa.types.is_struct(values.type):
        nulls = _has_null(values.field(path[0]), path[1:])
        return nulls & _is_valid(values) if nulls.any() else nulls
    lists = entries(values) if pa.types.is_map(values.type) else values
    items = lists.flatten()
    if pa.types.is_map(values.type):
        items = items.field(0 if path[0] == "key" else 1)
    nulls = np.zeros(len(values), bool)
    places = np.repeat(np.arange(len(values)), _lengths(lists))
    nulls[places[_has_null(items, path[1:])]] = True
    return nulls


def _is_valid(values: pa.Array) -> NDArray[np.bool_]:
    return flags_of(values.is_valid())


def _lengths(values: pa.Array) -> NDArray[np.int32]:
    """The bytes of each text or binary, or the elements of each list; 0 for null."""
    is_list = pa.types.is_list(values.type)
    lengths = pc.list_value_length(values) if is_list else pc.binary_length(values)
    return numbers_of(pc.fill_null(lengths, literal(0, pa.int32())), np.int32)
