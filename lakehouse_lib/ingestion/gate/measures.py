"""The measures of table rules: states of record batches that can be merged.

Observed values and limits are compared as in Great Expectations: a decimal becomes a double, and an integer is compared
with a double exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.ingestion.gate.arguments import Column
from lakehouse_lib.ingestion.gate.condition import OneOf

_EXAMPLES = 5
_WIDE = Context(prec=120)
#: The scale to which Spark computes a quotient of decimals, before it rounds it to the scale of the result.
_DIVISION = Decimal(1).scaleb(-39)


@dataclass(frozen=True)
class Limits:
    """The range of observed values that do not break a rule.

    Attributes:
        low, high: int, float or date; None: no limit at this end.
        strict_low, strict_high: whether the limit itself is outside the range.
    """

    low: Any
    high: Any
    strict_low: bool = False
    strict_high: bool = False

    def allow(self, observed: Any) -> bool:
        """Whether the observed value is in the range; None and NaN are not."""
        if observed is None or observed != observed:
            return False
        above = self.low is None or (observed > self.low if self.strict_low else observed >= self.low)
        below = self.high is None or (observed < self.high if self.strict_high else observed <= self.high)
        return bool(above and below)

    def verdict(self, observed: Any) -> str | None:
        """The observed value as text, if it is not in the range; else None."""
        return None if self.allow(observed) else repr(observed)


@dataclass(frozen=True)
class Static:
    """The measure of a rule that the schema alone decides.

    Attributes:
        observed: the observed value, if it breaks the rule; else None.
    """

    observed: str | None

    def empty(self) -> None:
        return None

    def measure(self, _: pa.RecordBatch) -> None:
        return None

    def merge(self, _: None, __: None) -> None:
        return None

    def verdict(self, _: None) -> str | None:
        return self.observed


@dataclass(frozen=True)
class RowCount:
    """The number of rows."""

    limits: Limits

    def empty(self) -> int:
        return 0

    def measure(self, batch: pa.RecordBatch) -> int:
        return int(batch.num_rows)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def verdict(self, state: int) -> str | None:
        return self.limits.verdict(state)


@dataclass(frozen=True)
class PresentShare:
    """The share of rows in which a column is not null; 0 without rows. A state is (rows, non-null values)."""

    column: str
    limits: Limits

    def empty(self) -> tuple[int, int]:
        return 0, 0

    def measure(self, batch: pa.RecordBatch) -> tuple[int, int]:
        return batch.num_rows, batch.num_rows - batch.column(self.column).null_count

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]

    def verdict(self, state: tuple[int, int]) -> str | None:
        rows, values = state
        return self.limits.verdict(values / rows if rows else 0)


@dataclass(frozen=True)
class Extreme:
    """The least or the greatest value of a column of numbers or dates; NaN is the greatest.

    A state is this value, or None.
    """

    column: str
    limits: Limits
    greatest: bool

    def empty(self) -> None:
        return None

    def measure(self, batch: pa.RecordBatch) -> Any:
        values = batch.column(self.column)
        ends = pc.min_max(values)
        extreme = ends["max" if self.greatest else "min"].as_py()
        if self.greatest and pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return math.nan
        return extreme

    def merge(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        if left != left or right != right:
            is_left = (left != left) == self.greatest
            return left if is_left else right
        return max(left, right) if self.greatest else min(left, right)

    def verdict(self, state: Any) -> str | None:
        return self.limits.verdict(float(state) if isinstance(state, Decimal) else state)


@dataclass(frozen=True)
class Total:
    """The sum or the mean of a column of integers or decimals. A state is (sum as a whole number, count of values).

    Sums are exact. Spark adds integers as doubles, so its last digits differ if a sum is above 2^53.
    """

    column: Column
    limits: Limits
    mean: bool

    def empty(self) -> tuple[int, int]:
        return 0, 0

    def measure(self, batch: pa.RecordBatch) -> tuple[int, int]:
        values = batch.column(self.column.name)
        count = len(values) - values.null_count
        if not count:
            return 0, 0
        if pa.types.is_decimal(values.type):
            return int(pc.sum(values).as_py().scaleb(values.type.scale, _WIDE)), count
        wide = values if pa.types.is_int64(values.type) else values.cast(pa.int64())
        halves = (pc.shift_right(wide, _HALF), pc.bit_wise_and(wide, _LOW))  # their sums do not overflow
        high, low = (pc.sum(half).as_py() for half in halves)
        return (high << 32) + low, count

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]

    def verdict(self, state: tuple[int, int]) -> str | None:
        total, count = state
        if not count:
            return self.limits.verdict(None)
        if not pa.types.is_decimal(self.column.kind):
            return self.limits.verdict(float(total) / count if self.mean else float(total))
        scale = self.column.kind.scale
        exact = Decimal(total).scaleb(-scale, _WIDE)
        if self.mean:
            quotient = _WIDE.divide(exact, Decimal(count)).quantize(_DIVISION, ROUND_HALF_UP, _WIDE)
            exact = quotient.quantize(Decimal(1).scaleb(-scale - 4), ROUND_HALF_UP, _WIDE)
        return self.limits.verdict(float(exact))


@dataclass(frozen=True)
class SetDifference:
    """The values of a column that are outside a set, and the values of the set that the column lacks.

    A state is a pair of arrays: the values of the set in the column, and a few examples of other values.

    Attributes:
        size: the number of values in the set, as the rule lists them.
        refuses_others: whether values outside the set break the rule.
        requires_all: whether missing values of the set break the rule.
    """

    membership: OneOf
    size: int
    refuses_others: bool
    requires_all: bool

    def empty(self) -> tuple[pa.Array, pa.Array]:
        return self.membership.values[:0], self.membership.values[:0]

    def measure(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        values = pc.unique(batch.column(self.membership.column).drop_null())
        is_member = pc.is_in(values, self.membership.values)
        return values.filter(is_member), values.filter(pc.invert(is_member))[:_EXAMPLES]

    def merge(self, left: tuple[pa.Array, pa.Array], right: tuple[pa.Array, pa.Array]) -> tuple[pa.Array, pa.Array]:
        members, others = (pc.unique(pa.concat_arrays(pair)) for pair in zip(left, right, strict=True))
        return members, others[:_EXAMPLES]

    def verdict(self, state: tuple[pa.Array, pa.Array]) -> str | None:
        members, others = state
        if self.refuses_others and len(others):
            return f"values such as {', '.join(map(repr, others.to_pylist()))}"
        if self.requires_all and len(members) < self.size:
            return f"{len(members)} of the {self.size} values"
        return None


@dataclass(frozen=True)
class DistinctCount:
    """The number of distinct values of a column. More than ``most`` are not counted.

    A state is an array of the values.
    """

    column: str
    kind: pa.DataType
    limits: Limits

    @property
    def max_count(self) -> int:
        """The largest number of distinct values to count; more do not change the verdict."""
        return int(max(limit for limit in (self.limits.low, self.limits.high) if limit is not None)) + 1

    def empty(self) -> pa.Array:
        return pa.nulls(0, self.kind)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.unique(batch.column(self.column).drop_null())[: self.max_count]

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        if len(left) >= self.max_count:
            return left
        return pc.unique(pa.concat_arrays([left, right]))[: self.max_count]

    def verdict(self, state: pa.Array) -> str | None:
        observed = self.limits.verdict(len(state))
        return f"at least {observed}" if observed is not None and len(state) >= self.max_count else observed


_HALF, _LOW = (literal(number, pa.int64()) for number in (32, 2**32 - 1))
