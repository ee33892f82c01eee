"""What is inside a type."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, StructType


def parts(kind: DataType) -> list[DataType]:
    """The types of a struct's members, of a list's elements, of a map's keys and values."""
    if isinstance(kind, StructType):
        return [member.type for member in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.element_type]
    return [kind.key_type, kind.value_type] if isinstance(kind, MapType) else []


def all_types(schema: DataType) -> Iterator[DataType]:
    """A type and every type inside it, at any depth, in no order."""
    pending: list[DataType] = [schema]
    while pending:
        kind = pending.pop()
        yield kind
        pending.extend(parts(kind))


def members(kind: DataType) -> Iterator[Field]:
    """The members of a struct, or of the outermost structs in a list or map."""
    if isinstance(kind, StructType):
        yield from kind.fields
    else:
        for part in parts(kind):
            yield from members(part)


def replaced(
    kind: DataType,
    member: Callable[[Field], Field],
    leaf: Callable[[DataType], DataType] = lambda kind: kind,
    *,
    nullable: bool = False,
) -> DataType:
    """A type with other members in its structs.

    Args:
        member: gives the member of a struct for that of ``kind``; what is inside it is not visited.
        leaf: gives the type for one that nothing is inside of.
        nullable: elements and values may be null, whether ``kind`` allows it or not.
    """
    if isinstance(kind, StructType):
        return StructType([member(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        element = replaced(kind.element_type, member, leaf, nullable=nullable)
        return ArrayType(element, kind.contains_null or nullable)
    if isinstance(kind, MapType):
        key, value = (replaced(part, member, leaf, nullable=nullable) for part in parts(kind))
        return MapType(key, value, kind.value_contains_null or nullable)
    return leaf(kind)
