"""Spark's dialect in sqlglot, with the grammar of Spark where that of sqlglot differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sqlglot import Dialect, exp
from sqlglot.tokens import TokenType

#: Functions that sqlglot would write as others (``LOG(10, x)``, ``SIZE(a)``), or without parentheses.
_AS_WRITTEN = (
    *("ARRAY_SIZE", "COLLATE", "CURRENT_CATALOG", "LOCALTIME", "LOCALTIMESTAMP", "LOG10", "LOG2", "PARSE_JSON"),
    "SESSION_USER",
)
#: Functions that sqlglot writes as operators; Spark's operators have another precedence than a call.
_AS_OPERATORS = ("ILIKE", "LIKE", "MOD", "REGEXP_LIKE", "RLIKE", "SHIFTLEFT", "SHIFTRIGHT")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_PREDICATES = (exp.Between, exp.Escape, exp.ILike, exp.In, exp.Is, exp.Like, exp.NullSafeNEQ, exp.RegexpLike)
#: The operators of Spark, from those that bind weakest; operators in one group are read from left to right.
_PRECEDENCE: tuple[tuple[Any, ...], ...] = (
    (exp.Or,),
    (exp.And,),
    (exp.Not,),
    _PREDICATES,
    _COMPARISONS,
    (exp.BitwiseOr,),
    (exp.BitwiseXor,),
    (exp.BitwiseAnd,),
    (exp.BitwiseLeftShift, exp.BitwiseRightShift),
    (exp.Add, exp.Sub, exp.DPipe),
    (exp.Mul, exp.Div, exp.IntDiv, exp.Mod),
    (exp.BitwiseNot, exp.Neg),
    (exp.Collate,),
)
_LEVELS = {kind: level for level, kinds in enumerate(_PRECEDENCE) for kind in kinds}
#: Functions that may have a unit of time as an argument.
_WITH_UNIT = ("DATEADD", "DATEDIFF", "DATE_ADD", "DATE_DIFF", "DATE_TRUNC", "TIMESTAMPADD", "TIMESTAMPDIFF", "TRUNC")
#: The names of Spark's types, without TIME, which sqlglot writes as TIMESTAMP.
TYPE_NAMES = frozenset(
    [
        *(
            "ARRAY",
            "BIGINT",
            "BINARY",
            "BOOLEAN",
            "BYTE",
            "CHAR",
            "CHARACTER",
            "DATE",
            "DEC",
            "DECIMAL",
            "DOUBLE",
            "FLOAT",
        ),
        *("INT", "INTEGER", "INTERVAL", "LONG", "MAP", "NUMERIC", "REAL", "SHORT", "SMALLINT", "STRING", "STRUCT"),
        *("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TINYINT", "VARCHAR", "VARIANT", "VOID"),
    ]
)
#: Types that may have a length or a number of digits, such as DECIMAL(5, 2).
_SIZED_TYPES = ("CHAR", "CHARACTER", "DEC", "DECIMAL", "NUMERIC", "VARCHAR")
#: The units of an INTERVAL in Spark. sqlglot takes more, such as m for minutes.
_INTERVAL_UNITS = frozenset(
    unit + plural
    for unit in (
        *("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
        *("MILLISECOND", "MICROSECOND", "NANOSECOND"),
    )
    for plural in ("", "S")
)
#: The text of an interval with one unit, of which sqlglot finds only the number and the unit.
_INTERVAL_TEXT = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]+)?\s+([a-zA-Z]+)\s*")
#: The suffixes of numbers, such as 1L, which sqlglot reads as casts to a type.
_NUMBER_SUFFIXES = frozenset(("BD", "D", "F", "L", "S", "Y"))

DIALECT = Dialect.get_or_raise("spark")
_BASE = DIALECT.parser_class


def _in_parentheses(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A builder of a call's tree, with parentheses around the tree."""
    return lambda arguments: parenthesized(build(arguments))


def parenthesized(tree: Any) -> Any:
    """A tree in parentheses. sqlglot's own parentheses have no mark: they show how it reads a text without them."""
    parentheses = exp.Paren(this=tree)
    parentheses.meta["is_explicit"] = True
    return parentheses


def _parse_paren(parser: Any) -> Any:
    """The expression in parentheses at the parser's position."""
    tree = _BASE._parse_paren(parser)
    if isinstance(tree, exp.Paren):
        tree.meta["is_explicit"] = True
    return tree


def _plus(parser: Any) -> Any:
    """The operand after a plus sign, with a mark if it is not a number. Spark converts it: +'1' is the number 1."""
    is_number = _is_number_next(parser)
    operand = parser._parse_unary()
    if operand is not None and not (is_number and isinstance(operand, exp.Literal)):
        operand.meta["has_plus_sign"] = True
    return operand


def _minus(parser: Any) -> Any:
    """The negative of the operand after a minus sign. The sign is a part of a number: -1::string is '-1'."""
    is_number = _is_number_next(parser)
    operand = number = parser._parse_unary()
    while is_number and not (isinstance(number, exp.Literal) or _has_suffix(number)):
        number = number.this
    if number is operand:
        return parser.expression(exp.Neg(this=operand))
    number.replace(exp.Neg(this=number.copy()))
    return operand


def _has_suffix(number: Any) -> bool:
    """Whether a tree is a number with a suffix, such as 1.5D, or 1.5BD, which is TRY_CAST('1.5' AS DECIMAL(2, 1))."""
    return isinstance(number, exp.Cast) and ("is_suffix" in number.to.meta or number.this.is_string)


def _is_number_next(parser: Any) -> bool:
    return parser._curr.token_type in (TokenType.NUMBER, TokenType.DOT)


