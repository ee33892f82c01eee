"""Readers that make nodes of SQL functions; a reader returns None for a call that only Spark can evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lakehouse_lib.expressions.ir import Cast, Function, Like, Literal, Node, Not, is_null
from lakehouse_lib.expressions.parsing.calls import number_functions, time_functions
from lakehouse_lib.expressions.parsing.common_types import with_common_type
from lakehouse_lib.expressions.parsing.comparison import INTEGRAL_BITS, compare
from lakehouse_lib.expressions.parsing.literals import small_integer
from lakehouse_lib.schema import PrimitiveType

#: Makes the node of a part of the tree.
Read = Callable[[Any], Node]

#: The classes of sqlglot for SQL that does not have one value for each row.
NOT_OF_ONE_ROW = (
    exp.AggFunc,
    exp.Window,
    exp.Query,
    exp.Subquery,
    exp.Placeholder,
    exp.Parameter,
    exp.Star,
    exp.Block,
    exp.UDTF,
    exp.Explode,
    exp.Inline,
    exp.Stack,
)

_INTEGER = PrimitiveType("integer")
_STRING = PrimitiveType("string")


def _coalesce(tree: Any, read: Read) -> Node | None:
    arguments = with_common_type([read(part) for part in [tree.this, *tree.expressions]])
    if arguments is None or arguments[0].type is None:
        return None
    return Function("coalesce", arguments, arguments[0].type) if len(arguments) > 1 else arguments[0]


def _length(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    return Function("length", (operand,), _INTEGER) if _is_text(operand) else None


def _begins(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"{text}%")


def _contains(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"%{text}%")


def _ends(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"%{text}")


def _with_text(tree: Any, read: Read, pattern: Callable[[str], str]) -> Node | None:
    operand, text = read(tree.this), read(tree.expression)
    if not _is_text(operand) or not isinstance(text, Literal) or not isinstance(text.value, str):
        return None
    escaped = text.value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return Like(operand, pattern(escaped))


def _substring(tree: Any, read: Read) -> Node | None:
    operand, part = read(tree.this), _part_of_text(tree, read)
    if not _is_text(operand) or part is None:
        return None
    start, length = part
    return Function("substring", (operand, Literal(start, _INTEGER), Literal(length, _INTEGER)), _STRING)


def _part_of_text(tree: Any, read: Read) -> tuple[int, int | None] | None:
    """The position of the first character and the number of characters; None as number: up to the end."""
    if isinstance(tree, exp.Left | exp.Right):
        count = small_integer(read(tree.expression))
        if count is None or count <= 0:
            return None if count is None else (1, 0)
        return (1, count) if isinstance(tree, exp.Left) else (-count, None)
    first, size = tree.args.get("start"), tree.args.get("length")
    start = None if first is None else small_integer(read(first))
    length = None if size is None else small_integer(read(size))
    if start is None or (size is not None and length is None):
        return None
    return start or 1, None if length is None else max(0, length)  # the positions 0 and 1 are the same


def _changed_case(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and operand.value.isascii():
        text = operand.value
        return Literal(text.upper() if isinstance(tree, exp.Upper) else text.lower(), _STRING)
    return Function(type(tree).__name__.lower(), (operand,), _STRING) if _is_text(operand) else None


def _trim(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    if not _is_text(operand) or tree.args.get("expression") is not None:
        return None
    name = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position") or ""))
    return Function(name, (operand,), _STRING) if name is not None else None


def _concat(tree: Any, read: Read) -> Node | None:
    parts = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
    arguments = tuple(map(_as_text, map(read, parts)))
    if not all(argument.type == _STRING for argument in arguments):
        return None
    texts = [argument.value for argument in arguments if isinstance(argument, Literal)]
    if len(texts) == len(arguments):
        return Literal(None if None in texts else "".join(texts), _STRING)
    return Function("concat", arguments, _STRING)


def _as_text(node: Node) -> Node:
    """An integer or a date as text; other nodes as they are."""
    is_whole = isinstance(node.type, PrimitiveType) and node.type.type in (*INTEGRAL_BITS, "date")
    return Cast(node, _STRING) if is_whole and not isinstance(node, Literal) else node


def _is_nan(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    kind = operand.type
    if not isinstance(kind, PrimitiveType) or kind.type not in ("float", "double") or isinstance(operand, Literal):
        return None
    return compare("<=>", operand, Literal(float("nan"), PrimitiveType("double")))


def _named(tree: Any, read: Read) -> Node | None:
    name = str(tree.this).lower()
    if name in ("isnull", "isnotnull") and len(tree.expressions) == 1:
        missing = is_null(read(tree.expressions[0]))
        return missing if name == "isnull" else Not(missing)
    if name == "now" and not tree.expressions:
        return _now(tree, read)
    return None


def _now(tree: Any, _: Read) -> Node | None:
    # The time is that of the parse, so that pruning, both engines and a retried commit select the same rows.
    micros = time.time_ns() // 1000
    if isinstance(tree, exp.CurrentDate):
        return Literal(micros // 86_400_000_000, PrimitiveType("date"))
    return Literal(micros, PrimitiveType("timestamp"))


def _is_text(node: Node) -> bool:
    return node.type == _STRING and not isinstance(node, Literal)


#: By sqlglot's class: the reader of the function, and the arguments of the tree that the reader supports.
READERS: dict[Any, tuple[Callable[[Any, Read], Node | None], tuple[str, ...]]] = {
    exp.Coalesce: (_coalesce, ("this", "expressions", "is_nvl", "is_null")),
    exp.Length: (_length, ("this",)),
    exp.Lower: (_changed_case, ("this",)),
    exp.Upper: (_changed_case, ("this",)),
    exp.StartsWith: (_begins, ("this", "expression")),
    exp.Contains: (_contains, ("this", "expression")),
    exp.EndsWith: (_ends, ("this", "expression")),
    exp.Substring: (_substring, ("this", "start", "length")),
    exp.Left: (_substring, ("this", "expression")),
    exp.Right: (_substring, ("this", "expression")),
    exp.Trim: (_trim, ("this", "position")),
    exp.DPipe: (_concat, ("this", "expression", "safe")),
    exp.Concat: (_concat, ("expressions", "safe", "coalesce")),
    exp.IsNan: (_is_nan, ("this",)),
    exp.Anonymous: (_named, ("this", "expressions")),
    exp.CurrentDate: (_now, ()),
    exp.CurrentTimestamp: (_now, ()),
    **number_functions.READERS,
    **time_functions.READERS,
}
