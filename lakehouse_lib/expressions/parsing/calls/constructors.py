"""Nodes of arrays, structs and maps that are assigned to a column, and of their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Function, Literal, Node
from lakehouse_lib.expressions.parsing.assignment import assigned
from lakehouse_lib.expressions.parsing.literals import small_integer
from lakehouse_lib.schema import ArrayType, DataType, MapType, PrimitiveType, StructType

_INTEGER = PrimitiveType("integer")
#: Makes the node of a part of the tree, converted to a type.
Assign = Callable[[Any, DataType], Node]


def constructed(tree: Any, kind: DataType, assign: Assign) -> Node | None:
    """The node of ``array(...)``, ``named_struct(...)``, ``struct(...)`` or ``map(...)`` in the type of its column.

    None: the tree is another expression.

    Raises:
        InvalidPredicateError: the fields of a struct are not those of the type, or a key of a map is not valid.
    """
    if isinstance(tree, exp.Array) and isinstance(kind, ArrayType):
        return Function("array", tuple(assign(part, kind.element_type) for part in tree.expressions), kind)
    if isinstance(tree, exp.Struct) and isinstance(kind, StructType):
        if not all(isinstance(part, exp.PropertyEQ) for part in tree.expressions):
            return None
        values = {part.this.name: part.expression for part in tree.expressions}
        return struct_of(values, kind, assign) if len(values) == len(tree.expressions) else None
    if isinstance(tree, exp.VarMap) and isinstance(kind, MapType):
        pairs = list(zip(tree.args["keys"].expressions, tree.args["values"].expressions, strict=True))
        return map_of(pairs, kind, assign)
    return None


def struct_of(values: dict[str, Any], kind: StructType, assign: Assign, *, may_lack: bool = False) -> Node:
    """A struct of values by the names of its fields, whose case does not matter.

    Args:
        may_lack: whether a field without a value is NULL; else it is an error.

    Raises:
        InvalidPredicateError: a field does not exist, or has no value.
    """
    by_name = {name.lower(): value for name, value in values.items()}
    names = {field.name.lower() for field in kind.fields}
    if by_name.keys() - names or len(by_name) < len(values) or (not may_lack and names - by_name.keys()):
        raise InvalidPredicateError(
            f"a struct with the fields {', '.join(values)} cannot be assigned to a column of type {kind}",
            hint=f"Give the fields {', '.join(kind.names)}",
            code="DELTA_INVALID_ASSIGNMENT",
        )
    members = tuple(
        assign(by_name[field.name.lower()], field.type)
        if field.name.lower() in by_name
        else assigned(Literal(None, PrimitiveType("void")), field.type)
        for field in kind.fields
    )
    return Function("struct", members, kind)


def map_of(pairs: list[tuple[Any, Any]], kind: MapType, assign: Assign) -> Node | None:
    """A map of keys, which are literals, and values; None: a key is not a literal.

    Raises:
        InvalidPredicateError: a key is NULL or occurs twice.
    """
    keys = [assign(key, kind.key_type) for key, _ in pairs]
    literals = [key.value for key in keys if isinstance(key, Literal)]
    if len(literals) < len(keys):
        return None
    if None in literals or len(set(literals)) < len(literals):
        raise InvalidPredicateError(
            "a map has a key that is NULL or occurs twice",
            hint="Give each key once",
            code="DELTA_INVALID_ASSIGNMENT",
        )
    values = [assign(value, kind.value_type) for _, value in pairs]
    return Function("map", tuple(part for pair in zip(keys, values, strict=True) for part in pair), kind)


def read_element(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    """``items[1]`` of an array, counted from 0, or ``map['key']``; None if only Spark can evaluate it."""
    operand = read(tree.this)
    if len(tree.expressions) != 1 or isinstance(operand, Literal):
        return None
    key = read(tree.expressions[0])
    if isinstance(operand.type, ArrayType):
        index = small_integer(key)
        if index is None or index < 0:
            return None
        return Function("element", (operand, Literal(index, _INTEGER)), operand.type.element_type)
    if isinstance(operand.type, MapType) and isinstance(key, Literal) and key.value is not None:
        if operand.type.key_type != PrimitiveType("string") or not isinstance(key.value, str):
            return None
        return Function("element", (operand, key), operand.type.value_type)
    return None
