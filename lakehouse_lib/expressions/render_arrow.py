"""Nodes as Arrow expressions, with the semantics of SQL.

NULL is neither true nor false. NaN equals itself and is greater than every other number, although Arrow's own
comparisons with NaN are false. A value is compared with a literal in the column's type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import column, nearest_floats, null_scalar
from lakehouse_lib.expressions.ir import (
    WHOLE_DIGITS,
    And,
    Arithmetic,
    Assignment,
    Cast,
    Column,
    Comparison,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    decimal_size,
)
from lakehouse_lib.expressions.like import as_regex, split_pattern
from lakehouse_lib.schema import DataType, MapType, PrimitiveType

_FLOATING = ("float", "double")
_INTEGRAL = ("byte", "short", "integer", "long")
_UTC = pa.timestamp("us", tz="UTC")
_UNKNOWN = null_scalar(pa.bool_())


_FUNCTIONS = {
    "abs": pc.abs_checked,
    "day": pc.day,
    "hour": pc.hour,
    "length": pc.utf8_length,
    "minute": pc.minute,
    "month": pc.month,
    "negative": pc.negate_checked,
    "quarter": pc.quarter,
    "second": pc.second,
    "year": pc.year,
}
_CHECKED = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
    "DIV": pc.divide_checked,
}


class ArrowRendering:
    """Arrow expressions for all nodes except three kinds.

    Only Spark can evaluate an ``Opaque``. ``evaluate_arrow`` evaluates a ``Case``, because Arrow would evaluate each
    branch for every row, and functions that have a kernel (``kernels/``).
    """

    def boolean(self, node: Node) -> Any:
        """A condition as a boolean Arrow expression, null where SQL has NULL."""
        match node:
            case And() | Or():
                parts = [self.boolean(operand) for operand in node.operands]
                # As a balanced tree, because Arrow walks expressions recursively.
                return _balanced_tree(parts, isinstance(node, And))
            case Not():
                return ~self.boolean(node.operand)
            case IsNull():
                return self.value(node.operand).is_null()
            case Comparison():
                return self._comparison(node)
            case In():
                return self._in(node)
            case Like():
                return self._like(node)
        return self.value(node)

    def value(self, node: Node) -> Any:
        """A node as an Arrow expression, null where SQL has NULL."""
        match node:
            case Column():
                return pc.field(*node.path)
            case Literal():
                return pc.scalar(scalar_of(node))
            case Cast():
                return self._cast(node)
            case Arithmetic():
                return self._arithmetic(node)
            case Function():
                return self._function(node)
            case Assignment():
                return self._assignment(node)
        return self.boolean(node)

    def _assignment(self, node: Assignment) -> Any:
        """A number converted to another type of number, or NULL. It fails for a value that the type cannot hold."""
        if isinstance(node.operand, Literal):
            return _null_of(node.type)
        source, kind = node.operand.type, node.type
        assert isinstance(source, PrimitiveType)
        assert isinstance(kind, PrimitiveType)
        value, target = self.value(node.operand), kind.to_arrow()
        if _is_floating(kind):
            return value.cast(target, safe=False) if source.decimal is None else nearest_floats(value, target)
        if source.decimal is None:
            if kind.decimal is not None:
                return value.cast(pa.decimal256(76, kind.decimal[1])).cast(target)
            return (value if source.type in _INTEGRAL else pc.trunc(value)).cast(target)
        # Arrow rounds a decimal only if its type has digits before the point.
        wide = value.cast(pa.decimal256(76, source.decimal[1]))
        if kind.decimal is None:
            return pc.trunc(wide).cast(target)
        if kind.decimal[1] < source.decimal[1]:
            wide = pc.round(wide, ndigits=kind.decimal[1], round_mode="half_towards_infinity")
        return wide.cast(target)

    def _comparison(self, node: Comparison) -> Any:
        left = self.value(node.left)
        if isinstance(node.right, Literal) and node.left.type == node.right.type:
            if _is_floating(node.left.type):
                return self._with_float(node.operator, left, node.left, float(node.right.value))
            return _null_safe(node.operator, left, self.value(node.right), literal=True)
        right = self.value(node.right)
        if _is_floating(node.left.type) or _is_floating(node.right.type):
            left, right = _as_double(left, node.left.type), _as_double(right, node.right.type)
            return _between_floats(node.operator, left, right)
        left, right = _common(left, node.left.type, right, node.right.type)
        return _null_safe(node.operator, left, right, literal=False)

    def _with_float(self, operator: str, value: Any, operand: Node, literal: float) -> Any:
        if math.isnan(literal):
            is_nan = pc.is_nan(value)
            never = is_nan & ~is_nan
            return {
                "=": is_nan,
                "<=>": pc.coalesce(is_nan, pc.scalar(False)),
                "!=": ~is_nan,
                "<": ~is_nan,
                "<=": ~never,
                ">": never,
                ">=": is_nan,
            }[operator]
        number = self._float_scalar(operand, [literal])
        if number is None:
            value, number = value.cast(pa.float64()), column([literal], pa.float64())[0]
        else:
            number = number[0]
        compared = _null_safe(operator, value, pc.scalar(number), literal=True)
        return compared | pc.is_nan(value) if operator in (">", ">=") else compared

    def _float_scalar(self, operand: Node, values: list[float]) -> pa.Array | None:
        """The values in the operand's type; None if a float32 cannot represent them, so the operand must be cast."""
        if operand.type == PrimitiveType("double"):
            return column(values, pa.float64())
        with np.errstate(over="ignore"):
            narrow = np.asarray(values, dtype=np.float64).astype(np.float32)
        if not np.array_equal(narrow.astype(np.float64), np.asarray(values), equal_nan=True):
            return None
        return column(narrow.tolist(), pa.float32())

    def _in(self, node: In) -> Any:
        operand = self.value(node.operand)
        if _is_floating(node.operand.type):
            membership = self._in_floats(node, operand)
        else:
            membership = operand.isin(array_of(node.values, node.operand.type))
        if node.has_null:
            return membership | pc.scalar(_UNKNOWN)
        return membership | (operand.is_null() & pc.scalar(_UNKNOWN))

    def _in_floats(self, node: In, operand: Any) -> Any:
        """IN over floats. ``isin`` compares bits, but NaN has many bit patterns and zero has two."""
        numbers = [number for number in node.values if not math.isnan(number)]
        listed = [*numbers, *([-0.0] if 0 in numbers else [])]
        values = self._float_scalar(node.operand, listed)
        if values is None:
            operand, values = operand.cast(pa.float64()), column(listed, pa.float64())
        membership = operand.isin(values)
        return membership if len(numbers) == len(node.values) else membership | pc.is_nan(operand)

    def _like(self, node: Like) -> Any:
        operand = self.value(node.operand)
        prefix, rest = split_pattern(node)
        if rest == "":
            return operand == pc.scalar(prefix)
        if rest == "%":
            return pc.starts_with(operand, pattern=prefix)
        return pc.match_substring_regex(operand, pattern=as_regex(node))

    def _cast(self, node: Cast) -> Any:
        value, target = self.value(node.operand), node.type.to_arrow()
        if node.type.decimal is not None:
            return _as_decimal(value, node.operand.type).cast(target)
        if node.type.type == "timestamp":
            return value.cast(pa.timestamp("us")).cast(target)
        if node.type.type == "date":
            # Rounded down first, because Arrow's cast refuses to drop the time of day.
            return pc.floor_temporal(value, unit="day").cast(target)
        return value.cast(target)

    def _function(self, node: Function) -> Any:
        arguments = [self.value(argument) for argument in node.arguments]
        match node.name:
            case "coalesce":
                return pc.coalesce(*arguments)
            case "concat":
                return pc.binary_join_element_wise(*arguments, "")
            case "substring":
                start, length = (argument.value for argument in node.arguments[1:] if isinstance(argument, Literal))
                first = start - 1 if start > 0 else start
                stop = None if length is None or (first < 0 and length >= -first) else first + length
                return pc.utf8_slice_codeunits(arguments[0], start=first, stop=stop)
            case "element" if isinstance(node.arguments[0].type, MapType):
                (key,) = (scalar_of(key) for key in node.arguments[1:] if isinstance(key, Literal))
                return pc.map_lookup(arguments[0], query_key=key, occurrence="first")
            case "element":
                return pc.list_element(*arguments)
            case "date_add" | "date_sub" | "datediff":
                left, right = (argument.cast(pa.int32()) for argument in arguments)
                result = pc.add(left, right) if node.name == "date_add" else pc.subtract(left, right)
                return result.cast(node.type.to_arrow())
            case "add_micros":
                # Without a zone, because Arrow casts no zone to an integer and back.
                micros = pc.add_checked(arguments[0].cast(pa.timestamp("us")).cast(pa.int64()), arguments[1])
                return micros.cast(pa.timestamp("us")).cast(node.type.to_arrow())
            case "trim" | "ltrim" | "rtrim":
                return getattr(pc, f"utf8_{node.name}")(arguments[0], characters=" ")
        return _FUNCTIONS[node.name](arguments[0])

    def _arithmetic(self, node: Arithmetic) -> Any:
        kind = node.type.to_arrow()
        if node.type.decimal is not None:
            a, b = (_as_decimal(self.value(operand), operand.type) for operand in (node.left, node.right))
            return self._quotient(node, a, b) if node.operator == "/" else _CHECKED[node.operator](a, b)
        left, right = (self.value(operand).cast(kind, safe=False) for operand in (node.left, node.right))
        if node.operator == "%":
            # By -1, the quotient of the least integer would overflow. The remainder by 1 is also 0.
            divisor = pc.if_else(right == pc.scalar(pa.scalar(-1, kind)), pc.scalar(pa.scalar(1, kind)), right)
            return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))
        return _CHECKED[node.operator](left, right)

    def _quotient(self, node: Arithmetic, left: Any, right: Any) -> Any:
        """The quotient of two decimals, rounded half up. Arrow cuts the digits off after the digit that rounds."""
        sizes = [decimal_size(operand.type) for operand in (node.left, node.right)]
        (precision, scale), (digits, other) = (size for size in sizes if size is not None)
        assert node.type.decimal is not None
        result_scale = node.type.decimal[1]
        # Arrow's quotient has as many digits after the point as this scale, plus ``digits - other + 1``.
        wide = max(scale, result_scale - digits + other)
        left = left.cast(pa.decimal256(precision - scale + wide, wide))
        quotient = pc.divide(left, right.cast(pa.decimal256(digits, other)))
        return pc.round(quotient, ndigits=result_scale, round_mode="half_towards_infinity").cast(node.type.to_arrow())


