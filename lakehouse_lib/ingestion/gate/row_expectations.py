"""The expectations about single rows that are translated.

Each function returns the condition that Great Expectations expects of a row, and the conditions under which a row is
counted. It raises NotTranslatedError for arguments that Great Expectations converts or refuses.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import column as array_of
from lakehouse_lib.ingestion.gate import condition as conditions
from lakehouse_lib.ingestion.gate.arguments import Arguments, Column, NotTranslatedError, is_number
from lakehouse_lib.ingestion.gate.comparison import (
    DIGITS,
    among,
    between,
    compare,
    is_whole_number,
    split_at_literal,
    whole_numbers,
)
from lakehouse_lib.ingestion.gate.condition import Condition, HasValue, Matches, Not, Pair, Range
from lakehouse_lib.ingestion.gate.patterns.regex import to_re2

#: Arguments of every expectation about rows.
COMMON = ("mostly", "row_condition", "condition_parser")

#: Returns the expected condition, and the conditions of the rows that count.
Reader = Callable[[Arguments], tuple[Condition, list[Condition]]]
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?\Z", re.ASCII)
_FIRST_YEAR = 1900
_MOST_DIGITS = 38
#: The largest number of pairs in ``value_pairs_set``. Each pair is compared with all rows.
_MOST_PAIRS = 100


def _on_values(read: Callable[[Arguments, Column], Condition], *names: str) -> Reader:
    """An expectation about the values of a column; nulls do not count."""

    def reader(arguments: Arguments) -> tuple[Condition, list[Condition]]:
        arguments.allow("column", *names, *COMMON)
        column = arguments.column()
        return read(arguments, column), [HasValue(column.name)]

    return reader


def _on_nulls(inverted: bool) -> Reader:
    def reader(arguments: Arguments) -> tuple[Condition, list[Condition]]:
        arguments.allow("column", *COMMON)
        return HasValue(arguments.column().name, inverted), []

    return reader


def _between(arguments: Arguments, column: Column) -> Condition:
    low, high = bounds(arguments)
    if low is None and high is None:
        raise NotTranslatedError("min_value and max_value are left out")
    if low is not None and high is not None and (_kind_of(low) != _kind_of(high) or low > high):
        raise NotTranslatedError("min_value is greater than max_value, or of another type")
    return between(column, low, high, strict_low=arguments.flag("strict_min"), strict_high=arguments.flag("strict_max"))


def _kind_of(bound: Any) -> tuple[type, bool]:
    """The kind of a bound. Only bounds of the same kind can be compared."""
    return type(bound), isinstance(bound, dt.datetime) and bound.tzinfo is not None


def bounds(arguments: Arguments) -> tuple[Any, Any]:
    """The ends of a range, as Great Expectations converts them: doubles, dates or times."""
    return _bound(arguments.get("min_value")), _bound(arguments.get("max_value"))


def _bound(value: Any) -> float | dt.date | dt.datetime | None:
    if value is None:
        return None
    if is_number(value):
        return float(value)
    bound: dt.date | dt.datetime | None = None
    if isinstance(value, str):
        try:
            if _ISO_DATE.match(value):
                bound = dt.date.fromisoformat(value)
            elif _ISO_TIME.match(value):
                bound = dt.datetime.fromisoformat(value)
        except ValueError:
            raise NotTranslatedError(f"{value!r} is not a date") from None
    if bound is None:
        raise NotTranslatedError(f"the bound {value!r} is neither a number nor a date such as 2024-01-31")
    if bound.year < _FIRST_YEAR:  # Spark gets it in the Julian calendar, or not at all
        raise NotTranslatedError(f"a bound is before the year {_FIRST_YEAR}")
    return bound


def _in_set(arguments: Arguments, column: Column) -> Condition:
    membership = _membership(arguments, column)
    # With NULL in the list, IN is true or NULL, and a row for which it is NULL passes.
    return conditions.Constant(True) if None in arguments.items("value_set") else membership


def _outside_set(arguments: Arguments, column: Column) -> Condition:
    return Not(_membership(arguments, column))


def _membership(arguments: Arguments, column: Column) -> Condition:
    values = [value for value in arguments.items("value_set") if value is not None]
    if not all(isinstance(value, bool | str) or is_number(value) for value in values):
        raise NotTranslatedError("value_set has a value that is not translated")
    return among(column, values)


def _matches(column: Column, pattern: str) -> Condition:
    if not pa.types.is_string(column.kind):
        raise NotTranslatedError("a regular expression is matched with a column that is not text")
    return Matches(column.name, *to_re2(pattern))


def _match_list(arguments: Arguments, column: Column) -> Condition:
    patterns = arguments.texts("regex_list")
    match_on = arguments.rule.arguments.get("match_on", "any")
    if match_on == "any":
        return _matches(column, "|".join(patterns))
    if match_on != "all":
        raise NotTranslatedError("match_on is neither any nor all")
    return conditions.AllOf(tuple(_matches(column, pattern) for pattern in patterns))


def _match_none(arguments: Arguments, column: Column) -> Condition:
    return conditions.AllOf(tuple(Not(_matches(column, pattern)) for pattern in arguments.texts("regex_list")))


def _length_between(arguments: Arguments, column: Column) -> Condition:
    low, high = arguments.integer("min_value"), arguments.integer("max_value")
    if low is None and high is None:
        raise NotTranslatedError("min_value and max_value are left out")
    return _length(column, low, high, arguments.flag("strict_min"), arguments.flag("strict_max"))


def _length_equal(arguments: Arguments, column: Column) -> Condition:
    value = arguments.number("value")
    if value is None:
        raise NotTranslatedError("value is left out")
    if value != int(value):
        return _length(column, 1, 0, False, False)
    return _length(column, int(value), int(value), False, False)


def _length(column: Column, low: int | None, high: int | None, strict_low: bool, strict_high: bool) -> Condition:
    if not (pa.types.is_string(column.kind) or pa.types.is_binary(column.kind)):
        raise NotTranslatedError("the column has no length")
    if any(value is not None and abs(value) >= 2**31 for value in (low, high)):
        raise NotTranslatedError("the length is out of range")
    first, last = (None if value is None else array_of([value], pa.int32()) for value in (low, high))
    return Range(column.name, first, last, strict_low, strict_high, length=True)


def _parsed(arguments: Arguments, column: Column) -> Condition:
    if not pa.types.is_string(column.kind):
        raise NotTranslatedError("the column is not text")
    pattern = arguments.text("strftime_format") if "strftime_format" in arguments.rule.arguments else None
    if pattern is not None:
        try:  # as Great Expectations checks the format
            dt.datetime.strptime(dt.datetime(2000, 1, 1).strftime(pattern), pattern)  # noqa: DTZ001, DTZ007
        except ValueError:
            raise NotTranslatedError("strftime_format is not valid") from None
    elif "strftime" in arguments.rule.type:
        raise NotTranslatedError("strftime_format is left out")
    return conditions.EachText(column.name, pattern)


def _pair(read: Callable[[Arguments, Column, Column], Condition], *names: str) -> Reader:
    """An expectation about two columns; ``ignore_row_if`` says which rows count."""

    def reader(arguments: Arguments) -> tuple[Condition, list[Condition]]:
        arguments.allow("column_A", "column_B", "ignore_row_if", *names, *COMMON)
        pair = [arguments.column("column_A"), arguments.column("column_B")]
        counted = _counted(
            arguments, pair, all_missing="both_values_are_missing", any_missing="either_value_is_missing",
            none="neither",
        )  # fmt: skip
        return read(arguments, *pair), counted

    return reader


def _several(read: Callable[[Arguments, list[Column]], Condition], *names: str) -> Reader:
    """An expectation about several columns; ``ignore_row_if`` says which rows count."""

    def reader(arguments: Arguments) -> tuple[Condition, list[Condition]]:
        arguments.allow("column_list", "ignore_row_if", *names, *COMMON)
        columns = arguments.columns()
        counted = _counted(
            arguments, columns, all_missing="all_values_are_missing", any_missing="any_value_is_missing", none="never"
        )
        return read(arguments, columns), counted

    return reader


def _counted(
    arguments: Arguments, columns: Sequence[Column], *, all_missing: str, any_missing: str, none: str
) -> list[Condition]:
    ignored = arguments.rule.arguments.get("ignore_row_if", all_missing)
    present = tuple(HasValue(column.name) for column in columns)
    if ignored == all_missing:
        return [conditions.AnyOf(present)]
    if ignored == any_missing:
        return [conditions.AllOf(present)]
    if ignored != none:
        raise NotTranslatedError("ignore_row_if is not valid")
    return []


def _greater(arguments: Arguments, left: Column, right: Column) -> Condition:
    kind = common_kind(left.kind, right.kind)
    or_equal = arguments.get("or_equal") is not None and arguments.flag("or_equal")
    if not or_equal:
        return Pair(left.name, ">", right.name, kind)
    return Pair(left.name, ">=", right.name, kind)


def _equal_pair(_: Arguments, left: Column, right: Column) -> Condition:
    return _equal(left, right)


def _pair_in_set(arguments: Arguments, left: Column, right: Column) -> Condition:
    if arguments.get("row_condition") is not None:
        raise NotTranslatedError("Great Expectations ignores its row_condition")
    pairs = arguments.items("value_pairs_set")
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise NotTranslatedError("value_pairs_set is not a list of pairs")
    if len(pairs) > _MOST_PAIRS:
        raise NotTranslatedError(f"value_pairs_set has more than {_MOST_PAIRS} pairs")
    return conditions.AnyOf(
        tuple(conditions.AllOf((_equal_value(left, first), _equal_value(right, second))) for first, second in pairs)
    )


def _equal_value(column: Column, value: Any) -> Condition:
    """``column <=> value``, which is never null."""
    if value is None:
        return HasValue(column.name, inverted=True)
    return conditions.AllOf((HasValue(column.name), compare(column, "==", value)))


def _all_equal(_: Arguments, columns: list[Column]) -> Condition:
    return conditions.AllOf(tuple(_equal(columns[0], column) for column in columns[1:]))


def _all_different(_: Arguments, columns: list[Column]) -> Condition:
    return Not(conditions.AnyOf(tuple(_equal(left, right) for left, right in combinations(columns, 2))))


def _equal(left: Column, right: Column) -> Pair:
    return Pair(left.name, "<=>", right.name, common_kind(left.kind, right.kind))


def _sum(arguments: Arguments, columns: list[Column]) -> Condition:
    total = arguments.number("sum_total")
    if total is None:
        raise NotTranslatedError("sum_total is left out")
    kinds = [column.kind for column in columns]
    names = tuple(column.name for column in columns)
    if all(pa.types.is_float64(kind) for kind in kinds):
        end = array_of([float(total)], pa.float64())
        return conditions.Sum(names, pa.float64(), end, end)
    if all(pa.types.is_integer(kind) for kind in kinds):
        digits, scale = 19, 0
    elif all(pa.types.is_decimal128(kind) for kind in kinds):
        digits, scale = max(10, *(kind.precision - kind.scale for kind in kinds)), max(kind.scale for kind in kinds)
    else:
        raise NotTranslatedError("the columns are not all integers, all decimals or all doubles")
    if digits + scale + len(columns) - 1 > _MOST_DIGITS:
        raise NotTranslatedError("the sum may have more than 38 digits")
    widest = pa.decimal128(_MOST_DIGITS, scale)
    most = 10**_MOST_DIGITS - 1
    first, after = split_at_literal(float(total), widest)
    if first > most or after - 1 < -most or first == after:
        return conditions.Constant(False)
    low, high = (whole_numbers([number], widest) for number in (max(first, -most), min(after - 1, most)))
    return conditions.Sum(names, pa.decimal128(digits + scale, scale), low, high)


def common_kind(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which Spark compares two columns, if Arrow compares them alike."""
    for kind in (left, right):
        if not (
            is_whole_number(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)
        ):
            raise NotTranslatedError(f"columns of the type {kind} are not compared")
    if left == right:
        return left
    kinds = {left, right}
    decimals = [kind for kind in kinds if pa.types.is_decimal(kind)]
    integers = [kind for kind in kinds if pa.types.is_integer(kind)]
    if len(integers) == 2:
        return max(integers, key=lambda kind: int(kind.bit_width))
    if decimals and len(decimals) + len(integers) == 2:
        scale = max(kind.scale for kind in decimals)
        digits = max(
            *(DIGITS[kind.bit_width] for kind in integers), *(kind.precision - kind.scale for kind in decimals), 0
        )
        if digits + scale > _MOST_DIGITS:
            raise NotTranslatedError("no decimal of 38 digits holds the values of both columns")
        return pa.decimal128(digits + scale, scale)
    if pa.float64() in kinds and (integers or pa.float32() in kinds):
        return pa.float64()
    times = [kind for kind in kinds if pa.types.is_timestamp(kind)]
    if len(times) == 1 and pa.date32() in kinds:
        return times[0]
    raise NotTranslatedError(f"columns of the types {left} and {right} are not compared")


