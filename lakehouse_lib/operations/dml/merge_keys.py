"""The columns by which a merge joins rows, and keys that are computed from the source, such as ``lower(s.email)``."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakehouse_lib.engine.parquet.merge.key_join import common_type
from lakehouse_lib.engine.parquet.merge.sides import one_side
from lakehouse_lib.errors import SchemaMismatchError
from lakehouse_lib.expressions import Predicate, Value, values_of
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.expressions.ir import And, Column, Comparison, Node, columns_of, conjunction
from lakehouse_lib.expressions.namespace import SOURCE, TARGET
from lakehouse_lib.schema import Field, PrimitiveType, Schema


def keys_of(condition: Predicate, target: Schema, source: pa.Schema) -> tuple[tuple[str, str], ...]:
    """The pairs of columns that the condition compares for equality and by which rows can be joined."""
    keys = []
    for part in conjuncts(condition.root):
        if not isinstance(part, Comparison) or part.operator != "=":
            continue
        columns = [node for node in (part.left, part.right) if isinstance(node, Column) and len(node.path) == 2]
        sides = {column.path[0]: column.path[1] for column in columns}
        if len(sides) == 2:
            kind = common_type(target.field(sides[TARGET]).type.to_arrow(), source.field(sides[SOURCE]).type)
            keys += [(sides[TARGET], sides[SOURCE])] if kind is not None else []
    return tuple(keys)


def with_computed_keys(condition: Predicate, source: pa.Table) -> tuple[Predicate, pa.Table]:
    """The condition with a column of the source for each expression that it compares with a column of the target.

    The source gets these columns, so that the merge can join by them. An expression that fails for a row of the source
    stays as it is.
    """
    parts: list[Node] = []
    for part in conjuncts(condition.root):
        key, computable = _key_and_expression(part)
        name = f"__lakehouse_key_{source.num_columns}"
        computed = None if computable is None else _computed(name, computable, source)
        if key is None or computable is None or computable.type is None or computed is None:
            parts.append(part)
            continue
        source = source.append_column(name, computed)
        parts.append(Comparison("=", key, Column((SOURCE, name), computable.type)))
    return replace(condition, root=conjunction(parts)), source


def _key_and_expression(part: Node) -> tuple[Node | None, Node | None]:
    """The column of the target and the expression of the source that a condition compares; None: another condition."""
    if isinstance(part, Comparison) and part.operator == "=":
        for key, other in ((part.left, part.right), (part.right, part.left)):
            if _is_key(key) and _is_computable(other):
                return key, other
    return None, None


def conjuncts(root: Node) -> tuple[Node, ...]:
    """The conditions that must all be true."""
    return root.operands if isinstance(root, And) else (root,)


def _is_key(node: Node) -> bool:
    return isinstance(node, Column) and node.path[0] == TARGET and len(node.path) == 2


def _is_computable(node: Node) -> bool:
    is_column = isinstance(node, Column) and len(node.path) == 2
    is_primitive = isinstance(node.type, PrimitiveType)
    return not is_column and is_primitive and columns_of(node) == {SOURCE} and is_renderable(node)


def _computed(name: str, node: Node, source: pa.Table) -> pa.ChunkedArray | None:
    assert node.type is not None
    schema = Schema([Field(name, node.type)])
    try:
        return values_of({name: Value(name, node)}, one_side(SOURCE, source), schema)[name]
    except SchemaMismatchError:
        return None
