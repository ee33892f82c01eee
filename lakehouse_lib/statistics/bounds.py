"""Bounds of columns, parsed from the ``stats`` of files into Arrow: in one pass, and only the requested columns.

Statistics are hints, and other writers may have made them. A value that cannot be read is unknown (null) and never an
error. A reader that prunes by bounds must keep a file with unknown bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, literal, null_scalar
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.statistics.columns import ColumnPath
from lakehouse_lib.statistics.json_form import from_text, json_rows, json_type

_UNBOUNDED = ("boolean", "binary", "void")

#: Until 2024, Spark put this character at the end of a truncated max. Such a max may be too small: Spark compared
#: UTF-16 units, by which characters past U+FFFF sort below U+FFFD. Delta compares strings by UTF-8, where these
#: characters sort above U+FFFD.
_OLD_TIE_BREAKER = "\ufffd"

#: Most writers put the number of rows first. Then it is read without parsing the rest, in an eighth of the time.
_LEADING_NUM_RECORDS = r'\A\{"numRecords":(?P<rows>[0-9]{1,18})[,}]'

#: A decimal bound with more digits than this may be inexact, because some writers (delta-rs) convert it to a double.
_DOUBLE_DIGITS = 15


@dataclass(frozen=True)
class Bounds:
    """The bounds of one column, one entry for each file; null: unknown.

    Attributes:
        min, max: every value of the column except NaN is between them. Timestamps are already rounded outwards to
            milliseconds.
        null_count: exact, or unknown.
        num_records: rows in the file, including rows that a deletion vector deletes.
    """

    min: pa.Array
    max: pa.Array
    null_count: pa.Array
    num_records: pa.Array

    @classmethod
    def concat(cls, parts: Sequence[Bounds], kind: DataType) -> Bounds:
        """The bounds of the files of all parts, in the order of the parts; ``kind`` is the type of the column."""
        arrow = kind.to_arrow() if not isinstance(kind, PrimitiveType) or kind.is_known else pa.null()
        return cls(
            _concat([part.min for part in parts], arrow),
            _concat([part.max for part in parts], arrow),
            _concat([part.null_count for part in parts], pa.int64()),
            _concat([part.num_records for part in parts], pa.int64()),
        )

    def where(self, mask: pa.Array, other: Bounds) -> Bounds:
        """These bounds where ``mask`` is true, and ``other`` elsewhere."""
        return Bounds(
            pc.if_else(mask, self.min, other.min),
            pc.if_else(mask, self.max, other.max),
            pc.if_else(mask, self.null_count, other.null_count),
            pc.if_else(mask, self.num_records, other.num_records),
        )

    def filter(self, mask: pa.Array) -> Bounds:
        """The bounds of the files for which ``mask`` is true."""
        columns = (self.min, self.max, self.null_count, self.num_records)
        return Bounds(*(column.filter(mask) for column in columns))

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in (self.min, self.max, self.null_count, self.num_records))


def num_records(files: pa.Table) -> pa.Array:
    """The number of rows in each file (int64), deleted rows included; null if the statistics do not have it."""
    stats = files.column("stats")
    leading = pc.struct_field(pc.extract_regex(stats, _LEADING_NUM_RECORDS), "rows")
    # Statistics that do not end with a brace are not JSON, and so have no number of rows.
    if leading.null_count == stats.null_count and pc.all(pc.ends_with(stats, "}"), min_count=0).as_py():
        return as_array(leading.cast(pa.int64()))
    parsed = json_rows(stats, _parse_schema({}))
    return _concat([table.column("numRecords") for table in parsed], pa.int64())


def bounds_of(files: pa.Table, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
    """The bounds of several leaf columns, from one pass over the statistics.

    Args:
        files: a files table.
        columns: the types of the columns, by physical path.
    """
    parts: dict[ColumnPath, list[Bounds]] = {path: [] for path in columns}
    for parsed in json_rows(files.column("stats"), _parse_schema(columns)):
        for path, kind in columns.items():
            parts[path].append(_bounds(parsed, path, kind))
    return {path: Bounds.concat(parts[path], kind) for path, kind in columns.items()}


def _parse_schema(columns: Mapping[ColumnPath, DataType]) -> pa.Schema:
    ends: dict[ColumnPath, pa.DataType] = {}
    counts: dict[ColumnPath, pa.DataType] = {}
    for path, kind in columns.items():
        counts[path] = pa.int64()
        if is_bounded(kind):
            ends[path] = _json_type(kind)
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    for key, leaves in (("minValues", ends), ("maxValues", ends), ("nullCount", counts)):
        if leaves:
            fields.append(pa.field(key, _struct_of(leaves)))
    return pa.schema(fields)


def _json_type(kind: PrimitiveType) -> pa.DataType:
    decimal = kind.decimal
    return pa.decimal128(38, decimal[1]) if decimal is not None else json_type(kind)


def _struct_of(leaves: Mapping[ColumnPath, pa.DataType]) -> pa.DataType:
    below: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for path, kind in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct([pa.field(name, inner[()] if () in inner else _struct_of(inner)) for name, inner in below.items()])


def _bounds(parsed: pa.Table, path: ColumnPath, kind: DataType) -> Bounds:
    nulls = _descend(parsed, "nullCount", path, pa.int64())
    low = high = None
    if is_bounded(kind):
        low = _descend(parsed, "minValues", path, _json_type(kind))
        high = _descend(parsed, "maxValues", path, _json_type(kind))
        if kind.type in ("date", "timestamp", "timestamp_ntz"):
            low, high = from_text(low, kind), from_text(high, kind)
    return checked_bounds(
        kind, low, high, nulls, as_array(parsed.column("numRecords")), as_array(parsed.column("tightBounds"))
    )


def is_bounded(kind: DataType) -> TypeGuard[PrimitiveType]:
    """Whether statistics have a min and a max for columns of this type."""
    return isinstance(kind, PrimitiveType) and kind.is_known and kind.type not in _UNBOUNDED


def checked_bounds(
    kind: DataType, low: pa.Array | None, high: pa.Array | None, nulls: pa.Array, records: pa.Array, tight: pa.Array
) -> Bounds:
    """Bounds from stored statistics: known errors of writers are corrected, and bounds without a meaning are unknown.

    NaN bounds become unknown, and so do crossed bounds (min above max). Other wrong bounds are not detected.

    Args:
        low, high: the stored bounds; None: unknown. All arrays have one entry for each file. If the bounds come from
            the footer of a checkpoint, an entry covers many files, so crossed bounds of a single file are not detected.
        nulls, records: the null counts and the row counts.
        tight: ``tightBounds``; null: true.
    """
    # If a deletion vector makes the bounds not tight, a null count is valid only if it is 0 or the number of rows.
    tight = pc.fill_null(tight, literal(True, pa.bool_()))
    at_ends = pc.or_(pc.equal(nulls, literal(0, pa.int64())), pc.equal(nulls, records))
    is_exact = pc.fill_null(at_ends, literal(False, pa.bool_()))
    nulls = pc.if_else(pc.or_(tight, is_exact), nulls, null_scalar(pa.int64()))
    if low is None or high is None or not is_bounded(kind):
        # There are no bounds, for example because the type has no order. Nulls have the column's type, if it is known.
        has_type = not isinstance(kind, PrimitiveType) or kind.is_known
        unknown = pa.nulls(len(nulls), kind.to_arrow() if has_type else None)
        return Bounds(unknown, unknown, nulls, records)
    if kind.type in ("timestamp", "timestamp_ntz"):
        high = pc.add(high, literal(1000, pa.int64()).cast(pa.duration("us")))
    if kind.type == "string" and pc.any(pc.ends_with(high, _OLD_TIE_BREAKER)).as_py():
        high = pc.replace_substring_regex(high, f"{_OLD_TIE_BREAKER}$", "\U0010ffff")
    decimal = kind.decimal
    if decimal is not None and decimal[0] > _DOUBLE_DIGITS:
        low, high = _widen(low, -1), _widen(high, 1)
    is_ordered = pc.fill_null(pc.less_equal(low, high), literal(True, pa.bool_()))
    missing_bound = null_scalar(low.type)
    return Bounds(
        pc.if_else(is_ordered, low, missing_bound), pc.if_else(is_ordered, high, missing_bound), nulls, records
    )


def _descend(parsed: pa.Table, key: str, path: ColumnPath, kind: pa.DataType) -> pa.Array:
    column = as_array(parsed.column(key))
    for name in path:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column.cast(kind)


def _widen(bound: pa.Array, sign: int) -> pa.Array:
    # Widen by one part in 2**51 and one unit of the scale. A round trip through a double loses at most this.
    scale = bound.type.scale
    with np.errstate(all="ignore"):
        near = np.abs(bound.cast(pa.float64()).to_numpy(zero_copy_only=False)) * 2.0**-51 + 10.0**-scale
    wide = pa.decimal256(50, scale)
    try:
        step = pc.if_else(bound.is_valid(), pa.array(near), pa.scalar(None, pa.float64()))
        margin = pc.add(pc.cast(step, wide), _one_unit(scale))
        moved = (pc.add if sign > 0 else pc.subtract)(pc.cast(bound, wide), margin)
        return pc.cast(moved, bound.type)
    except pa.ArrowInvalid:  # more than 38 digits
        return pa.nulls(len(bound), bound.type)


def _one_unit(scale: int) -> pa.Scalar:
    return pa.scalar(Decimal(1).scaleb(-scale), pa.decimal256(50, scale))


def _concat(parts: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([as_array(part) for part in parts]) if parts else pa.nulls(0, kind)