def _balanced_tree(parts: list[Any], conjunction: bool) -> Any:
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [(a[0] & a[1] if conjunction else a[0] | a[1]) if len(a) == 2 else a[0] for a in pairs]
    return parts[0]


def _null_safe(operator: str, left: Any, right: Any, *, literal: bool) -> Any:
    match operator:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    equal = pc.coalesce(left == right, pc.scalar(False))
    return equal if literal else equal | (left.is_null() & right.is_null())


def _between_floats(operator: str, left: Any, right: Any) -> Any:
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    equal = (left == right) | (left_nan & right_nan)
    less = (left < right) | (~left_nan & right_nan)
    match operator:
        case "=":
            return equal
        case "!=":
            return ~equal
        case "<":
            return less
        case "<=":
            return less | equal
        case ">":
            return ~(less | equal)
        case ">=":
            return ~less
    return pc.coalesce(equal, pc.scalar(False)) | (left.is_null() & right.is_null())


def _common(left: Any, left_type: DataType | None, right: Any, right_type: DataType | None) -> tuple[Any, Any]:
    if left_type == right_type:
        return left, right
    kinds = [kind for kind in (left_type, right_type) if isinstance(kind, PrimitiveType)]
    scales = [kind.decimal[1] for kind in kinds if kind.decimal is not None]
    if scales:
        wide = pa.decimal256(76, max(scales))
        return left.cast(wide), right.cast(wide)
    if any(kind.type in ("date", "timestamp", "timestamp_ntz") for kind in kinds):
        return left.cast(pa.timestamp("us")).cast(_UTC), right.cast(pa.timestamp("us")).cast(_UTC)
    return left.cast(pa.int64()), right.cast(pa.int64())


