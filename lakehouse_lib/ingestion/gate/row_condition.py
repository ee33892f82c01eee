"""The ``row_condition`` of a rule: the rule is only about the rows for which this condition is true."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import ir, parse
from lakehouse_lib.ingestion.gate import condition as conditions
from lakehouse_lib.ingestion.gate.arguments import Arguments, NotTranslatedError, column_of, is_number
from lakehouse_lib.ingestion.gate.comparison import among, compare
from lakehouse_lib.ingestion.gate.condition import Condition, HasValue, Not, Sql
from lakehouse_lib.schema import DataType, PrimitiveType, Schema

_LEGACY = re.compile(
    r"""col\("(?P<column>[^"\\]+)"\)
    (?:(?P<notnull>\.not[Nn]ull\(\))|\ ?(?P<operator>[<>=!]=|[<>])\ ?
    (?:(?P<number>[+-]?\d+(?:\.\d+)?)|"(?P<double>[\w.:\-]+)"|'(?P<single>[\w.:\-]+)'))\Z""",
    re.ASCII | re.VERBOSE,
)
_LEGACY_PARSERS = ("great_expectations", "great_expectations__experimental__")
#: Great Expectations passes a text with another parser, or with none, to Spark.
_SQL_PARSERS = (None, "spark", "pandas")
_MOST_CONDITIONS = 100
#: In SQL, a number with an exponent or a suffix, or with more than 18 digits before or after the point.
_LONG_NUMBER = re.compile(r"\d\.?[a-z]|\d{19}", re.ASCII | re.IGNORECASE)
#: The largest precision of a decimal column in SQL. Spark compares such a column with a literal that does not match
#: ``_LONG_NUMBER`` in a decimal type that holds both.
_MOST_DIGITS = 15


def row_condition(arguments: Arguments, schema: Schema) -> Condition | None:
    """The condition; None: the rule is about every row.

    Args:
        schema: the schema of ``arguments``, for conditions in SQL.
    """
    value, parser = arguments.get("row_condition"), arguments.get("condition_parser")
    if value is None:
        return None
    if isinstance(value, Mapping):
        if _count(value) > _MOST_CONDITIONS:
            raise NotTranslatedError("the row_condition has too many parts")
        return _tree(value, arguments.schema, schema, nested_in=())
    if isinstance(value, str) and parser in _LEGACY_PARSERS:
        return _legacy(value, arguments.schema)
    if isinstance(value, str) and parser in _SQL_PARSERS:
        return _sql(value, schema)
    raise NotTranslatedError("the row_condition is not valid")


def _count(value: Mapping[str, Any]) -> int:
    """The number of conditions in a tree. They are counted without recursion, so a tree may have any depth."""
    count, open_parts = 0, [value]
    while open_parts:
        count += 1
        parts = open_parts.pop().get("conditions")
        open_parts += [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    return count


def _tree(value: Mapping[str, Any], arrow: pa.Schema, schema: Schema, nested_in: tuple[str, ...]) -> Condition:
    match dict(value):
        case {
            "type": "comparison",
            "column": {"name": name, **unknown},
            "operator": str(operator),
            "parameter": literal,
            **others,
        } if not unknown and not others:
            return _comparison(name, operator, literal, arrow)
        case {"type": "nullity", "column": {"name": name, **unknown}, "is_null": bool(is_null), **others} if (
            not unknown and not others
        ):
            return HasValue(column_of(name, arrow).name, inverted=is_null)
        case {"type": "pass_through", "pass_through_filter": str(sql), **others} if not others and not nested_in:
            return _sql(sql, schema)
        case {"type": "and" | "or" as kind, "conditions": [_, *_] as parts, **others} if not others:
            if kind == "or" and nested_in:  # Great Expectations refuses it
                raise NotTranslatedError("the row_condition has a nested or")
            if not all(isinstance(part, Mapping) for part in parts):
                raise NotTranslatedError("the row_condition is not valid")
            operands = tuple(_tree(part, arrow, schema, (*nested_in, kind)) for part in parts)
            return conditions.AllOf(operands) if kind == "and" else conditions.AnyOf(operands)
    raise NotTranslatedError("the row_condition is not valid, or not translated")


def _comparison(name: Any, operator: str, value: Any, arrow: pa.Schema) -> Condition:
    """The condition of a comparison, which Great Expectations writes as SQL, with the ``repr`` of the value."""
    column = column_of(name, arrow)
    if operator in ("IN", "NOT_IN"):
        if not isinstance(value, list) or not value:
            raise NotTranslatedError("the row_condition has no list of values")
        if any(isinstance(item, bool) for item in value):
            raise NotTranslatedError("the row_condition has a list of booleans, which Great Expectations refuses")
        membership = among(column, [_sql_literal(item) for item in value])
        return membership if operator == "IN" else Not(membership)
    if operator not in ("==", "!=", "<", "<=", ">", ">="):
        raise NotTranslatedError(f"the row_condition has the operator {operator!r}")
    return compare(column, operator, _sql_literal(value))


def _sql_literal(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float) and is_number(value):
        text = repr(value)
        return value if "e" in text else Decimal(text)
    if isinstance(value, str) and value.isprintable() and not set(value) & set("\\'\""):
        return value
    raise NotTranslatedError("the row_condition has a value that is not translated")


def _sql(text: str, schema: Schema) -> Condition:
    from lakehouse_lib.expressions.parsing.names.column_references import columns_in  # the module loads sqlglot

    try:
        predicate = parse(text, schema)
    except InvalidPredicateError:
        raise NotTranslatedError("the row_condition is not valid SQL for this library") from None
    if not all(_is_simple(node) for node in ir.walk(predicate.root)):
        raise NotTranslatedError("the row_condition has SQL that is not translated")
    # The columns of the text: the predicate of ``whole <=> 0.1`` is false and has no column, but Spark rounds 0.1.
    if _LONG_NUMBER.search(text) or any(_is_long_decimal(column.type) for column in columns_in(text, schema)):
        raise NotTranslatedError("the row_condition has a double, or a decimal of many digits, which Spark may round")
    return Sql(predicate)


def _is_long_decimal(kind: DataType) -> bool:
    digits = kind.decimal if isinstance(kind, PrimitiveType) else None
    return digits is not None and digits[0] > _MOST_DIGITS


def _is_simple(node: ir.Node) -> bool:
    if isinstance(node, ir.Comparison):
        return isinstance(node.left, ir.Column) and isinstance(node.right, ir.Literal)
    return isinstance(node, ir.And | ir.Or | ir.Not | ir.IsNull | ir.In | ir.Like | ir.Column | ir.Literal)


def _legacy(text: str, arrow: pa.Schema) -> Condition:
    match = _LEGACY.match(text)
    if match is None:
        raise NotTranslatedError("the row_condition is not a simple comparison")
    if match["notnull"]:
        return HasValue(column_of(match["column"], arrow).name)
    number = match["number"]
    if number is None:
        return _comparison(match["column"], match["operator"], match["double"] or match["single"], arrow)
    return _comparison(match["column"], match["operator"], float(number) if "." in number else int(number), arrow)
