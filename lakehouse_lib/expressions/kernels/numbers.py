"""Rounding, and the greatest and least of several values, as in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, is_true, literal, nearest_floats, null_scalar, numbers_of
from lakehouse_lib.expressions.ir import Function, Literal

#: From this number on, a double has no fraction.
_WHOLE = 1e16
#: Below this number, a double is within ``_NEAR`` of its decimal text.
_MOST_EXACT = 1e12
_NEAR = 1e-3
_HALF_UP = "half_towards_infinity"


def rounded(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``round(x, digits)``: half up, away from zero.

    Raises:
        pa.ArrowInvalid: the type of an integer cannot hold the result.
    """
    values, digits = arguments[0], node.arguments[1]
    assert isinstance(digits, Literal)
    kind = node.type.to_arrow()
    if pa.types.is_decimal(kind):
        wide = values.cast(pa.decimal256(76, values.type.scale))
        return pc.round(wide, ndigits=digits.value, round_mode=_HALF_UP).cast(kind)
    if pa.types.is_floating(kind):
        return _round_floats(values.cast(pa.float64()), digits.value, kind)
    try:
        return pc.round(values.cast(pa.int64()), ndigits=digits.value, round_mode=_HALF_UP).cast(kind)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid("overflow") from None


def _round_floats(values: pa.Array, digits: int, kind: pa.DataType) -> pa.Array:
    """Doubles, rounded half up by their shortest decimal text, as in Spark: 2.675 becomes 2.68."""
    if pa.types.is_float64(kind):
        results, is_sure = _far_from_halves(numbers_of(values, np.float64), digits)
        if is_sure.all():
            return pc.if_else(values.is_valid(), pa.array(results), null_scalar(kind))
        unsure = bools(~is_sure)
        exact = _round_texts(values.filter(unsure), digits, kind)
        rounded_values = pc.replace_with_mask(pa.array(results), unsure, exact)
        return pc.if_else(values.is_valid(), rounded_values, null_scalar(kind))
    return _round_texts(values, digits, kind)


def _far_from_halves(values: NDArray[np.float64], digits: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rounded numbers, and which of them are sure, because the number is not near the middle of two results."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.abs(values) * 10.0**digits
        whole = np.floor(scaled + 0.5)
        is_sure = (scaled < _MOST_EXACT) & (np.abs(scaled - np.floor(scaled) - 0.5) > _NEAR)
        # The quotient of two exact doubles is the double nearest to the decimal. Spark has no negative zero here.
        results = np.where(whole == 0, 0.0, np.copysign(whole / 10.0**digits, values))
    return results, is_sure


def _round_texts(values: pa.Array, digits: int, kind: pa.DataType) -> pa.Array:
    sizes = pc.abs(values)
    has_fraction = is_true(pc.less(sizes, literal(_WHOLE, pa.float64())))
    # A smaller number becomes 0. Its text may have more digits than a decimal.
    is_small = is_true(pc.less(sizes, literal(10.0 ** -(digits + 2), pa.float64())))
    plain = pc.if_else(pc.and_not(has_fraction, is_small), values, literal(0.0, pa.float64()))
    decimals = plain.cast(pa.string()).cast(pa.decimal256(76, 40))
    results = nearest_floats(pc.round(decimals, ndigits=digits, round_mode=_HALF_UP), kind)
    return pc.if_else(has_fraction, results, values.cast(kind, safe=False))


def floor_or_ceil(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``floor`` or ``ceil`` of doubles, as longs, or of decimals, as decimals without a fraction.

    Raises:
        pa.ArrowInvalid: the number is out of the range of a long.
    """
    (values,) = arguments
    function = getattr(pc, node.name)
    if pa.types.is_decimal(values.type):
        return function(values.cast(pa.decimal256(76, values.type.scale))).cast(node.type.to_arrow())
    # NaN becomes 0, as in Spark.
    numbers = pc.if_else(pc.is_nan(values), literal(0.0, pa.float64()), values)
    return function(numbers).cast(pa.int64())


def extreme(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``greatest`` or ``least`` of values of one type. NULL is skipped, and NaN is the greatest number."""
    result = arguments[0]
    for values in arguments[1:]:
        is_better = _greater(values, result) if node.name == "greatest" else _greater(result, values)
        result = pc.if_else(pc.or_(is_better, pc.and_not(values.is_valid(), result.is_valid())), values, result)
    return result


def _greater(left: Any, right: Any) -> pa.Array:
    """Whether the left value is greater; False if one of them is null."""
    greater = pc.greater(left, right)
    if pa.types.is_floating(left.type):
        greater = pc.or_(greater, pc.and_not(pc.is_nan(left), pc.is_nan(right)))
    return is_true(greater)