#: The readers of expectations, by their names.
EXPECTATIONS: dict[str, Reader] = {
    "expect_column_values_to_not_be_null": _on_nulls(inverted=False),
    "expect_column_values_to_be_null": _on_nulls(inverted=True),
    "expect_column_values_to_be_between": _on_values(_between, "min_value", "max_value", "strict_min", "strict_max"),
    "expect_column_values_to_be_in_set": _on_values(_in_set, "value_set"),
    "expect_column_values_to_not_be_in_set": _on_values(_outside_set, "value_set"),
    "expect_column_values_to_match_regex": _on_values(
        lambda arguments, column: _matches(column, arguments.text("regex")), "regex"
    ),
    "expect_column_values_to_not_match_regex": _on_values(
        lambda arguments, column: Not(_matches(column, arguments.text("regex"))), "regex"
    ),
    "expect_column_values_to_match_regex_list": _on_values(_match_list, "regex_list", "match_on"),
    "expect_column_values_to_not_match_regex_list": _on_values(_match_none, "regex_list"),
    "expect_column_value_lengths_to_be_between": _on_values(
        _length_between, "min_value", "max_value", "strict_min", "strict_max"
    ),
    "expect_column_value_lengths_to_equal": _on_values(_length_equal, "value"),
    "expect_column_values_to_be_json_parseable": _on_values(_parsed),
    "expect_column_values_to_match_strftime_format": _on_values(_parsed, "strftime_format"),
    "expect_column_pair_values_a_to_be_greater_than_b": _pair(_greater, "or_equal"),
    "expect_column_pair_values_to_be_equal": _pair(_equal_pair),
    "expect_column_pair_values_to_be_in_set": _pair(_pair_in_set, "value_pairs_set"),
    "expect_multicolumn_sum_to_equal": _several(_sum, "sum_total"),
    "expect_multicolumn_values_to_be_equal": _several(_all_equal),
    "expect_select_column_values_to_be_unique_within_record": _several(_all_different),
}
