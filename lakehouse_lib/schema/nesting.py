"""What is inside a type."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.schema.types import ArrayType, DataType, MapType, StructType


def all_types(schema: DataType) -> Iterator[DataType]:
    """A type and every type inside it, at any depth, in no order."""
    pending: list[DataType] = [schema]
    while pending:
        kind = pending.pop()
        yield kind
        if isinstance(kind, StructType):
            pending.extend(one.type for one in kind.fields)
        elif isinstance(kind, ArrayType):
            pending.append(kind.element_type)
        elif isinstance(kind, MapType):
            pending.extend((kind.key_type, kind.value_type))
