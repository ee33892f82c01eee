"""From sqlglot's tree to ours. What we have no node for stays SQL that Spark may evaluate (``Opaque``)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakehouse_lib.errors import InvalidPredicateError, InvalidSchemaError
from lakehouse_lib.predicates.arithmetic import calculate, shift
from lakehouse_lib.predicates.casts import cast, number
from lakehouse_lib.predicates.comparison import (
    TEMPORAL,
    among,
    compare,
    describe,
    mismatch,
)
from lakehouse_lib.predicates.names import resolve
from lakehouse_lib.predicates.nodes import (
    BOOLEAN,
    UNKNOWN,
    Column,
    Function,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Opaque,
    conjunction,
    depth,
    disjunction,
)
from lakehouse_lib.schema import PrimitiveType, Schema

_COMPARISONS: dict[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[Any, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_NO_ROWS = (exp.AggFunc, exp.Window, exp.Query, exp.Subquery, exp.Exists, exp.Placeholder, exp.Parameter, exp.Star)
_TYPES = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "TEXT": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
#: Characters of a predicate: some 100,000 listed numbers, which take seconds to parse.
MAX_LENGTH = 1_000_000
#: Levels of a predicate's nodes: what any rendering can recurse into, whatever stack it is called on.
MAX_DEPTH = 100

_INTEGER = PrimitiveType("integer")
_STRING = PrimitiveType("string")
_DATE = PrimitiveType("date")


def translate(sql: str, schema: Schema) -> Node:
    """Raises InvalidPredicateError, its message without the predicate's own text."""
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidPredicateError("nothing to evaluate", hint="Write a condition, or leave the predicate out.")
    if len(sql) > MAX_LENGTH:
        raise InvalidPredicateError(
            f"{len(sql)} characters are too many (at most {MAX_LENGTH})",
            hint="Take it in several steps, each with a part of the values.",
        )
    try:
        tree = sqlglot.parse_one(sql, dialect="spark", into=exp.Condition)
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        detail: dict[str, Any] = next(iter(getattr(error, "errors", None) or []), {})
        near = f" near {detail['highlight']!r}" if detail.get("highlight") else ""
        raise InvalidPredicateError(
            f"a syntax error{near}", hint="Write one SQL condition in Spark's dialect, such as id > 5 AND name = 'a'."
        ) from error
    for one in tree.walk():
        if isinstance(one, _NO_ROWS):
            raise InvalidPredicateError(
                f"{one.sql(dialect='spark')!r} is not decided by one row",
                hint="Use no aggregates, windows, subqueries or placeholders.",
            )
    try:
        root = _condition(tree, schema)
    except RecursionError:
        raise _too_deep() from None
    if depth(root) > MAX_DEPTH:
        raise _too_deep()
    return root


def _too_deep() -> InvalidPredicateError:
    return InvalidPredicateError(
        "it is nested too deep", hint="Use IN (...) for long lists, and a AND b AND c without parentheses."
    )


def _condition(tree: Any, schema: Schema) -> Node:
    node = _node(tree, schema)
    if isinstance(node, Literal) and node.value is None:
        return UNKNOWN
    if node.type not in (BOOLEAN, None):
        raise InvalidPredicateError(f"{describe(node)} is no condition", hint="Compare it with something.")
    return node


def _node(tree: Any, schema: Schema) -> Node:
    reader = _READERS.get(type(tree))
    if reader is not None:
        found = reader(tree, schema)
        if found is not None:
            return found
    return _opaque(tree, schema)


def _opaque(tree: Any, schema: Schema) -> Opaque:
    columns: dict[Column, None] = {}
    for one in tree.find_all(exp.Column, exp.Dot):
        if not isinstance(one.parent, exp.Dot):
            columns[_column(one, schema)] = None
    return Opaque(tree.sql(dialect="spark"), tuple(columns))


def _plain(tree: Any, *known: str) -> bool:
    """Whether the tree says nothing beyond ``known``: a modifier we do not know must not be lost."""
    return not any(value for key, value in tree.args.items() if key not in known and not key.startswith("_"))


def _column(tree: Any, schema: Schema) -> Column:
    return resolve(_parts(tree), schema)