def _parse_interval_span(parser: Any, number: Any, *arguments: Any, **options: Any) -> Any:
    """The interval at the parser's position, with its text as ``unknown_unit`` if Spark reads another interval."""
    start = parser._index
    interval = _BASE._parse_interval_span(parser, number, *arguments, **options)
    units = [token.text.upper() for token in parser._tokens[start : parser._index]]
    if not units and interval.args.get("unit") is not None:  # the unit is in the text: INTERVAL '1 day'
        match = _INTERVAL_TEXT.fullmatch(number.name)
        units = [number.name if match is None else match[2].upper()]
    if not _INTERVAL_UNITS.issuperset(unit for unit in units if unit != "TO"):
        interval.meta["unknown_unit"] = " ".join(units)
    return interval


def _with_unit(name: str, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A builder of a call with a unit. sqlglot reads M as minutes, and in trunc(day, x) a column x as a unit."""
    is_text = name in ("DATE_TRUNC", "TRUNC")

    def built(arguments: Any) -> Any:
        unit = arguments[name == "TRUNC"] if len(arguments) == (2 if is_text else 3) else None
        is_abbreviation = unit is not None and unit.name.upper() in exp.TimeUnit.UNABBREVIATED_UNIT_NAME
        if is_abbreviation or (is_text and not (isinstance(unit, exp.Literal) and unit.is_string)):
            return exp.Anonymous(this=name, expressions=arguments)
        return build(arguments)

    return built


def _parse_types(parser: Any, *arguments: Any, **options: Any) -> Any:
    """The type at the parser's position, with its name as ``unknown_name`` if Spark lacks the type."""
    start = parser._index
    kind = _BASE._parse_types(parser, *arguments, **options)
    if isinstance(kind, exp.DataType):
        name, *rest = [token.text.upper() for token in parser._tokens[start : parser._index]]
        if rest == ["WITHOUT", "TIME", "ZONE"]:
            kind.set("this", exp.DataType.Type.TIMESTAMPNTZ)
        is_known = name in TYPE_NAMES and rest != ["WITH", "TIME", "ZONE"]
        if rest[:1] == ["("] and name not in _SIZED_TYPES:
            is_known = False
        if name in _NUMBER_SUFFIXES:
            kind.meta["is_suffix"] = True
        elif not is_known:
            kind.meta["unknown_name"] = " ".join([name, *rest])
    return kind


#: sqlglot's parser of Spark's SQL.
PARSER = type(
    "_Parser",
    (_BASE,),
    {
        "FUNCTIONS": {
            name: _in_parentheses(build) if name in _AS_OPERATORS else build
            for name, build in _BASE.FUNCTIONS.items()
            if name not in _AS_WRITTEN
        }
        | {name: _with_unit(name, _BASE.FUNCTIONS[name]) for name in _WITH_UNIT},
        # In Spark, these operators have one precedence, and so do all comparisons.
        "TERM": {**_BASE.TERM, TokenType.DPIPE: partial(exp.DPipe, safe=not DIALECT.STRICT_STRING_CONCAT)},
        "COMPARISON": {**_BASE.COMPARISON, **_BASE.EQUALITY},
        "EQUALITY": {},
        "UNARY_PARSERS": {**_BASE.UNARY_PARSERS, TokenType.PLUS: _plus, TokenType.DASH: _minus},
        "_parse_interval_span": _parse_interval_span,
        "_parse_paren": _parse_paren,
        "_parse_types": _parse_types,
    },
)
#: Names that sqlglot does not read as columns: functions without parentheses, such as ``CURRENT_DATE``, and ``FETCH``.
BARE_WORDS = frozenset(("FETCH", *(kind.name for kind in _BASE.NO_PAREN_FUNCTIONS)))


def unknown_types(tree: Any) -> list[str]:
    """The names of types in a tree that Spark lacks, or that sqlglot would write as another type."""
    return [kind.meta["unknown_name"] for kind in tree.find_all(exp.DataType) if "unknown_name" in kind.meta]


def unknown_units(tree: Any) -> list[str]:
    """The units of intervals in a tree that Spark lacks."""
    return [
        interval.meta["unknown_unit"] for interval in tree.find_all(exp.Interval) if "unknown_unit" in interval.meta
    ]


def has_plus_sign(tree: Any) -> bool:
    """Whether a plus sign precedes an operand that is not a number."""
    return any("has_plus_sign" in part.meta for part in tree.walk())


def misread_operations(tree: Any) -> Iterator[Any]:
    """The operations of a parsed tree of which Spark may read another operand, for lack of parentheses."""
    for operation in tree.find_all(*_LEVELS):
        if isinstance(operation.parent, exp.TsOrDsAdd):  # sqlglot reads date_sub(d, n) as date_add(d, n * -1)
            continue
        level = _LEVELS[type(operation)]
        for key in ("this", "expression", "low", "high"):
            operand = operation.args.get(key)
            while isinstance(operand, exp.Paren) and "is_explicit" not in operand.meta:
                operand = operand.this
            if type(operand) in _LEVELS and not _is_operand(operation, level, operand, is_first=key == "this"):
                yield operation
                break


def _is_operand(operation: Any, level: int, operand: Any, *, is_first: bool) -> bool:
    """Whether Spark reads an operation without parentheses as the operand of another."""
    if isinstance(operation, exp.Escape):  # of a LIKE
        return True
    if isinstance(operation, _PREDICATES):
        return _LEVELS[type(operand)] > level
    if isinstance(operation, _COMPARISONS) and isinstance(operand, exp.NullSafeEQ):
        return False  # a <=> b, or a IS NOT DISTINCT FROM b, which binds weaker
    is_unary = isinstance(operation, exp.Not | exp.Neg | exp.BitwiseNot)
    return _LEVELS[type(operand)] >= level if is_first or is_unary else _LEVELS[type(operand)] > level
