"""The intermediate representation of a predicate or a value: typed nodes.

The parser resolves names against a schema, and gives a literal the type of the expression that it is compared with.
So evaluation and rendering do not choose the types of literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.statistics import ColumnPath

BOOLEAN = PrimitiveType("boolean")
#: The digits of an integer as a decimal, in Spark.
WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a member of a struct column.

    Attributes:
        path: the names of the column and of the members down to the value, as the schema spells them.
    """

    path: ColumnPath
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Attributes:
        value: int for integers, dates (days since 1970) and timestamps (µs since 1970, UTC or wall clock); Decimal,
            float, str, bytes or bool for other types; None for NULL.
    """

    value: Any
    type: PrimitiveType


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast that loses nothing, except the time of day of a timestamp that becomes a date.

    It fails only for a date that is out of the range of timestamps (about 290,000 years).
    """

    operand: Node
    type: PrimitiveType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic operation.

    Attributes:
        operator: +, -, *, / (of doubles or decimals), DIV (of integers) or % (of integers; the sign is that of the
            dividend).
    """

    operator: str
    left: Node
    right: Node
    type: PrimitiveType


@dataclass(frozen=True, slots=True)
class Function:
    """A call of a function.

    Attributes:
        name: as in Spark. All arguments of coalesce, greatest and least have the type of the result. ``substring`` has
            literals as start (the first character has the position 1, the last -1) and length (NULL: up to the end),
            and ``round`` a literal as number of digits. ``trim``, ``ltrim`` and ``rtrim`` remove spaces.
    """

    name: str
    arguments: tuple[Node, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else ``otherwise``. All values have one type.

    A branch is evaluated only for the rows that take it.
    """

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    type: DataType


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value, converted to the type of the column to which it is assigned (Spark's ANSI store assignment).

    A value that the type cannot hold is an error. An assignment to an integer cuts off the fraction, and an assignment
    to a decimal rounds half up.
    """

    operand: Node
    type: DataType


@dataclass(frozen=True, slots=True)
class Opaque:
    """SQL that only Spark can evaluate; its type is unknown here."""

    sql: str
    columns: tuple[Column, ...]

    @property
    def type(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison. NaN equals itself and is greater than every other number.

    Attributes:
        operator: =, !=, <, <=, >, >= or <=>.
    """

    operator: str
    left: Node
    right: Node

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (values)``.

    Attributes:
        values: at least one value, of the operand's type.
        has_null: whether the list also has NULL.
    """

    operand: Node
    values: tuple[Any, ...]
    has_null: bool = False

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """``operand LIKE pattern ESCAPE escape``."""

    operand: Node
    pattern: str
    escape: str = "\\"

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``."""

    operand: Node

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]

    @property
    def type(self) -> PrimitiveType:
        return BOOLEAN


Node = (
    Column
    | Literal
    | Cast
    | Arithmetic
    | Function
    | Case
    | Assignment
    | Opaque
    | Comparison
    | In
    | Like
    | IsNull
    | Not
    | And
    | Or
)

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)
UNKNOWN = Literal(None, BOOLEAN)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node; for an ``Opaque``, the columns that it reads."""
    match node:
        case Opaque():
            return node.columns
        case Cast() | Assignment() | In() | Like() | IsNull() | Not():
            return (node.operand,)
        case Case():
            return (*(part for branch in node.branches for part in branch), node.otherwise)
        case And() | Or():
            return node.operands
        case Comparison() | Arithmetic():
            return (node.left, node.right)
        case Function():
            return node.arguments
    return ()


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The same node with changed nodes directly below it. An ``Opaque`` stays as it is."""
    match node:
        case Cast() | Assignment() | In() | Like() | IsNull() | Not():
            return replace(node, operand=change(node.operand))
        case Case():
            branches = tuple((change(when), change(then)) for when, then in node.branches)
            return replace(node, branches=branches, otherwise=change(node.otherwise))
        case And() | Or():
            return replace(node, operands=tuple(map(change, node.operands)))
        case Comparison() | Arithmetic():
            return replace(node, left=change(node.left), right=change(node.right))
        case Function():
            return replace(node, arguments=tuple(map(change, node.arguments)))
    return node


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def decimal_size(kind: DataType | None) -> tuple[int, int] | None:
    """The precision and the scale of a decimal, or of an integer as a decimal; None for other types."""
    if not isinstance(kind, PrimitiveType):
        return None
    return (WHOLE_DIGITS[kind.type], 0) if kind.type in WHOLE_DIGITS else kind.decimal


def depth(node: Node) -> int:
    """The number of levels of a tree. It is counted without recursion, so a tree may have any depth."""
    levels, level = 0, [node]
    while level:
        levels += 1
        level = [child for parent in level for child in children(parent)]
    return levels


def columns_of(node: Node) -> frozenset[str]:
    """The top-level names of the columns that a node reads."""
    return frozenset(part.path[0] for part in walk(node) if isinstance(part, Column))


def conjunction(nodes: list[Node]) -> Node:
    """The conditions joined by AND; TRUE if there are none."""
    flat: list[Node] = []
    for node in nodes:
        flat += node.operands if isinstance(node, And) else (node,)
    return flat[0] if len(flat) == 1 else And(tuple(flat)) if flat else TRUE


def disjunction(nodes: list[Node]) -> Node:
    """The conditions joined by OR; FALSE if there are none."""
    flat: list[Node] = []
    for node in nodes:
        flat += node.operands if isinstance(node, Or) else (node,)
    return flat[0] if len(flat) == 1 else Or(tuple(flat)) if flat else FALSE


def is_null(operand: Node) -> Node:
    """The condition ``operand IS NULL``, simplified for literals and casts."""
    match operand:
        case Literal():
            return TRUE if operand.value is None else FALSE
        case Cast():  # a cast is null only if its operand is
            return is_null(operand.operand)
    return IsNull(operand)


def true_unless_null(operand: Node) -> Node:
    """The condition that is NULL where the operand is NULL, and true elsewhere."""
    return Or((Not(is_null(operand)), UNKNOWN))


def false_unless_null(operand: Node) -> Node:
    """The condition that is NULL where the operand is NULL, and false elsewhere."""
    return And((is_null(operand), UNKNOWN))