def _parts(tree: Any) -> list[str]:
    if isinstance(tree, exp.Dot):
        return [*_parts(tree.this), *_parts(tree.expression)]
    if isinstance(tree, exp.Identifier):
        return [str(tree.this)]
    if isinstance(tree, exp.Column):
        return [part for one in tree.parts for part in _parts(one)]
    raise InvalidPredicateError(
        f"{tree.sql(dialect='spark')!r} is no column", hint="Name a column or a struct's member."
    )


def _dot(tree: Any, schema: Schema) -> Node | None:
    return _column(tree, schema) if not tree.find(exp.Func) else None


def _value(tree: Any, _: Schema) -> Node | None:
    if isinstance(tree, exp.Literal):
        return Literal(str(tree.this), _STRING) if tree.is_string else number(str(tree.this))
    if isinstance(tree, exp.Boolean):
        return Literal(bool(tree.this), BOOLEAN)
    if isinstance(tree, exp.HexString):
        digits = str(tree.this)
        try:
            return Literal(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), PrimitiveType("binary"))
        except ValueError:
            raise InvalidPredicateError(f"X'{digits}' is no binary literal") from None
    if isinstance(tree, exp.RawString):
        return Literal(str(tree.this), _STRING)
    return Literal(None, PrimitiveType("void"))


def _adjacent(tree: Any, _: Schema) -> Node | None:
    # 'it''s' is it's to some engines and its to others: a delete must not depend on which.
    if all(isinstance(one, exp.Literal) and one.is_string for one in tree.expressions):
        raise InvalidPredicateError(
            "two string literals side by side", hint="Write a quote inside a string as \\', or join them by concat."
        )
    return None


def _logic(tree: Any, schema: Schema) -> Node | None:
    kind = type(tree)
    operands = []
    for one in tree.flatten():
        operands.append(_condition(one, schema))
    return conjunction(operands) if kind is exp.And else disjunction(operands)


def _not(tree: Any, schema: Schema) -> Node | None:
    return Not(_condition(tree.this, schema))


def _compare(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "expression"):
        return None
    if isinstance(tree.this, exp.Tuple) or isinstance(tree.expression, exp.Tuple):
        return None
    return compare(_COMPARISONS[type(tree)], _node(tree.this, schema), _node(tree.expression, schema))


def _distinct_from(tree: Any, schema: Schema) -> Node | None:
    return Not(compare("<=>", _node(tree.this, schema), _node(tree.expression, schema)))


def _between(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "low", "high"):
        return None
    operand = _node(tree.this, schema)
    return conjunction(
        [
            compare(">=", operand, _node(tree.args["low"], schema)),
            compare("<=", operand, _node(tree.args["high"], schema)),
        ]
    )


def _in(tree: Any, schema: Schema) -> Node | None:
    if not _plain(tree, "this", "expressions"):
        return None
    operand = _node(tree.this, schema)
    values = [_node(one, schema) for one in tree.expressions]
    if isinstance(operand, Opaque):
        return None
    literals = [one for one in values if isinstance(one, Literal)]
    if len(literals) == len(values):
        return among(operand, literals)
    return disjunction([compare("=", operand, one) for one in values])


def _is(tree: Any, schema: Schema) -> Node | None:
    operand = _node(tree.this, schema)
    if isinstance(tree.expression, exp.Null):
        return IsNull(operand)
    if isinstance(tree.expression, exp.Boolean):
        return compare("<=>", operand, Literal(bool(tree.expression.this), BOOLEAN))
    return None


def _like(tree: Any, schema: Schema) -> Node | None:
    escape = "\\"
    if isinstance(tree, exp.Escape):
        escape, tree = str(tree.expression.this), tree.this
        if not isinstance(tree, exp.Like) or len(escape) != 1:
            return None
    if not _plain(tree, "this", "expression", "negate"):
        return None
    operand, pattern = _node(tree.this, schema), _node(tree.expression, schema)
    if not isinstance(pattern, Literal) or isinstance(operand, Opaque):
        return None
    if pattern.value is None:
        return UNKNOWN
    if operand.type != _STRING or not isinstance(pattern.value, str):
        raise mismatch(operand, f"matched with LIKE {describe(pattern)}")
    _check_pattern(pattern.value, escape)
    like = Like(operand, pattern.value, escape)
    return Not(like) if tree.args.get("negate") else like


