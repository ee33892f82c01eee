"""Translation of sqlglot's tree into nodes. SQL without a node stays text that only Spark evaluates (``Opaque``)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import (
    BOOLEAN,
    UNKNOWN,
    Arithmetic,
    Case,
    Literal,
    Node,
    Not,
    Opaque,
    conjunction,
    depth,
    disjunction,
    is_null,
)
from lakehouse_lib.expressions.like import match, match_ignoring_case
from lakehouse_lib.expressions.parsing.arithmetic import calculate, shift
from lakehouse_lib.expressions.parsing.assignment import assigned
from lakehouse_lib.expressions.parsing.branches import CHOICES, branches_of, condition_on_branches
from lakehouse_lib.expressions.parsing.calls import functions, time_functions
from lakehouse_lib.expressions.parsing.calls.constructors import constructed, read_element
from lakehouse_lib.expressions.parsing.casts import cast
from lakehouse_lib.expressions.parsing.common_types import with_common_type
from lakehouse_lib.expressions.parsing.comparison import TEMPORAL, among, compare, describe
from lakehouse_lib.expressions.parsing.grammar.syntax import text_of
from lakehouse_lib.expressions.parsing.literals import literal_of, small_integer
from lakehouse_lib.expressions.parsing.names.column_references import column_of, parts_of, spark_expression
from lakehouse_lib.expressions.parsing.names.quoted_names import parse_condition, parse_name
from lakehouse_lib.expressions.parsing.names.type_names import type_of
from lakehouse_lib.schema import DataType, PrimitiveType, Schema

_COMPARISONS: dict[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[Any, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_ARITHMETIC[exp.IntDiv] = "DIV"
#: Greatest length of a predicate: about 100,000 listed numbers, which take seconds to parse.
MAX_LENGTH = 1_000_000
#: Greatest depth of a predicate's nodes. Evaluation and rendering recurse, and their caller may have used much stack.
MAX_DEPTH = 100

_DATE = PrimitiveType("date")


def translate(sql: str, schema: Schema) -> Node:
    """The node of a SQL condition.

    Raises:
        InvalidPredicateError: the condition is not valid. The message does not quote the condition; ``parse`` adds it.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidPredicateError("it is not a SQL condition", hint="Write a condition, or leave the predicate out")
    return _read(sql, "one SQL condition in Spark's dialect, such as id > 5 AND name = 'a'", _condition, schema)


def translate_value(sql: str, schema: Schema, kind: DataType | None) -> Node:
    """The node of a SQL expression, converted to ``kind``, the type of the column to which its value is assigned.

    None for ``kind``: the value is not converted.

    Raises:
        InvalidPredicateError: it is not a valid expression on single rows, or cannot be assigned to the type.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidPredicateError("it is not a SQL expression", hint="Write an expression, such as price * 2")
    read = _node if kind is None else partial(_assigned, kind=kind)
    return _read(sql, "one SQL expression in Spark's dialect, such as price * 2", read, schema)


def name_parts(text: str) -> list[str]:
    """The parts of a column's name in SQL, such as ``t.x``; empty: the text is not a name."""
    try:
        tree = parse_name(text)
    except (SqlglotError, InvalidPredicateError, RecursionError):
        return []
    return parts_of(tree) if isinstance(tree, exp.Column) else []


def _read(sql: str, expected: str, read: Callable[[Any, Schema], Node], schema: Schema) -> Node:
    """The node that ``read`` makes from the parsed text."""
    if len(sql) > MAX_LENGTH:
        raise InvalidPredicateError(
            f"it has {len(sql)} characters; expected at most {MAX_LENGTH}",
            hint="Run it in several steps, each with some of the values",
        )
    try:
        tree = parse_condition(sql, schema)
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        detail: dict[str, Any] = next(iter(getattr(error, "errors", None) or []), {})
        near = f" near {detail['highlight']!r}" if detail.get("highlight") else ""
        raise InvalidPredicateError(f"it has a syntax error{near}", hint=f"Write {expected}") from error
    for part in tree.walk():
        if isinstance(part, functions.NOT_OF_ONE_ROW):
            raise InvalidPredicateError(
                f"{text_of(part)!r} cannot be evaluated for a single row",
                hint="Use no aggregates, windows, subqueries, generators or placeholders",
            )
    try:
        root = read(tree, schema)
    except RecursionError:
        raise _too_deep() from None
    if depth(root) > MAX_DEPTH:
        raise _too_deep()
    return root


def _assigned(tree: Any, schema: Schema, kind: DataType) -> Node:
    choice = tree.unnest()
    if not isinstance(choice, CHOICES):
        built = constructed(choice, kind, lambda part, member: _assigned(part, schema, member))
        return assigned(_node(tree, schema), kind) if built is None else built
    branches, otherwise = branches_of(choice)
    values = [(_condition(when, schema), _assigned(then, schema, kind)) for when, then in branches]
    return Case(tuple(values), _assigned(otherwise, schema, kind), kind)