def _as_double(value: Any, data_type: DataType | None) -> Any:
    """The nearest double, as in Spark."""
    if isinstance(data_type, PrimitiveType) and data_type.decimal is not None:
        return nearest_floats(value, pa.float64())
    return value.cast(pa.float64(), safe=False)


def _as_decimal(value: Any, data_type: DataType | None) -> Any:
    """An integer as the decimal to which Spark converts it. Decimals are not changed."""
    digits = WHOLE_DIGITS.get(str(data_type))
    return value if digits is None else value.cast(pa.decimal128(max(digits, 19), 0)).cast(pa.decimal128(digits, 0))


def _null_of(data_type: DataType) -> Any:
    return pc.scalar(null_scalar(data_type.to_arrow()))


def _is_floating(data_type: DataType | None) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.type in _FLOATING


def array_of(values: Iterable[Any], data_type: DataType | None) -> pa.Array:
    """The values of literals of one type as an Arrow array."""
    kind = data_type.to_arrow() if isinstance(data_type, PrimitiveType) else pa.null()
    if pa.types.is_date32(kind):
        return column(list(values), pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return column(list(values), pa.int64()).cast(pa.timestamp("us")).cast(kind)
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return pa.array(values, kind)
    return column(list(values), kind)  # ``pa.array`` of Python values imports pandas


def scalar_of(literal: Literal) -> pa.Scalar:
    """The value of a literal as an Arrow scalar."""
    return array_of([literal.value], literal.type)[0]
