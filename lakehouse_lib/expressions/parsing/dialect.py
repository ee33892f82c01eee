"""Spark's dialect in sqlglot, with the grammar of Spark where that of sqlglot differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import Dialect, exp

#: Functions that sqlglot would write as others (``LOG(10, x)``, ``SIZE(a)``), whose values differ.
_AS_WRITTEN = ("ARRAY_SIZE", "COLLATE", "LOG10", "LOG2", "PARSE_JSON")
#: Functions that sqlglot writes as operators; Spark's operators have another precedence than a call.
_AS_OPERATORS = ("ILIKE", "LIKE", "MOD", "REGEXP_LIKE", "RLIKE")
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
#: The suffixes of numbers, such as 1L, which sqlglot reads as casts to a type.
_NUMBER_SUFFIXES = frozenset(("BD", "D", "F", "L", "S", "Y"))

DIALECT = Dialect.get_or_raise("spark")
_BASE = DIALECT.parser_class


def _in_parentheses(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A builder of a call's tree, with parentheses around the tree."""
    return lambda arguments: exp.Paren(this=build(arguments))


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
        if not is_known and name not in _NUMBER_SUFFIXES:
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
        },
        "_parse_types": _parse_types,
    },
)
#: The names of functions that need no parentheses, such as ``CURRENT_DATE``.
BARE_FUNCTIONS = frozenset(kind.name for kind in _BASE.NO_PAREN_FUNCTIONS)


def unknown_types(tree: Any) -> list[str]:
    """The names of types in a tree that Spark lacks, or that sqlglot would write as another type."""
    return [kind.meta["unknown_name"] for kind in tree.find_all(exp.DataType) if "unknown_name" in kind.meta]
