"""LIKE patterns: validation, conversion to a regular expression, and the literal prefix."""

from __future__ import annotations

import re
from dataclasses import replace

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import UNKNOWN, Function, Like, Literal, Node, Opaque
from lakehouse_lib.expressions.parsing.comparison import describe, mismatch
from lakehouse_lib.schema import PrimitiveType

#: The case of letters up to this one is equal in all versions of Unicode.
_LAST_STABLE = "\u1c00"


def match(operand: Node, pattern: Node, escape: str) -> Node | None:
    """``operand LIKE pattern`` as a node; None if only Spark can evaluate it.

    Raises:
        InvalidPredicateError: the operand is not text, or the pattern has an escape that is not valid.
    """
    if not isinstance(pattern, Literal) or isinstance(operand, Opaque):
        return None
    if pattern.value is None:
        return UNKNOWN
    if isinstance(operand, Literal) and operand.value is None:
        return UNKNOWN
    if operand.type != PrimitiveType("string") or not isinstance(pattern.value, str):
        raise mismatch(operand, f"matched with LIKE {describe(pattern)}")
    _check(pattern.value, escape)
    return Like(operand, pattern.value, escape)


def match_ignoring_case(operand: Node, pattern: Node, escape: str) -> Node | None:
    """``operand ILIKE pattern`` as a node: LIKE on both in lower case; None if only Spark can evaluate it.

    Raises:
        InvalidPredicateError: as ``match``.
    """
    plain = match(operand, pattern, escape)
    if not isinstance(plain, Like):
        return plain
    if escape.isalpha() or max(plain.pattern, default="") > _LAST_STABLE:
        return None
    return replace(plain, operand=Function("lower", (operand,), PrimitiveType("string")), pattern=plain.pattern.lower())


def _check(pattern: str, escape: str) -> None:
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise InvalidPredicateError(
                    f"the LIKE pattern {pattern!r} has an escape character that does not precede % or _",
                    hint=f"Write the escape character as {escape * 2!r}, and use it before % and _ only",
                )
        at += 1


def split_pattern(like: Like) -> tuple[str, str]:
    """The text before the first wildcard, and the pattern from this wildcard on, with its escape characters."""
    prefix, at = [], 0
    pattern = like.pattern
    while at < len(pattern):
        if pattern[at] == like.escape:
            at += 1
        elif pattern[at] in "%_":
            break
        prefix.append(pattern[at])
        at += 1
    return "".join(prefix), pattern[at:]


def as_regex(like: Like) -> str:
    """The pattern as a regular expression that matches the whole text."""
    parts, at = [], 0
    while at < len(like.pattern):
        character = like.pattern[at]
        if character == like.escape:
            at += 1
            parts.append(re.escape(like.pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
        at += 1
    return rf"(?s)\A{''.join(parts)}\z"
