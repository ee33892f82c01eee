"""Pruning by one condition on one column.

Bounds may be wider than the values (truncated strings, times in milliseconds), and do not cover NaN. A result is False
only if no row can match.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.sorted_search import count_below
from lakehouse_lib.arrow.values import bools, int64s, is_true, literal, may_be_true, null_scalar
from lakehouse_lib.expressions.ir import Comparison, In, Like, Literal
from lakehouse_lib.expressions.like import split_pattern
from lakehouse_lib.expressions.render_arrow import array_of
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.statistics import Bounds

_ZERO = literal(0, pa.int64())


@dataclass(frozen=True)
class Leaf:
    """The bounds of a column in each file, prepared by ``leaf_of``.

    Attributes:
        floating: whether the column has floating-point numbers.
    """

    bounds: Bounds
    has_values: pa.Array  # False: every row is null
    has_nulls: pa.Array  # False: no row is null
    floating: bool


def leaf_of(bounds: Bounds, data_type: Any, was_float: bool) -> Leaf:
    """The bounds of a column in each file, prepared for ``compare``; ``was_float``: it was widened from float."""
    only_nulls = is_true(pc.equal(bounds.null_count, bounds.num_records))
    # A bound proves that a value exists, whatever the null count says: delta-rs counts the nulls of map keys and values
    # under the names key and value, even if other columns have these names.
    only_nulls = pc.and_(only_nulls, pc.and_(bounds.min.is_null(), bounds.max.is_null()))
    no_nulls = is_true(pc.equal(bounds.null_count, _ZERO))
    floating = isinstance(data_type, PrimitiveType) and data_type.type in ("float", "double")
    if floating:
        low, high = bounds.min.cast(pa.float64()), bounds.max.cast(pa.float64())
        if was_float:
            # Bounds in older files are the shortest digits that identify a float, 0.1 for 0.10000000149. As doubles
            # they may be inside the range of the values, by half of a float's last bit.
            low, high = pc.subtract(low, _half_a_bit(low)), pc.add(high, _half_a_bit(high))
        bounds = Bounds(low, high, bounds.null_count, bounds.num_records)
    return Leaf(bounds, pc.invert(only_nulls), pc.invert(no_nulls), floating)


def _half_a_bit(bounds: pa.Array) -> pa.Array:
    """At least half of a float's last bit; 0 for infinity, which is the same in every width."""
    widths = pc.add(pc.multiply(pc.abs(bounds), 2.0**-24), 1e-45)
    return pc.if_else(pc.is_finite(bounds), widths, 0.0)


def tested_operator(node: Comparison, negated: bool) -> str:
    """The operator to test: ``!=`` for a negated comparison, and ``=`` for ``<=>`` with a value."""
    return "!=" if negated else "=" if node.operator == "<=>" else node.operator


def compare(operator: str, literal: Literal, leaf: Leaf, no_nan: bool) -> pa.Array:
    """Whether ``column operator literal`` may be true; ``no_nan``: other conditions exclude rows with NaN."""
    low, high = leaf.bounds.min, leaf.bounds.max
    if leaf.floating and math.isnan(literal.value):
        return leaf.has_values
    value = _scalar(literal.value, literal.type, low.type)
    match operator:
        case "<":
            conditions = [pc.less(low, value)]
        case "<=":
            conditions = [pc.less_equal(low, value)]
        case ">" | ">=" | "!=" if leaf.floating and not no_nan:
            conditions = []
        case ">":
            conditions = [pc.greater(high, value)]
        case ">=":
            conditions = [pc.greater_equal(high, value)]
        case "=":
            conditions = [pc.less_equal(low, value), pc.greater_equal(high, value)]
        case _:
            conditions = [pc.invert(pc.and_(pc.equal(low, value), pc.equal(high, value)))]
    return all_of([leaf.has_values, *(may_be_true(condition) for condition in conditions)])


def among(node: In, negated: bool, leaf: Leaf) -> pa.Array:
    """Whether IN, or NOT IN, may be true."""
    low, high = leaf.bounds.min, leaf.bounds.max
    if negated and node.has_null:
        return pc.and_(leaf.has_values, pa.scalar(False))
    if leaf.floating and (negated or any(math.isnan(value) for value in node.values)):
        return leaf.has_values
    values = _array(sorted(node.values), node.operand.type, low.type)
    if negated:
        one_value = is_true(pc.equal(low, high))
        return pc.and_(leaf.has_values, pc.invert(pc.and_(one_value, pc.is_in(low, value_set=values))))
    # The candidate is the least listed value that is not below min. The file may match if it is not above max.
    from_low = pc.coalesce(low, values[0])
    candidate = values.take(_first_not_below(values, from_low))
    is_within = pc.and_(candidate.is_valid(), may_be_true(pc.less_equal(candidate, high)))
    return pc.and_(leaf.has_values, is_within)


def _first_not_below(values: pa.Array, bounds: pa.Array) -> pa.Array:
    """For each bound the index of the first of the sorted ``values`` that is >= it; null if all are less."""
    index = count_below(values, bounds)
    return pc.if_else(bools(index < len(values)), int64s(index), null_scalar(pa.int64()))


def like(node: Like, leaf: Leaf) -> pa.Array:
    """Whether LIKE may be true, by the text before its first wildcard."""
    prefix, _ = split_pattern(node)
    low, high = leaf.bounds.min, leaf.bounds.max
    if not prefix:
        return leaf.has_values
    # Values with the prefix are >= the prefix, and less than the least text above all of them.
    checks = [pc.greater_equal(high, prefix)]
    above = _above_all_with(prefix)
    if above is not None:
        checks.append(pc.less(low, above))
    return all_of([leaf.has_values, *(may_be_true(condition) for condition in checks)])


def _above_all_with(prefix: str) -> str | None:
    """The least text above all texts that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if code == 0xD800 else code)  # surrogates are not characters


def _scalar(value: Any, data_type: Any, arrow: pa.DataType) -> pa.Scalar:
    return _array([value], data_type, arrow)[0]


def _array(values: list[Any], data_type: Any, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(arrow) or pa.types.is_floating(arrow):
        return pa.array(values, arrow)  # the type of the bounds is wider than that of the column
    return array_of(values, data_type)


def all_of(parts: list[pa.Array]) -> pa.Array:
    """For each file, whether all masks are true."""
    total = parts[0]
    for part in parts[1:]:
        total = pc.and_(total, part)
    return total


def any_of(parts: list[pa.Array]) -> pa.Array:
    """For each file, whether a mask is true."""
    total = parts[0]
    for part in parts[1:]:
        total = pc.or_(total, part)
    return total
