"""Conditions on a place inside a column, such as the members of the structs in a list, in SQL and on Arrow arrays.

A path below a column has the names of members of structs, ``element`` of lists, and ``key`` and ``value`` of maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.nested import entries
from lakehouse_lib.arrow.values import flags_of, literal, numbers_of
from lakehouse_lib.errors import ConstraintViolatedError
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.schema.types import ArrayType, DataType, MapType, StructType


@dataclass(frozen=True)
class PlaceRule:
    """The base class of row rules about a place in a column.

    Attributes:
        column: the top-level column's name.
        kind: the column's type.
        path: the path below the column; empty: the column itself.
    """

    column: str
    kind: DataType
    path: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The dotted path, from the column on."""
        return ".".join((self.column, *self.path))

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


def parts_of(kind: DataType) -> list[tuple[str, DataType, bool]]:
    """The parts directly inside a type: name, type, and whether they may be null.

    Map keys count as nullable, because no engine has null map keys.
    """
    if isinstance(kind, StructType):
        return [(field.name, field.type, field.nullable) for field in kind.fields]
    if isinstance(kind, ArrayType):
        return [("element", kind.element_type, kind.contains_null)]
    if isinstance(kind, MapType):
        return [("key", kind.key_type, True), ("value", kind.value_type, kind.value_contains_null)]
    return []


def condition_at(column: str, kind: DataType, path: tuple[str, ...], test: Callable[[str], str]) -> str:
    """A SQL condition on a row: all values at a place in a column pass a test. Null parents have no such value.

    Args:
        column, kind: the column's name and type.
        test: returns the condition for the SQL expression of a value at the place. The condition must never be NULL.
    """
    return _condition(quoted(column), kind, path, test, 0)


def rows_at(
    values: pa.Array, path: tuple[str, ...], test: Callable[[pa.Array], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """A mask of the rows that have a value at a place for which ``test`` is true. Null parents have no such value.

    Args:
        values: the column, one entry for each row.
        test: returns a mask of the values at the place, nulls included.
    """
    if not path:
        return test(values)
    if pa.types.is_struct(values.type):
        mask = rows_at(values.field(path[0]), path[1:], test)
        return mask & flags_of(values.is_valid()) if mask.any() else mask
    lists = entries(values) if pa.types.is_map(values.type) else values
    items = lists.flatten()
    if pa.types.is_map(values.type):
        items = items.field(0 if path[0] == "key" else 1)
    mask = np.zeros(len(values), bool)
    rows = np.repeat(np.arange(len(values)), _lengths(lists))
    mask[rows[rows_at(items, path[1:], test)]] = True
    return mask


def _condition(value: str, kind: DataType, path: tuple[str, ...], test: Callable[[str], str], depth: int) -> str:
    if not path:
        return test(value)
    if isinstance(kind, StructType):
        member = f"{value}.{quoted(path[0])}"
        return f"({value} IS NULL OR {_condition(member, kind.field(path[0]).type, path[1:], test, depth)})"
    if isinstance(kind, ArrayType):
        items, inner = value, kind.element_type
    else:
        assert isinstance(kind, MapType)
        is_key = path[0] == "key"
        items = f"{'MAP_KEYS' if is_key else 'MAP_VALUES'}({value})"
        inner = kind.key_type if is_key else kind.value_type
    item = f"item{depth}"
    return f"({value} IS NULL OR FORALL({items}, {item} -> {_condition(item, inner, path[1:], test, depth + 1)}))"


def _lengths(lists: pa.Array) -> NDArray[np.int32]:
    """The number of elements of each list; 0 for null."""
    return numbers_of(pc.fill_null(pc.list_value_length(lists), literal(0, pa.int32())), np.int32)