def _too_deep() -> InvalidPredicateError:
    return InvalidPredicateError(
        "it is nested too deeply", hint="Use IN (...) for long lists, and a AND b AND c without parentheses"
    )


def _condition(tree: Any, schema: Schema) -> Node:
    choice = tree.unnest()
    if isinstance(choice, CHOICES):
        read = partial(_condition, schema=schema)
        answer = condition_on_branches(choice, read, read)
        if answer is not None:
            return answer
    node = _node(tree, schema)
    if isinstance(node, Literal) and node.value is None:
        return UNKNOWN
    if node.type not in (BOOLEAN, None):
        raise InvalidPredicateError(f"{describe(node)} is not a condition", hint="Compare it with a value")
    return node


def _node(tree: Any, schema: Schema) -> Node:
    reader = _READERS.get(type(tree))
    if reader is not None:
        node = reader(tree, schema)
        if node is not None:
            return node
    return spark_expression(tree, schema)


def _plain(tree: Any, *keys: str) -> bool:
    """Whether the tree has no arguments beyond ``keys``; an unknown modifier must not be ignored."""
    return not any(value for key, value in tree.args.items() if key not in keys and not key.startswith("_"))


def _dot(tree: Any, schema: Schema) -> Node | None:
    return column_of(tree, schema) if not tree.find(exp.Func) else None


def _concat(tree: Any, schema: Schema) -> Node | None:
    # Some engines read 'it''s' as it's, others as its; the rows of a delete must not depend on that.
    is_call = tree.args.get("safe")  # set for a call of concat(...)
    if not is_call and all(isinstance(part, exp.Literal) and part.is_string for part in tree.expressions):
        raise InvalidPredicateError(
            "it has two adjacent string literals", hint="Write a quote inside a string as \\', or join them by concat"
        )
    return _function(tree, schema)


def _logic(tree: Any, schema: Schema) -> Node | None:
    kind = type(tree)
    operands = []
    for operand in tree.flatten():
        operands.append(_condition(operand, schema))
    return conjunction(operands) if kind is exp.And else disjunction(operands)


def _not(tree: Any, schema: Schema) -> Node | None:
    return Not(_condition(tree.this, schema))


def _compare(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "expression"):
        return None
    if isinstance(tree.this, exp.Tuple) or isinstance(tree.expression, exp.Tuple):
        return None
    return _compare_as(_COMPARISONS[type(tree)], tree, schema)


def _compare_as(operator: str, tree: Any, schema: Schema) -> Node | None:
    right = _node(tree.expression, schema)
    if isinstance(right, Literal):
        return _ask(tree.this, schema, lambda left: compare(operator, left, right), right)
    left = _node(tree.this, schema)
    if isinstance(left, Literal):
        return _ask(tree.expression, schema, lambda value: compare(operator, left, value), left)
    return compare(operator, left, right)


def _distinct_from(tree: Any, schema: Schema) -> Node | None:
    is_equal = _compare_as("<=>", tree, schema)
    return Not(is_equal) if is_equal is not None else None


def _between(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "low", "high"):
        return None
    low, high = _node(tree.args["low"], schema), _node(tree.args["high"], schema)

    def between(operand: Node) -> Node:
        return conjunction([compare(">=", operand, low), compare("<=", operand, high)])

    if isinstance(low, Literal) and isinstance(high, Literal):
        return _ask(tree.this, schema, between, low, high)
    return between(_node(tree.this, schema))


def _in(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "expressions"):
        return None
    values = [_node(element, schema) for element in tree.expressions]
    literals = [value for value in values if isinstance(value, Literal)]
    if len(literals) == len(values):
        return _ask(
            tree.this,
            schema,
            lambda subject: None if isinstance(subject, Opaque) else among(subject, literals),
            *literals,
        )
    operand = _node(tree.this, schema)
    return None if isinstance(operand, Opaque) else disjunction([compare("=", operand, value) for value in values])


def _is(tree: Any, schema: Schema) -> Node | None:
    if isinstance(tree.expression, exp.Null):
        return _ask(tree.this, schema, is_null)
    if isinstance(tree.expression, exp.Boolean):
        return _compare_as("<=>", tree, schema)
    return None


def _like(tree: Any, schema: Schema) -> Node | None:
    escape = "\\"
    if isinstance(tree, exp.Escape):
        escape, tree = str(tree.expression.this), tree.this
        if not isinstance(tree, exp.Like | exp.ILike) or len(escape) != 1:
            return None
    if not _plain(tree, "this", "expression", "negate"):
        return None
    several = tree.expression
    if isinstance(several, exp.Any | exp.All):
        listed = several.this.expressions if isinstance(several.this, exp.Tuple) else [several.this.unnest()]
        join = disjunction if isinstance(several, exp.Any) else conjunction
    else:
        listed, join = [several], conjunction
    ignores_case = isinstance(tree, exp.ILike)
    patterns = [_node(pattern, schema) for pattern in listed]

    def like(operand: Node) -> Node | None:
        read = match_ignoring_case if ignores_case else match
        parts = [read(operand, pattern, escape) for pattern in patterns]
        matches = [part for part in parts if part is not None]
        if len(matches) < len(parts):
            return None
        return join([Not(part) for part in matches] if tree.args.get("negate") else matches)

    return _ask(tree.this, schema, like)


