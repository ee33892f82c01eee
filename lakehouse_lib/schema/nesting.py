"""The parts of nested types: members, elements, keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, StructType


def parts(kind: DataType) -> list[DataType]:
    """The types directly inside a type: of a struct's members, a list's elements, a map's keys and values."""
    if isinstance(kind, StructType):
        return [member.type for member in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.element_type]
    return [kind.key_type, kind.value_type] if isinstance(kind, MapType) else []


def all_types(schema: DataType) -> Iterator[DataType]:
    """A type and every type inside it, at any depth, in no particular order."""
    pending: list[DataType] = [schema]
    while pending:
        kind = pending.pop()
        yield kind
        pending.extend(parts(kind))


def members(kind: DataType) -> Iterator[Field]:
    """The members of a struct, or of the outermost structs inside a list or map."""
    if isinstance(kind, StructType):
        yield from kind.fields
    else:
        for part in parts(kind):
            yield from members(part)


def equal_except_nullability(left: DataType, right: DataType) -> bool:
    """Whether two types are equal if NOT NULL is ignored. Members of structs must have the same order."""
    inner = parts(left), parts(right)
    if not any(inner):
        return left == right
    if isinstance(left, StructType) and isinstance(right, StructType):
        if [member.name for member in left.fields] != [member.name for member in right.fields]:
            return False
    elif type(left) is not type(right):
        return False
    return all(map(equal_except_nullability, *inner))


def with_replaced_types(
    kind: DataType,
    member: Callable[[Field], Field],
    leaf: Callable[[DataType], DataType] = lambda kind: kind,
    *,
    nullable: bool = False,
) -> DataType:
    """The type with the members of its outermost structs replaced.

    Args:
        member: returns the new member for a member of ``kind``; the types inside a member are not visited.
        leaf: returns the new type for a type without parts.
        nullable: whether elements and values may be null even if ``kind`` forbids null.
    """
    if isinstance(kind, StructType):
        return StructType([member(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        element = with_replaced_types(kind.element_type, member, leaf, nullable=nullable)
        return ArrayType(element, kind.contains_null or nullable)
    if isinstance(kind, MapType):
        key, value = (with_replaced_types(part, member, leaf, nullable=nullable) for part in parts(kind))
        return MapType(key, value, kind.value_contains_null or nullable)
    return leaf(kind)
