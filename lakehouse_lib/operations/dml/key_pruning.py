"""The files of a table that may hold a key of a merge's source."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.sorted_search import count_below
from lakehouse_lib.arrow.values import bools, literal
from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import TableLayout
from lakehouse_lib.statistics import bounds_of


def files_with_keys(
    files: pa.Table, layout: TableLayout, keys: Iterable[tuple[str, str]], source: pa.Table
) -> pa.Table:
    """The files (a files table) that may hold a row with a key of the source; no data file is read.

    A file is left out if, for a pair of key columns, no value of the source is between the file's min and max of the
    target's column. For a partition column, a file is left out if no value of the source equals the file's partition
    value. The source's values are sorted once, so that many keys and many files are compared fast. A key column is
    ignored if its type differs from the target's, or is not an integer, text, date, timestamp or floating-point number.

    Args:
        keys: pairs of a column of the target and a column of the source, which must be equal in matching rows.
    """
    for target_name, source_name in keys:
        field = layout.schema.field(target_name)
        values = _sorted_values(source[source_name], field.type.to_arrow())
        if values is None:
            continue
        if field.name in layout.partition_keys:
            file_values = partition_column(files, layout.partition_keys[field.name], field.type)
            files = files.filter(pc.is_in(_with_one_zero(file_values), value_set=_with_one_zero(values)))
            continue
        path = (layout.physical_name(field),)
        bounds = bounds_of(files, {path: field.type})[path]
        files = files.filter(_may_hold(values, bounds.min, bounds.max))
    return files


def _with_one_zero(values: pa.Array) -> pa.Array:
    """The values with 0.0 in place of -0.0, which equals it, but not for ``is_in``."""
    return pc.add(values, literal(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _may_hold(values: pa.Array, low: pa.Array, high: pa.Array) -> pa.Array:
    """For each range, whether it holds one of the sorted values; true for an unknown range."""
    is_unknown = pc.or_(pc.is_null(low), pc.is_null(high))
    if not len(values):
        return is_unknown
    first = count_below(values, pc.fill_null(low, values[0]))
    after = count_below(values, pc.fill_null(high, values[0]), or_equal=True)
    return pc.or_(is_unknown, bools(first < after))


def _sorted_values(keys: pa.ChunkedArray, kind: pa.DataType) -> pa.Array | None:
    """The distinct keys as values of the target's type, sorted; None if they cannot be compared in this type."""
    if pa.types.is_integer(keys.type) and pa.types.is_integer(kind):
        try:
            keys = keys.cast(kind)
        except pa.ArrowInvalid:  # a key that the column cannot hold
            return None
    is_ordered = (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_floating(kind)
    )
    if keys.type != kind or not is_ordered:
        return None
    values = pc.unique(keys).drop_null()
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
        return None
    return values.take(pc.array_sort_indices(values))
