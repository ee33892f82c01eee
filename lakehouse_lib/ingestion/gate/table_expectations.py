"""The expectations about a batch as a whole that are translated.

Each function returns the measure of a rule. It raises NotTranslatedError for arguments that Great Expectations converts
or refuses, and for a rule whose observed value on Spark is not exact.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakehouse_lib.ingestion.gate.arguments import Arguments, Column, NotTranslatedError, is_number
from lakehouse_lib.ingestion.gate.comparison import among
from lakehouse_lib.ingestion.gate.condition import OneOf
from lakehouse_lib.ingestion.gate.measures import (
    DistinctCount,
    Extreme,
    Limits,
    PresentShare,
    RowCount,
    SetDifference,
    Static,
    Total,
)
from lakehouse_lib.ingestion.gate.row_expectations import bounds
from lakehouse_lib.ingestion.gate.table_rule import Measure

_CONDITION = ("row_condition", "condition_parser")
_BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")
#: The largest number of distinct values that are counted; more would take too much memory.
MOST_DISTINCT = 10_000
#: With more digits, Spark's sum of decimals may overflow.
_MOST_DIGITS_OF_SUMS = 28

#: The Arrow types of each of Spark's classes of types. Spark's names are those of ``pyspark.sql.types``.
_SPARK_TYPES: dict[str, Callable[[pa.DataType], bool]] = {
    "ByteType": pa.types.is_int8,
    "ShortType": pa.types.is_int16,
    "IntegerType": pa.types.is_int32,
    "LongType": pa.types.is_int64,
    "IntegralType": pa.types.is_integer,
    "FloatType": pa.types.is_float32,
    "DoubleType": pa.types.is_float64,
    "DecimalType": pa.types.is_decimal,
    "StringType": pa.types.is_string,
    "BinaryType": pa.types.is_binary,
    "BooleanType": pa.types.is_boolean,
    "DateType": pa.types.is_date,
    "TimestampType": lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    "TimestampNTZType": lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    "ArrayType": pa.types.is_list,
    "MapType": pa.types.is_map,
    "StructType": pa.types.is_struct,
}


def _row_count_between(arguments: Arguments) -> Measure:
    arguments.allow(*_BOUNDS, *_CONDITION)
    return RowCount(_counts(arguments))


def _row_count_equal(arguments: Arguments) -> Measure:
    arguments.allow("value", *_CONDITION)
    value = arguments.integer("value")
    if value is None:
        raise NotTranslatedError("value is left out")
    return RowCount(Limits(value, value))


def _present_share(arguments: Arguments) -> Measure:
    arguments.allow("column", *_BOUNDS)  # with a row_condition, Great Expectations divides by the number of all rows
    low, high = arguments.number("min_value"), arguments.number("max_value")
    return PresentShare(arguments.column().name, _limits(arguments, low, high))


def _extreme(greatest: bool) -> Callable[[Arguments], Measure]:
    def reader(arguments: Arguments) -> Measure:
        arguments.allow("column", *_BOUNDS, *_CONDITION)
        column = arguments.column()
        if not (_is_numeric(column.kind) or pa.types.is_date(column.kind)):
            raise NotTranslatedError(f"a column of the type {column.kind} is not compared")
        expected = dt.date if pa.types.is_date(column.kind) else float
        low, high = bounds(arguments)
        if any(type(limit) is not expected for limit in (low, high) if limit is not None):
            raise NotTranslatedError("the limits have another type than the column")
        return Extreme(column.name, _limits(arguments, low, high), greatest)

    return reader


def _total(mean: bool) -> Callable[[Arguments], Measure]:
    def reader(arguments: Arguments) -> Measure:
        arguments.allow("column", *_BOUNDS, *_CONDITION)
        column = arguments.column()
        if mean and (pa.types.is_int8(column.kind) or pa.types.is_int16(column.kind)):
            raise NotTranslatedError("Great Expectations has no mean of bytes and shorts")
        if pa.types.is_decimal(column.kind):
            if column.kind.precision > _MOST_DIGITS_OF_SUMS:
                raise NotTranslatedError("the sum may have more than 38 digits")
        elif not pa.types.is_integer(column.kind):
            raise NotTranslatedError("the sum of doubles depends on the order of the rows")
        low, high = bounds(arguments)
        if not all(isinstance(limit, float) for limit in (low, high) if limit is not None):
            raise NotTranslatedError("the limits are not numbers")
        return Total(column, _limits(arguments, low, high), mean)

    return reader


def _set_difference(*, refuses_others: bool, requires_all: bool) -> Callable[[Arguments], Measure]:
    def reader(arguments: Arguments) -> Measure:
        arguments.allow("column", "value_set", *_CONDITION)
        column, values = arguments.column(), arguments.items("value_set")
        if not values or not all(isinstance(value, bool | str) or is_number(value) for value in values):
            raise NotTranslatedError("value_set is empty, or has a value that is not translated")
        membership = among(column, values)
        if not isinstance(membership, OneOf) or pa.types.is_floating(column.kind):
            raise NotTranslatedError("doubles are not counted")
        return SetDifference(membership, len(values), refuses_others, requires_all)

    return reader


def _distinct_count(arguments: Arguments) -> Measure:
    arguments.allow("column", *_BOUNDS, *_CONDITION)
    column = arguments.column()
    if pa.types.is_nested(column.kind) or pa.types.is_floating(column.kind):
        raise NotTranslatedError(f"values of the type {column.kind} are not counted")
    limits = _counts(arguments)
    if any(limit > MOST_DISTINCT for limit in (limits.low, limits.high) if limit is not None):
        raise NotTranslatedError(f"more than {MOST_DISTINCT} distinct values are not counted")
    return DistinctCount(column.name, column.kind, limits)


def _of_type(argument: str) -> Callable[[Arguments], Measure]:
    def reader(arguments: Arguments) -> Measure:
        arguments.allow("column", argument, "mostly")
        arguments.mostly()
        column = arguments.column()
        names = [arguments.text(argument)] if argument == "type_" else arguments.texts(argument)
        unknown = [name for name in names if name not in _SPARK_TYPES]
        if unknown:
            raise NotTranslatedError(f"{unknown[0]} is not translated")
        is_of_type = any(_SPARK_TYPES[name](column.kind) for name in names)
        return Static(None if is_of_type else repr(_spark_type(column)))

    return reader


def _column_exists(arguments: Arguments) -> Measure:
    arguments.allow("column")
    return Static(None if arguments.text("column") in arguments.schema.names else "no such column")


def _column_count_equal(arguments: Arguments) -> Measure:
    arguments.allow("value")
    value, observed = arguments.integer("value"), len(_names(arguments))
    if value is None:
        raise NotTranslatedError("value is left out")
    return Static(Limits(value, value).verdict(observed))


def _column_count_between(arguments: Arguments) -> Measure:
    arguments.allow("min_value", "max_value")
    return Static(_counts(arguments).verdict(len(_names(arguments))))


def _columns_in_order(arguments: Arguments) -> Measure:
    arguments.allow("column_list")
    observed = _names(arguments)
    return Static(None if arguments.texts("column_list") == observed else repr(observed))


def _columns_in_set(arguments: Arguments) -> Measure:
    arguments.allow("column_set", "exact_match")
    observed, expected = set(_names(arguments)), set(arguments.texts("column_set"))
    is_exact = "exact_match" not in arguments.rule.arguments or arguments.flag("exact_match")
    keeps = observed == expected if is_exact else observed >= expected
    return Static(None if keeps else repr(sorted(observed)))


def _names(arguments: Arguments) -> list[str]:
    if any(pa.types.is_nested(kind) for kind in arguments.schema.types):
        raise NotTranslatedError("Great Expectations counts the members of nested columns as columns")
    return list(arguments.schema.names)


def _spark_type(column: Column) -> str:
    names = (name for name, has in _SPARK_TYPES.items() if has(column.kind) and name != "IntegralType")
    return next(names, str(column.kind))


def _counts(arguments: Arguments) -> Limits:
    low, high = arguments.integer("min_value"), arguments.integer("max_value")
    if low is not None and high is not None and low > high:
        raise NotTranslatedError("min_value is greater than max_value")
    return _limits(arguments, low, high)


def _limits(arguments: Arguments, low: Any, high: Any) -> Limits:
    if low is None and high is None:
        raise NotTranslatedError("min_value and max_value are left out")
    return Limits(low, high, arguments.flag("strict_min"), arguments.flag("strict_max"))


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


#: The readers of expectations, by their names.
EXPECTATIONS: dict[str, Callable[[Arguments], Measure]] = {
    "expect_table_row_count_to_be_between": _row_count_between,
    "expect_table_row_count_to_equal": _row_count_equal,
    "expect_column_proportion_of_non_null_values_to_be_between": _present_share,
    "expect_column_min_to_be_between": _extreme(greatest=False),
    "expect_column_max_to_be_between": _extreme(greatest=True),
    "expect_column_sum_to_be_between": _total(mean=False),
    "expect_column_mean_to_be_between": _total(mean=True),
    "expect_column_distinct_values_to_be_in_set": _set_difference(refuses_others=True, requires_all=False),
    "expect_column_distinct_values_to_contain_set": _set_difference(refuses_others=False, requires_all=True),
    "expect_column_distinct_values_to_equal_set": _set_difference(refuses_others=True, requires_all=True),
    "expect_column_unique_value_count_to_be_between": _distinct_count,
    "expect_column_to_exist": _column_exists,
    "expect_table_column_count_to_equal": _column_count_equal,
    "expect_table_column_count_to_be_between": _column_count_between,
    "expect_table_columns_to_match_ordered_list": _columns_in_order,
    "expect_table_columns_to_match_set": _columns_in_set,
    "expect_column_values_to_be_of_type": _of_type("type_"),
    "expect_column_values_to_be_in_type_list": _of_type("type_list"),
}
