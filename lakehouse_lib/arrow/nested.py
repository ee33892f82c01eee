"""Nested columns: the entries of lists and maps, and struct members that are not nullable.

In a null struct the members are null, too. pyarrow's Parquet writer refuses such nulls if the members are not nullable.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class NullMemberError(ValueError):
    """A member that is not nullable is null in a struct that is not null."""


def entries(maps: pa.Array) -> pa.Array:
    """A map column as lists of structs. It is not cast, because a cast would break values that are lists of nulls."""
    pairs, buffers = maps.values, maps.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(pairs.type), len(maps), buffers, maps.null_count, maps.offset, children=[pairs]
    )


def offsets_and_entries(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The offsets of a list column, null where a list is null, and its entries.

    Entries under a null list are left out, because they would become entries of the list before it.
    """
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    if lists.null_count:  # set nulls in the offsets, because the argument ``mask`` of from_arrays refuses slices
        offsets = pc.if_else(pa.concat_arrays([lists.is_valid(), pa.array([True])]), offsets, None)
    return offsets, lists.flatten()


def with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the column types of ``schema``, which may differ from its own only in nullability.

    A null inside a null value becomes zero, the empty text or the empty list if the type is not nullable.

    Raises:
        NullMemberError: a value is null where the type is not nullable, and it is not inside a null value.
    """
    columns = [
        pa.chunked_array([with_type(chunk, field.type) for chunk in column.chunks], field.type)
        if pa.types.is_nested(field.type)
        else column
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema) if columns else table


def with_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array in a type that may differ from its own only in nullability, as in ``with_types``."""
    if array.type == kind and not _requires(kind):
        return array
    if pa.types.is_struct(kind):
        mask = array.is_null() if array.null_count else None
        members = [_member(array.field(index), field, mask) for index, field in enumerate(kind)]
        if not members:
            return array
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        offsets, pairs = offsets_and_entries(entries(array))
        items = _member(pairs.field(1), kind.item_field, None)
        return pa.MapArray.from_arrays(offsets, with_type(pairs.field(0), kind.key_type), items, type=kind)
    if pa.types.is_list(kind):
        offsets, members = offsets_and_entries(array)
        return pa.ListArray.from_arrays(offsets, _member(members, kind.value_field, None), type=kind)
    return array


def _member(values: pa.Array, field: pa.Field, above: pa.Array | None) -> pa.Array:
    """The values for a member of a struct; ``above`` is true where the struct is null."""
    values = with_type(values, field.type)
    if field.nullable or not values.null_count:
        return values
    hidden = 0 if above is None else pc.sum(pc.and_(values.is_null(), above)).as_py()
    if hidden < values.null_count:
        raise NullMemberError(f"{field.name} has {values.null_count - hidden} nulls")
    return without_nulls(values)


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with nulls replaced by zero, the empty text, the empty list, or a struct of the members."""
    kind = array.type
    if pa.types.is_struct(kind):
        members = [array.field(index) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pa.types.is_nested(kind):
        buffers = [None, array.buffers()[1]]
        return pa.Array.from_buffers(kind, len(array), buffers, 0, array.offset, children=[array.values])
    zero = pa.Array.from_buffers(kind, 1, [None, *pa.nulls(1, kind).buffers()[1:]], 0)
    filled = array.fill_null(zero[0])
    # pyarrow 25 ends the process at map keys whose nulls it has not counted yet.
    return pa.Array.from_buffers(kind, len(filled), [None, *filled.buffers()[1:]], 0, filled.offset)


def _requires(kind: pa.DataType) -> bool:
    """Whether something inside the type, except map keys, is not nullable."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or _requires(field.type) for field in kind)
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or _requires(kind.item_type) or _requires(kind.key_type)
    return pa.types.is_list(kind) and (not kind.value_field.nullable or _requires(kind.value_type))
