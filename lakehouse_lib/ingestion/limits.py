"""Find values, at any depth, that have their column's type, but that no table or partition folder name can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.nested import entries
from lakehouse_lib.arrow.values import flags_of, numbers_of
from lakehouse_lib.ingestion.sources.casts import cast_or_find, mask
from lakehouse_lib.protocol.partition_values import ESCAPED_BYTES, overlong_folders, to_strings
from lakehouse_lib.schema import PrimitiveType, Schema
from lakehouse_lib.store import PathLimits

# The first and the last day that Spark's dates and times can have (years 1 to 9999), in days since 1970, and the
# microseconds of a day.
_DAYS = (-719_162, 2_932_896)
_DAY = 86_400_000_000

#: Reasons of rejected rows.
BEYOND_YEARS = "a year outside 1 to 9999"
MUST_NOT_BE_NULL = "null in a column that must not be null"

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def beyond_years(column: Any) -> Mask:
    """A mask of the dates, or timestamps in microseconds, outside the years 1 to 9999 (UTC); False for other types."""
    first, last = _DAYS
    if pa.types.is_timestamp(column.type):
        first, last = first * _DAY, (last + 1) * _DAY - 1
        numbers = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        numbers = column.cast(pa.int32())
    else:
        return np.zeros(len(column), bool)
    extremes = pc.min_max(numbers)
    lowest, highest = extremes["min"].as_py(), extremes["max"].as_py()
    if lowest is None or (lowest >= first and highest <= last):
        return np.zeros(len(column), bool)
    return mask(pc.or_(pc.less(numbers, first), pc.greater(numbers, last)))


def nested_faults(values: Any, field: pa.Field) -> Iterator[tuple[str, str, Mask]]:
    """The faults inside the values of a nested column, as (dotted path, reason, mask of the faulty rows).

    Args:
        values: an array of the field's type. Members that must not be null in the field may be null in it.
    """
    for path, reason, rows in _faults_inside(values, field.type, np.arange(len(values)), field.name):
        faulty = np.zeros(len(values), bool)
        faulty[rows] = True
        yield path, reason, faulty


def _faults_inside(
    values: Any, kind: pa.DataType, rows: NDArray[np.int64], path: str
) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """As ``nested_faults``, but with the numbers of the faulty rows instead of a mask.

    Args:
        rows: the number of the row that each value is in.
    """
    if values.null_count:
        rows = rows[flags_of(values.is_valid())]
        values = values.drop_null()
    if pa.types.is_struct(kind):
        parts = [(member.name, values.field(place), member) for place, member in enumerate(kind)]
    else:
        lists = entries(values) if pa.types.is_map(kind) else values
        rows, items = np.repeat(rows, numbers_of(pc.list_value_length(lists), np.int32)), lists.flatten()
        if pa.types.is_map(kind):
            parts = [("key", items.field(0), kind.key_field), ("value", items.field(1), kind.item_field)]
        else:
            parts = [("element", items, kind.value_field)]
    for name, part, member in parts:
        place = f"{path}.{name}"
        if not member.nullable and part.null_count:
            yield place, MUST_NOT_BE_NULL, rows[flags_of(part.is_null())]
        if pa.types.is_nested(member.type):
            yield from _faults_inside(part, member.type, rows, place)
            continue
        far = beyond_years(part)
        if far.any():
            yield place, BEYOND_YEARS, rows[far]


def partition_faults(
    columns: Sequence[Any], schema: pa.Schema, partition_columns: Sequence[str], limits: PathLimits
) -> Iterator[tuple[str, str, Mask]]:
    """The values that the name of a partition's folder cannot hold, as (column, reason, mask) for each kind of fault.

    Args:
        columns: typed arrays, in the order of ``schema``; dates and times within the years 1 to 9999.
        partition_columns: the partition columns of the table, or of the table to be created.
        limits: the path limits of the table's store.
    """
    kinds = Schema.from_arrow(schema)
    texts = {}
    for name in partition_columns:
        field, column = schema.field(name), columns[schema.get_field_index(name)]
        kind = kinds.field(name).type
        if kind == PrimitiveType("binary"):
            column, not_text = cast_or_find(column, pa.string())
            kind = PrimitiveType("string")
            yield name, "not valid utf-8 text, and a partition value", not_text
            is_escaped = mask(pc.match_substring_regex(column, ESCAPED_BYTES))
            yield name, "text that readers take for escapes of other bytes, and a partition value", is_escaped
        if kind == PrimitiveType("string"):
            yield name, "holds NUL, and is a partition value", mask(pc.match_substring(column, "\0"))
            if not field.nullable:
                is_empty = mask(pc.equal(pc.binary_length(column), 0))
                yield name, "empty, which a partition column stores as null, and must not be null", is_empty
        texts[name] = to_strings(column, kind)
    for name, reason, wrong in overlong_folders(texts, limits):
        yield name, reason, mask(wrong)
