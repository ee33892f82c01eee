"""Statistics of a data file from its Parquet footer.

The bounds hold for every reader: strings are truncated as in the protocol, timestamps are rounded outwards to
milliseconds, decimals are exact JSON numbers, and a bound of 0.0 or -0.0 covers both.

NaN is the greatest number in SQL, but the min and max in a Parquet footer ignore it. Only some writers leave out the
bounds of a column with NaN. So a floating-point max is written only if it is certain: see ``floats``.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.schema import PrimitiveType, Schema
from lakehouse_lib.statistics.columns import ColumnPath, StatisticsColumns, leaves
from lakehouse_lib.statistics.floats import FloatRange, ParquetPath

#: Strings are truncated to this many characters, unless the caller says otherwise.
STRING_PREFIX = 32

_INTEGRAL = ("byte", "short", "integer", "long")
_FLOATING = ("float", "double")
#: The logical types in Parquet of dates and times, by the type of the column.
_TIMES = {"date": ("Date",), "timestamp": ("Timestamp",), "timestamp_ntz": ("Timestamp",)}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic on UTC and on zoneless values alike
# 38 digits are more than the default context has.
_WIDE = Context(prec=60)
_TICKS = {"milliseconds": 1_000, "microseconds": 1, "nanoseconds": 0}


@dataclass
class _Range:
    # Values as in the file, not yet as JSON. `is_known` is False once a row group lacks statistics.
    low: Any = None
    high: Any = None
    is_known: bool = True
    nulls: int | None = 0


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
        schema: the table's; columns are matched regardless of case.
        indexed: the columns that have statistics.
        bounded: the columns of ``indexed`` that may have bounds; None: all of them.
        absent_are_null: a column that the file does not have is null in every row, because readers match columns by
            name; otherwise it has no statistics.
        floats: ``float_ranges`` of all rows written; they replace the footer for these columns. None: unknown; then a
            floating-point column has a max only if parquet-mr wrote the file, because parquet-mr writes no bounds for
            a column with NaN.
        group: the row group to describe; None: the whole file.
        string_prefix: characters to which strings are cut; a max may take twice as many to stay above every value.

    A bound that is not known (too long for the footer, infinite, a year after 9999) is left out. Booleans and binary
    columns have a nullCount only, arrays and maps have no statistics.
    """
    columns: dict[ColumnPath, tuple[ColumnPath, PrimitiveType]] = {
        tuple(part.lower() for part in path): (path, kind)
        for path, kind in leaves(schema)
        if isinstance(kind, PrimitiveType) and path in indexed
    }
    groups = [meta.row_group(number) for number in (range(meta.num_row_groups) if group is None else (group,))]
    trusts_max = str(meta.created_by or "").startswith("parquet-mr")
    lows: dict[ColumnPath, str] = {}
    highs: dict[ColumnPath, str] = {}
    nulls: dict[ColumnPath, str] = {}
    stored = meta.schema.to_arrow_schema()
    for index, parquet_path in enumerate(_leaf_paths(stored)):
        column = columns.get(tuple(part.lower() for part in parquet_path)) if parquet_path else None
        if column is None:
            continue
        path, kind = column
        of_rows = floats.get(parquet_path) if floats is not None and parquet_path is not None else None
        values = (
            _range_of(groups, meta.schema.column(index), index, kind) if of_rows is None else _range_in_rows(of_rows)
        )
        if values.nulls is not None:
            nulls[path] = str(values.nulls)
        if not values.is_known or values.low is None or (bounded is not None and path not in bounded):
            continue
        low = _bound_text(kind, values.low, string_prefix, upper=False)
        high = _bound_text(kind, values.high, string_prefix, upper=True)
        is_max_certain = trusts_max if of_rows is None else not of_rows.has_nan
        if low is not None:
            lows[path] = low
        if high is not None and (is_max_certain or kind.type not in _FLOATING):
            highs[path] = high
    rows = sum(row_group.num_rows for row_group in groups)
    if absent_are_null:
        nulls |= {path: str(rows) for path, _ in columns.values() if _is_absent(stored, path)}
    body = {"minValues": lows, "maxValues": highs, "nullCount": nulls}
    parts = [f'"numRecords":{rows}', *(f'"{key}":{_object(tokens)}' for key, tokens in body.items())]
    return "{" + ",".join(parts) + "}"


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


def _is_absent(schema: pa.Schema, path: ColumnPath) -> bool:
    """Whether a file does not have a column, or a struct around it; names match regardless of case."""
    fields = list(schema)
    for name in path:
        field = next((field for field in fields if field.name.lower() == name.lower()), None)
        if field is None:
            return True
        if not pa.types.is_struct(field.type):
            return False
        fields = list(field.type)
    return False


def _range_in_rows(floats: FloatRange) -> _Range:
    return _Range(floats.low, floats.high, True, floats.nulls)


def _range_of(
    groups: Sequence[pq.RowGroupMetaData], column: pq.ColumnSchema, index: int, column_type: PrimitiveType
) -> _Range:
    decode = _decoder(column, column_type)
    total = _Range()
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


def _bound_text(kind: PrimitiveType, value: Any, string_prefix: int, *, upper: bool) -> str | None:
    """The JSON token of a bound of type ``kind``, or None if the bound may be wrong."""
    if kind.type in _INTEGRAL:
        return str(value) if isinstance(value, int) else None
    if kind.type in _FLOATING:
        if not isinstance(value, float) or not math.isfinite(value):
            return None
        return repr((0.0 if upper else -0.0) if value == 0 else value)
    if kind.decimal is not None:
        return format(value, "f") if isinstance(value, (Decimal, int)) else None
    if kind.type == "string":
        cut = _shorten_max(value, string_prefix) if upper else value[:string_prefix]
        return None if cut is None else json.dumps(cut, ensure_ascii=False)
    try:
        if kind.type == "date":
            return f'"{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}"'
        if kind.type in ("timestamp", "timestamp_ntz"):
            milliseconds = -(-value // 1000) if upper else value // 1000
            text = (_EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
            return f'"{text}Z"' if kind.type == "timestamp" else f'"{text}"'
    except OverflowError:
        return None
    return None


def _shorten_max(value: str, prefix: int) -> str | None:
    """The max for a column whose greatest value is ``value``; None: no short text is greater than the value.

    A value of at most ``prefix`` characters is unchanged. A longer value is cut after them, and a tie-breaker makes it
    greater than the value: U+007F if the next character is less than U+007F, else U+10FFFF. A next character that is
    itself U+10FFFF is kept before the cut. The result has at most twice as many characters.
    """
    if len(value) <= prefix:
        return value
    for end in range(prefix, min(len(value), 2 * prefix)):
        following = value[end]
        if following < "\x7f":
            return value[:end] + "\x7f"
        if following < "\U0010ffff":
            return value[:end] + "\U0010ffff"
    return None


def _object(tokens: dict[ColumnPath, str]) -> str:
    tree: dict[str, Any] = {}
    for path, token in tokens.items():
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = token
    return _render(tree)


def _render(node: dict[str, Any] | str) -> str:
    if isinstance(node, str):
        return node
    inner = (f"{json.dumps(name, ensure_ascii=False)}:{_render(child)}" for name, child in node.items())
    return "{" + ",".join(inner) + "}"
