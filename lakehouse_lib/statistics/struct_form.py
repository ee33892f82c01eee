"""Statistics kept as structs of typed values (``stats_parsed`` of a checkpoint) instead of as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.statistics.bounds import Bounds, is_bounded, sound
from lakehouse_lib.statistics.columns import ColumnPath


def struct_bounds(structs: pa.StructArray, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
    """As ``bounds_of``, from the struct form; what is absent, null or of a type that does not fit is unknown."""
    records = _leaf(structs, ("numRecords",), pa.int64())
    tight = _leaf(structs, ("tightBounds",), pa.bool_())
    found = {}
    for path, kind in columns.items():
        low = high = None
        if is_bounded(kind):
            target = _decimal(kind) or kind.to_arrow()
            low = _leaf(structs, ("minValues", *path), target)
            high = _leaf(structs, ("maxValues", *path), target)
        found[path] = sound(kind, low, high, _leaf(structs, ("nullCount", *path), pa.int64()), records, tight)
    return found


def stats_json(stats: pa.ChunkedArray, structs: pa.ChunkedArray) -> pa.ChunkedArray:
    """``stats`` with its nulls written anew, as the JSON of the protocol, from the ``structs`` beside them."""
    wanted = pc.and_(pc.is_null(stats), pc.is_valid(structs))
    if not pc.any(wanted, min_count=0).as_py():
        return stats
    as_json = [json.dumps(_without_nulls(row), default=_text) for row in structs.filter(wanted).to_pylist()]
    mended = pc.replace_with_mask(stats.combine_chunks(), wanted.combine_chunks(), pa.array(as_json, pa.string()))
    return pa.chunked_array([mended])


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
    # As wide as the JSON form's, so that the two can be put together, and there is room to widen.
    return None if kind.decimal is None else pa.decimal128(38, kind.decimal[1])


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
