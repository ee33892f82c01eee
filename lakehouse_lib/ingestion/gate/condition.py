"""Conditions on rows: picklable values that compute a nullable mask of a record batch.

Null means unknown, as in SQL. Values compare as in Spark: NaN equals itself and is greater than every other number, 0.0
equals -0.0, and text is compared by its bytes in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, bools
from lakehouse_lib.expressions import Predicate, matches

#: The line terminators that Java's ``$`` ignores at the end of a text.
LINE_ENDS = ("\n", "\r", "\u0085", "\u2028", "\u2029")


class Condition(Protocol):
    """A condition on the rows of a batch."""

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row true, false or null."""


@dataclass(frozen=True)
class Constant:
    """The same answer for every row."""

    holds: bool

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(bools([self.holds])[0], batch.num_rows)


@dataclass(frozen=True)
class HasValue:
    """Whether a column is not null; with ``inverted``, whether it is null."""

    column: str
    inverted: bool = False

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        return values.is_null() if self.inverted else values.is_valid()


@dataclass(frozen=True)
class Range:
    """Whether a value is in a range.

    Attributes:
        low, high: arrays of one value of the column's type, or of doubles for a float; None: the range has no such end.
            They are not scalars, because a scalar of a date after the year 9999 cannot be pickled.
        strict_low, strict_high: whether the end itself is outside.
        length: whether the range is about the length of texts in characters, or of binaries in bytes.
    """

    column: str
    low: pa.Array | None
    high: pa.Array | None
    strict_low: bool = False
    strict_high: bool = False
    length: bool = False

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        if self.length:
            is_binary = pa.types.is_binary(values.type)
            values = pc.binary_length(values) if is_binary else pc.utf8_length(values)
        parts = []
        if self.low is not None:
            if pa.types.is_floating(values.type):  # NaN is not below any number
                parts.append(pc.invert((pc.less_equal if self.strict_low else pc.less)(values, self.low[0])))
            else:
                parts.append((pc.greater if self.strict_low else pc.greater_equal)(values, self.low[0]))
        if self.high is not None:
            parts.append((pc.less if self.strict_high else pc.less_equal)(values, self.high[0]))
        return reduce(pc.and_kleene, parts)


@dataclass(frozen=True)
class OneOf:
    """Whether a value is in a set.

    Attributes:
        values: an array of the column's type, without nulls; it may be empty.
    """

    column: str
    values: pa.Array

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        return _null_where_null(pc.is_in(values, self.values), values)


@dataclass(frozen=True)
class Matches:
    """Whether a text contains a match of a regular expression of RE2.

    Attributes:
        at_line_end: whether the pattern has a ``$`` of Java, which also matches before a line terminator at the end of
            the text.
    """

    column: str
    pattern: str
    at_line_end: bool = False

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        is_match = pc.match_substring_regex(values, self.pattern)
        if not self.at_line_end:
            return is_match
        ends = [pc.ends_with(values, end) for end in LINE_ENDS]
        if not any(pc.any(mask).as_py() for mask in ends):
            return is_match
        cut = pc.replace_substring_regex(values, rf"(?:\r\n|[{''.join(LINE_ENDS)}])\z", "")
        return pc.or_(is_match, pc.match_substring_regex(cut, self.pattern))


@dataclass(frozen=True)
class EachText:
    """Whether Python parses a text: as JSON, or by a format of ``strptime``. Each distinct text is parsed once a batch.

    Attributes:
        format: the format; None: JSON.
    """

    column: str
    format: str | None = None

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        texts = pc.dictionary_encode(batch.column(self.column))
        parse: Callable[[str], object] = json.loads if self.format is None else self._time
        answers = bools([_parses(parse, text) for text in texts.dictionary.to_pylist()])
        return answers.take(texts.indices)

    def _time(self, text: str) -> object:
        return datetime.strptime(text, self.format or "")  # noqa: DTZ007 - the result is not used


@dataclass(frozen=True)
class Pair:
    """A comparison of two columns.

    Attributes:
        operator: >, >= or <=> (equal, and null equals null).
        kind: the type in which they are compared.
    """

    left: str
    operator: str
    right: str
    kind: pa.DataType

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        left, right = (batch.column(name) for name in (self.left, self.right))
        nulls = left.null_count + right.null_count
        left, right = (values if values.type == self.kind else values.cast(self.kind, safe=False)
                       for values in (left, right))  # fmt: skip
        if self.operator == "<=>":
            equal = self._equal(left, right)
            if not nulls:
                return equal
            both_null = pc.and_(left.is_null(), right.is_null())
            return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), equal, both_null)
        result = (pc.greater if self.operator == ">" else pc.greater_equal)(left, right)
        if not pa.types.is_floating(self.kind):
            return result
        # ``or_`` and ``and_`` are null if an operand is, as the comparison has to be.
        result = pc.or_(result, pc.is_nan(left))
        return result if self.operator == ">=" else pc.and_(result, pc.invert(pc.is_nan(right)))

    def _equal(self, left: pa.Array, right: pa.Array) -> pa.Array:
        equal = pc.equal(left, right)
        if not pa.types.is_floating(self.kind):
            return equal
        return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


@dataclass(frozen=True)
class Sum:
    """Whether the sum of columns, with 0 for null, is in a range.

    Attributes:
        kind: the type to which the columns are cast before they are added: double, or a decimal.
        low, high: arrays of one value, of the sum's type; both ends are in the range.
    """

    columns: tuple[str, ...]
    kind: pa.DataType
    low: pa.Array
    high: pa.Array

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        zero = _zero(self.kind)
        terms = [pc.fill_null(batch.column(name).cast(self.kind), zero) for name in self.columns]
        total = reduce(pc.add, terms)
        return pc.and_(pc.greater_equal(total, self.low[0]), pc.less_equal(total, self.high[0]))


@dataclass(frozen=True)
class Sql:
    """A predicate of the library."""

    predicate: Predicate

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        return matches(self.predicate, batch)


@dataclass(frozen=True)
class Not:
    operand: Condition

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.invert(self.operand.mask(batch))


@dataclass(frozen=True)
class AllOf:
    operands: tuple[Condition, ...]

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        return reduce(pc.and_kleene, (operand.mask(batch) for operand in self.operands))


@dataclass(frozen=True)
class AnyOf:
    operands: tuple[Condition, ...]

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        return reduce(pc.or_kleene, (operand.mask(batch) for operand in self.operands))


def conjunction(operands: list[Condition]) -> Condition | None:
    """The condition that all operands hold; None: there are none."""
    if not operands:
        return None
    return operands[0] if len(operands) == 1 else AllOf(tuple(operands))


def _null_where_null(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), mask, pa.nulls(1, pa.bool_())[0]) if values.null_count else as_array(mask)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(kind.bit_width // 8))])[0]


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except Exception:  # as Great Expectations does; json.loads raises RecursionError for deep nesting
        return False
    return True