def _check_pattern(pattern: str, escape: str) -> None:
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise InvalidPredicateError(
                    f"the LIKE pattern {pattern!r} has an escape that escapes nothing",
                    hint=f"Write the escape character as {escape * 2!r}, and use it before % and _ only.",
                )
        at += 1


def _negate(tree: Any, schema: Schema) -> Node | None:
    operand = _node(tree.this, schema)
    if isinstance(operand, Literal) and isinstance(operand.value, (Decimal, float)):
        # copy_negate: unary minus would round to the context's digits
        value = operand.value.copy_negate() if isinstance(operand.value, Decimal) else -operand.value
        return Literal(value, operand.type)
    return calculate("-", Literal(Decimal(0), PrimitiveType("decimal(38,0)")), operand)


def _arithmetic(tree: Any, schema: Schema) -> Node | None:
    if isinstance(tree.expression, exp.Interval):
        return _shifted(tree, schema)
    return calculate(_ARITHMETIC[type(tree)], _node(tree.this, schema), _node(tree.expression, schema))


def _shifted(tree: Any, schema: Schema) -> Node | None:
    operand, interval = _node(tree.this, schema), tree.expression
    try:
        count = int(str(interval.this.this))
    except (ValueError, AttributeError):
        return None
    unit = str(interval.args.get("unit") or "").upper().rstrip("S")
    return shift(operand, -count if isinstance(tree, exp.Sub) else count, unit)


def _type_of(tree: Any) -> PrimitiveType | None:
    name = tree.this.value if hasattr(tree.this, "value") else str(tree.this)
    if name == "DECIMAL":
        sizes = [str(one.this.this) for one in tree.expressions]
        try:
            return PrimitiveType(f"decimal({','.join(sizes) if len(sizes) == 2 else (sizes or ['10'])[0] + ',0'})")
        except (InvalidSchemaError, ValueError):  # ValueError: more digits than Python reads
            return None
    known = _TYPES.get(name)
    return PrimitiveType(known) if known is not None and not tree.expressions else None


def _cast(tree: Any, schema: Schema) -> Node | None:
    kind = _type_of(tree.args["to"])
    if kind is None or not _plain(tree, "this", "to", "safe", "requires_string"):
        return None
    return cast(_node(tree.this, schema), kind)


def _function(tree: Any, schema: Schema) -> Node | None:
    if isinstance(tree, exp.Coalesce):
        arguments = [_node(one, schema) for one in [tree.this, *tree.expressions]]
        kind = arguments[0].type
        if kind is None or not _plain(tree, "this", "expressions", "is_nvl", "is_null"):
            return None
        if isinstance(kind, PrimitiveType) and not isinstance(arguments[0], Literal):
            fitted = [arguments[0], *(_argument(one, kind) for one in arguments[1:])]
            if all(one is not None for one in fitted):
                return Function("coalesce", tuple(one for one in fitted if one is not None), kind)
        return None
    inner = tree.this.this if isinstance(tree.this, exp.TsOrDsToDate) else tree.this
    operand = _node(inner, schema)
    if isinstance(operand, Literal) or not isinstance(operand.type, PrimitiveType):
        return None
    if isinstance(tree, exp.Length):
        return Function("length", (operand,), _INTEGER) if operand.type == _STRING else None
    if operand.type.type not in TEMPORAL:
        return None
    return Function(type(tree).__name__.lower(), (operand,), _INTEGER)


def _argument(node: Node, kind: PrimitiveType) -> Node | None:
    if not isinstance(node, Literal):
        return node if node.type == kind else None
    # Borrow the exactness of a comparison: it says whether the literal is a value of the type.
    probe = compare("=", Column(("",), kind), node)
    return getattr(probe, "right", None)


_READERS: dict[Any, Callable[[Any, Schema], Node | None]] = {
    exp.Paren: lambda tree, schema: _node(tree.this, schema),
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _value,
    exp.Boolean: _value,
    exp.Null: _value,
    exp.HexString: _value,
    exp.RawString: _value,
    exp.Concat: _adjacent,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.NullSafeNEQ: _distinct_from,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.Escape: _like,
    exp.Neg: _negate,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Coalesce: _function,
    exp.Length: _function,
    exp.Year: _function,
    exp.Month: _function,
    exp.Day: _function,
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