def _arithmetic(tree: Any, schema: Schema) -> Node | None:
    is_sum, is_sub = isinstance(tree, exp.Add | exp.Sub), isinstance(tree, exp.Sub)
    if is_sum and time_functions.is_interval(tree.expression):
        return time_functions.add_interval(_node(tree.this, schema), tree.expression, is_sub=is_sub)
    if is_sum and not is_sub and time_functions.is_interval(tree.this):
        return time_functions.add_interval(_node(tree.expression, schema), tree.this, is_sub=False)
    left, right = _node(tree.this, schema), _node(tree.expression, schema)
    if is_sum and left.type == _DATE and right.type != _DATE:
        days = small_integer(right)
        if days is None:
            return time_functions.add_days(left, right, is_sub=is_sub)
        moved = -days if is_sub else days
        return shift(left, moved, "DAY") or time_functions.add_days(left, Literal(moved, PrimitiveType("integer")))
    result = calculate(_ARITHMETIC[type(tree)], left, right)
    # A cast gives a literal other digits, on which the digits of a quotient of decimals depend. A literal that is cast
    # to a decimal without a scale has the digits of an integer here.
    is_decimal = isinstance(result, Arithmetic) and result.type.decimal is not None
    if is_decimal:
        is_unknown = isinstance(tree, exp.Div) and bool(_casts_of_literals(tree))
    else:
        is_unknown = any(part.args["to"].is_type("decimal") for part in _casts_of_literals(tree))
    return None if is_unknown else result


def _casts_of_literals(tree: Any) -> list[Any]:
    return [part for part in tree.find_all(exp.Cast) if isinstance(part.this.unnest(), exp.Literal | exp.Neg)]


def _cast(tree: Any, schema: Schema) -> Node | None:
    kind = type_of(tree.args["to"])
    if kind is None or not _plain(tree, "this", "to", "safe", "requires_string"):
        return None
    return cast(_node(tree.this, schema), kind, fails=not tree.args.get("safe"))


def _function(tree: Any, schema: Schema) -> Node | None:
    read, keys = functions.READERS[type(tree)]
    return read(tree, partial(_node, schema=schema)) if _plain(tree, *keys) else None


def _choice(tree: Any, schema: Schema) -> Node | None:
    if isinstance(tree, exp.Coalesce):
        return _function(tree, schema)
    branches, otherwise = branches_of(tree)
    default = _node(otherwise, schema)
    if isinstance(tree, exp.Nullif):  # its type is that of the first argument; the type of a number only marks it
        is_number = isinstance(default, Literal) and isinstance(default.value, Decimal)
        values: tuple[Node, ...] | None = (
            (Literal(None, default.type), default)
            if isinstance(default.type, PrimitiveType) and not is_number
            else None
        )
    else:
        values = with_common_type([*(_node(then, schema) for _, then in branches), default])
    if values is None or values[0].type is None:
        return None
    conditions = [_condition(when, schema) for when, _ in branches]
    return Case(tuple(zip(conditions, values[:-1], strict=True)), values[-1], values[0].type)


def _ask(tree: Any, schema: Schema, question: Callable[[Node], Node | None], *literals: Literal) -> Node | None:
    """The condition ``question`` on the value of ``tree``; for a CASE or similar, on the value of each branch.

    Args:
        literals: the literals with which the condition compares the value.
    """
    choice = tree.unnest()
    if isinstance(choice, CHOICES):
        answer = condition_on_branches(
            choice, partial(_condition, schema=schema), lambda value: _ask(value, schema, question, *literals)
        )
        has_text = any(isinstance(literal.value, str) for literal in literals)
        if answer is not None and not (has_text and _has_several_types_of_times(choice, schema)):
            return answer
    return question(_node(tree, schema))


def _has_several_types_of_times(choice: Any, schema: Schema) -> bool:
    """Whether the branches have different types of times. Spark converts text to their common type."""
    branches, otherwise = branches_of(choice)
    kinds = {str(_node(value, schema).type) for value in (*(then for _, then in branches), otherwise)}
    return len(kinds & TEMPORAL) > 1


_READERS: dict[Any, Callable[[Any, Schema], Node | None]] = {
    exp.Paren: lambda tree, schema: _node(tree.this, schema),
    exp.Column: column_of,
    exp.Dot: _dot,
    **dict.fromkeys(
        (exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.RawString), lambda tree, _: literal_of(tree)
    ),
    exp.Bracket: lambda tree, schema: (
        read_element(tree, partial(_node, schema=schema)) if _plain(tree, "this", "expressions") else None
    ),
    exp.Concat: _concat,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.NullSafeNEQ: _distinct_from,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    **dict.fromkeys(functions.READERS.keys() - {exp.Concat}, _function),
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
