"""Statistics of a data file from its Parquet footer.

NaN is the greatest number in SQL, but the min and max in a Parquet footer ignore it. Only some writers leave out the
bounds of a column with NaN. So a floating-point max is written only if it is certain: see ``floats``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.schema import PrimitiveType, Schema
from lakehouse_lib.statistics.column_range import FLOATING, STRING_PREFIX, ColumnRange, of_floats, stats_text
from lakehouse_lib.statistics.columns import ColumnPath, StatisticsColumns, leaves
from lakehouse_lib.statistics.floats import FloatRange, ParquetPath

#: The logical types in Parquet of dates and times, by the type of the column.
_TIMES = {"date": ("Date",), "timestamp": ("Timestamp",), "timestamp_ntz": ("Timestamp",)}
# 38 digits are more than the default context has.
_WIDE = Context(prec=60)
_TICKS = {"milliseconds": 1_000, "microseconds": 1, "nanoseconds": 0}


def from_footer(
    meta: pq.FileMetaData,
    schema: Schema,
    *,
    indexed: StatisticsColumns,
    bounded: StatisticsColumns | None = None,
    absent_are_null: bool = False,
    floats: Mapping[ParquetPath, FloatRange] | None = None,
    group: int | None = None,
    string_prefix: int = STRING_PREFIX,
) -> str:
    """The ``stats`` of a data file: JSON with numRecords, minValues, maxValues and nullCount.

    Args:
        meta: the file's footer.
        schema: the table's schema. A column is matched by its exact name, else by the only name that differs in case.
        indexed: the columns that have statistics.
        bounded: the columns of ``indexed`` that may have bounds; None: all of them.
        absent_are_null: whether a column that the file does not have counts as null in every row, because readers
            match columns by name; False: the column has no statistics.
        floats: ``float_ranges`` of all rows written; they replace the footer for these columns. None: unknown; then a
            floating-point column has a max only if parquet-mr wrote the file, because parquet-mr writes no bounds for
            a column with NaN.
        group: the row group to describe; None: the whole file.
        string_prefix: the number of characters to which strings are cut; a max may take twice as many to stay above
            every value.

    A bound that is not known (too long for the footer, infinite, a year after 9999) is left out. Booleans and binary
    columns have a nullCount only, arrays and maps have no statistics.
    """
    stored = meta.schema.to_arrow_schema()
    spellings = _spellings(stored)
    columns = [(path, kind) for path, kind in leaves(schema) if isinstance(kind, PrimitiveType) and path in indexed]
    column_by_stored = {_stored_path(path, spellings): (path, kind) for path, kind in columns}
    groups = [meta.row_group(number) for number in (range(meta.num_row_groups) if group is None else (group,))]
    trusts_max = str(meta.created_by or "").startswith("parquet-mr")
    ranges: dict[ColumnPath, tuple[PrimitiveType, ColumnRange]] = {}
    for index, parquet_path in enumerate(_leaf_paths(stored)):
        column = column_by_stored.get(parquet_path) if parquet_path else None
        if column is None:
            continue
        path, kind = column
        of_rows = floats.get(parquet_path) if floats is not None and parquet_path is not None else None
        if of_rows is not None:
            values = of_floats(of_rows)
        else:
            values = _range_of(groups, meta.schema.column(index), index, kind)
            values.is_max_certain = trusts_max or kind.type not in FLOATING
        values.is_known &= bounded is None or path in bounded
        ranges[path] = (kind, values)
    rows = sum(row_group.num_rows for row_group in groups)
    if absent_are_null:
        absent = {path: (kind, ColumnRange(nulls=rows)) for path, kind in columns if _is_absent(stored, path)}
        ranges |= absent
    return stats_text(rows, ranges, string_prefix)


def _leaf_paths(schema: pa.Schema) -> Iterator[ColumnPath | None]:
    # A path for each Parquet leaf column in order. None for leaves inside arrays and maps: their counts are of
    # elements, not of rows. The dotted path in the footer cannot distinguish a struct from a name with a dot.
    for field in schema:
        yield from _leaves_below((field.name,), field.type)


def _leaves_below(path: ColumnPath | None, kind: pa.DataType) -> Iterator[ColumnPath | None]:
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _leaves_below(None if path is None else (*path, kind.field(i).name), kind.field(i).type)
    elif pa.types.is_map(kind):
        yield from _leaves_below(None, kind.key_type)
        yield from _leaves_below(None, kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _leaves_below(None, kind.value_type)
    else:
        yield path


def _spellings(fields: Iterable[pa.Field], above: ColumnPath = ()) -> dict[ColumnPath, list[str]]:
    """The names of columns and members, by the path above them and the name in lower case."""
    spellings: dict[ColumnPath, list[str]] = {}
    for field in fields:
        spellings.setdefault((*above, field.name.lower()), []).append(field.name)
        if pa.types.is_struct(field.type):
            spellings |= _spellings(field.type, (*above, field.name))
    return spellings


def _stored_path(path: ColumnPath, spellings: Mapping[ColumnPath, Sequence[str]]) -> ColumnPath | None:
    """The path of a column in a file; None: the file does not have it, or has several such names."""
    stored: ColumnPath = ()
    for name in path:
        names = spellings.get((*stored, name.lower()), ())
        chosen = [spelling for spelling in names if spelling == name] or names
        if len(chosen) != 1:
            return None
        stored = (*stored, chosen[0])
    return stored


def _is_absent(schema: pa.Schema, path: ColumnPath) -> bool:
    """Whether a file does not have a column, or a struct around it; names match regardless of case."""
    fields = list(schema)
    for name in path:
        spelled = {field.name: field for field in fields if field.name.lower() == name.lower()}
        if not spelled:
            return True
        field = spelled.get(name) or spelled.popitem()[1]
        if not pa.types.is_struct(field.type):
            return False
        fields = list(field.type)
    return False


def _range_of(
    groups: Sequence[pq.RowGroupMetaData], column: pq.ColumnSchema, index: int, column_type: PrimitiveType
) -> ColumnRange:
    decode = _decoder(column, column_type)
    total = ColumnRange()
    for group in groups:
        chunk = group.column(index)
        chunk_statistics = chunk.statistics
        nulls = (
            chunk_statistics.null_count if chunk_statistics is not None and chunk_statistics.has_null_count else None
        )
        total.nulls = None if nulls is None or total.nulls is None else total.nulls + nulls
        if nulls is not None and nulls == chunk.num_values:
            continue  # only nulls or no rows, so there are no bounds
        if chunk_statistics is None or not chunk_statistics.has_min_max or decode is None:
            total.is_known = False
            continue
        low, high = decode(chunk_statistics.min_raw), decode(chunk_statistics.max_raw)
        if low is None or high is None or low != low or high != high:
            total.is_known = False
            continue
        total.low = low if total.low is None else min(total.low, low)
        total.high = high if total.high is None else max(total.high, high)
    return total


def _decoder(column: Any, column_type: PrimitiveType) -> Callable[[Any], Any] | None:
    """The conversion of a raw bound to int, float, str or Decimal; timestamps in µs. None: the bound may be wrong.

    A file may be older than the type of its column: a date, for example, is read as a timestamp after type widening.
    """
    logical = json.loads(column.logical_type.to_json())
    kind, physical = logical.get("Type"), column.physical_type
    if column_type.type in _TIMES and kind not in _TIMES[column_type.type]:
        return None
    if kind == "Decimal":
        scale = int(logical["scale"])
        if physical in ("INT32", "INT64"):
            return lambda raw: Decimal(raw).scaleb(-scale, _WIDE)
        return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _WIDE)
    if kind == "Timestamp":
        ticks = _TICKS.get(logical["timeUnit"])
        if ticks is None:
            return None
        if ticks == 0:
            return lambda raw: Fraction(raw, 1000)
        return lambda raw: raw * ticks
    if kind == "String":
        return _utf8
    if kind == "Date" or (kind == "None" and physical in ("INT32", "INT64", "FLOAT", "DOUBLE")):
        return lambda raw: raw
    if kind == "Int" and logical.get("isSigned"):
        return lambda raw: raw
    return None


def _utf8(raw: Any) -> str | None:
    try:
        return raw if isinstance(raw, str) else bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None  # another writer truncated it inside a character
