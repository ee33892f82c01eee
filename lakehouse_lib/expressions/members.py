"""Values of single members of a struct column, as a value of the whole column."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.expressions.ir import Column, Function, Node
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.schema import StructType
from lakehouse_lib.statistics import ColumnPath


def with_members(column: Column, members: Mapping[ColumnPath, Value], table: str | None = None) -> Value:
    """The value of a struct column in which some members have new values, and the others their old values.

    In a row where the struct is NULL, it becomes a struct whose other members are NULL, as in delta-spark.

    Args:
        column: the struct column.
        members: the new values, by the names of the members below the column.
    """
    root = _struct(column, {path: value.root for path, value in members.items()})
    return Value(render(root), root, table)


def _struct(column: Column, members: Mapping[ColumnPath, Node]) -> Node:
    kind = column.type
    assert isinstance(kind, StructType)
    values: list[Node] = []
    for field in kind.fields:
        own = Column((*column.path, field.name), field.type)
        below = {path[1:]: node for path, node in members.items() if path[0] == field.name}
        values.append(below[()] if () in below else _struct(own, below) if below else own)
    return Function("struct", tuple(values), kind)
