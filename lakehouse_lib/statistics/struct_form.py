"""The struct form of statistics: typed values (``stats_parsed`` of a checkpoint) instead of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal, null_scalar
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.statistics.bounds import Bounds, checked_bounds, is_bounded
from lakehouse_lib.statistics.columns import ColumnPath

#: From the start of year 1 to the start of year 10000, in seconds since the epoch.
_YEARS = (-62_135_596_800, 253_402_300_800)
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000}


def struct_bounds(structs: pa.StructArray, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
    """The bounds of several leaf columns from the struct form, as ``bounds_of`` returns them.

    Missing values, nulls and values of another type are unknown (null).
    """
    records = _leaf(structs, ("numRecords",), pa.int64())
    tight = _leaf(structs, ("tightBounds",), pa.bool_())
    bounds = {}
    for path, kind in columns.items():
        low = high = None
        if is_bounded(kind):
            target = _decimal(kind) or kind.to_arrow()
            low = _leaf(structs, ("minValues", *path), target)
            high = _leaf(structs, ("maxValues", *path), target)
        bounds[path] = checked_bounds(kind, low, high, _leaf(structs, ("nullCount", *path), pa.int64()), records, tight)
    return bounds


def stats_json(stats: pa.ChunkedArray, structs: pa.ChunkedArray) -> pa.ChunkedArray:
    """``stats``, where a null is replaced by the JSON of the entry of ``structs`` for the same file.

    A date or time with a year before 1 or after 9999 is left out, as in the statistics that this library writes.
    """
    if not pa.types.is_struct(structs.type):
        return stats
    is_absent = pc.and_(pc.is_null(stats), pc.is_valid(structs))
    if not pc.any(is_absent, min_count=0).as_py():
        return stats
    rows = [row for chunk in structs.filter(is_absent).chunks for row in _within_years(chunk).to_pylist()]
    as_json = [json.dumps(_without_nulls(row), default=_text) for row in rows]
    complete = pc.replace_with_mask(stats.combine_chunks(), is_absent.combine_chunks(), pa.array(as_json, pa.string()))
    return pa.chunked_array([complete])


def _leaf(structs: pa.StructArray, path: Sequence[str], kind: pa.DataType) -> pa.Array:
    values: pa.Array = structs
    for name in path:
        index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
        if index < 0:
            return pa.nulls(len(structs), kind)
        values = pc.struct_field(values, [index])
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(structs), kind)


def _decimal(kind: PrimitiveType) -> pa.DataType | None:
    # As wide as in the JSON form, so that the two can be concatenated, with room for widening.
    return None if kind.decimal is None else pa.decimal128(38, kind.decimal[1])


def _within_years(values: pa.Array) -> pa.Array:
    """The same values, with null for dates and times that Python cannot represent."""
    kind = values.type
    if pa.types.is_struct(kind):
        members = [_within_years(pc.struct_field(values, [index])) for index in range(kind.num_fields)]
        fields = [pa.field(field.name, member.type) for field, member in zip(kind, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=pc.is_null(values))
    if pa.types.is_timestamp(kind):
        if kind.unit != "ns":  # 64 bits of nanoseconds only reach from 1677 to 2262
            values = _between(values, _TICKS[kind.unit])
        return values.cast(pa.timestamp("us", "UTC" if kind.tz is not None else None), safe=False)
    if pa.types.is_date(kind):
        return _between(values, 1, a_tick=86_400) if pa.types.is_date32(kind) else _between(values, 1_000)
    return pa.nulls(len(values)) if pa.types.is_temporal(kind) else values


def _between(values: pa.Array, ticks_a_second: int, *, a_tick: int = 1) -> pa.Array:
    """The same values, with null outside of ``_YEARS``; ``a_tick``: the number of seconds in one tick of the type."""
    kind = pa.int32() if values.type.bit_width == 32 else pa.int64()
    numbers = values.cast(kind)
    least, behind = (literal(seconds * ticks_a_second // a_tick, kind) for seconds in _YEARS)
    is_within = pc.and_(pc.greater_equal(numbers, least), pc.less(numbers, behind))
    return pc.if_else(is_within, values, null_scalar(values.type))


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None and _is_finite(inner)}


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if value == Decimal(repr(float(value))) else str(value)
    return None
