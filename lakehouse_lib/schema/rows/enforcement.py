"""Schema enforcement, and the conversion of Arrow data to a table's columns.

Columns are matched by name regardless of case, at every depth. A column fits if it has the table's type. A void column
fits every nullable column. The data of a variant is a struct of the binary members metadata and value.

As in delta-spark and delta-rs, numbers of another type are cast: whole numbers and decimals to every type of numbers,
float and double to every type of numbers except decimals. A number that the cast would change is refused, with two
exceptions: a decimal becomes the nearest float or double, and a double becomes the nearest float. A double beyond the
range of float is refused. Whole numbers beyond 2**24 are refused for float and beyond 2**53 for double, even those that
the type holds exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.nested import entries, offsets_and_entries
from lakehouse_lib.arrow.types import nullable, without_views
from lakehouse_lib.arrow.values import nearest_floats
from lakehouse_lib.errors import SchemaMismatchError
from lakehouse_lib.schema.arrow import type_from_arrow
from lakehouse_lib.schema.types import (
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    VariantType,
)

#: The metadata key of a generated column's SQL expression (PROTOCOL.md, Generated Columns).
GENERATION_EXPRESSION = "delta.generationExpression"
#: The metadata key of a column's default, a SQL expression (PROTOCOL.md, Default Columns).
CURRENT_DEFAULT = "CURRENT_DEFAULT"
#: The metadata key of an identity column's first number (PROTOCOL.md, Identity Columns).
IDENTITY_START = "delta.identity.start"

WHOLE_NUMBERS = frozenset(map(PrimitiveType, ("byte", "short", "integer", "long")))
FLOATS = frozenset(map(PrimitiveType, ("float", "double")))
#: The number of digits of Arrow's largest unsigned integer.
_MOST_WHOLE_DIGITS = 20
_VARIANT_MEMBERS = {(name, PrimitiveType("binary")) for name in ("metadata", "value")}


@dataclass(frozen=True)
class Mismatch:
    """A column that does not fit the table's schema; ``column`` is its name, a dotted path for nested fields."""

    column: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.column} is {self.actual}, expected {self.expected}"


def is_computed(field: Field) -> bool:
    """Whether a write computes the values of a top-level column if the data does not have the column."""
    return not field.metadata.keys().isdisjoint((GENERATION_EXPRESSION, CURRENT_DEFAULT, IDENTITY_START))


def enforce(schema: Schema, incoming: pa.Schema, *, table: str | None = None) -> None:
    """Refuse data with columns that do not fit; a nullable or computed column may be missing.

    Raises:
        SchemaMismatchError: lists every column of ``incoming`` that does not fit.
        InvalidSchemaError: a column of ``incoming`` has no Delta type.
    """
    mismatches = find_mismatches(schema, incoming)
    if mismatches:
        raise refusal(mismatches, table)


def find_mismatches(schema: Schema, incoming: pa.Schema) -> list[Mismatch]:
    """The columns that do not fit: those of the table in its order, then those that the table does not have.

    If names occur more than once in ``incoming``, the result has only these names.

    Raises:
        InvalidSchemaError: a column of ``incoming`` has no Delta type.
    """
    repeated_names = find_repeated_names(incoming)
    if repeated_names:
        return repeated_names
    return list(_struct_mismatches(schema, Schema.from_arrow(incoming), ""))


def align(data: Any, schema: Schema, *, target: pa.Schema | None = None, table: str | None = None) -> Any:
    """The same rows with exactly the columns, order and Arrow types of ``schema``, nullable at every depth.

    NOT NULL is not checked here, but by its row rule (``not_null``).

    Args:
        data: a RecordBatch or a Table; the result has the same class. A missing nullable column is filled with nulls.
        schema: the table's schema.
        target: ``nullable(schema.to_arrow())``, from a caller that aligns many batches; None: build it.
        table: the table's location, for errors.

    Raises:
        SchemaMismatchError: a column does not fit, a value does not fit the type of its column (such as nanoseconds
            that microseconds cannot hold), or a key of a map is null.
        InvalidSchemaError: a column of the data has no Delta type.
    """
    if target is None:
        target = nullable(schema.to_arrow())
    if data.schema.equals(target, check_metadata=False):
        for field, column in zip(target, data.columns, strict=True):
            _refuse_invalid(column, field.name, table)
        return data.replace_schema_metadata(None)
    enforce(schema, data.schema, table=table)
    by_name = {name.lower(): i for i, name in enumerate(data.schema.names)}
    columns = []
    for field in target:
        index = by_name.get(field.name.lower())
        if index is None:
            columns.append(_nulls(data.num_rows, field.type))
            continue
        column = data.column(index)
        if isinstance(column, pa.ChunkedArray):
            chunks = [_align_values(chunk, field.type, field.name, table) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
        else:
            columns.append(_align_values(column, field.type, field.name, table))
        _refuse_invalid(columns[-1], field.name, table)
    if isinstance(data, pa.RecordBatch):
        if not columns:
            return data.select([])
        return pa.RecordBatch.from_arrays(columns, schema=target)
    return pa.Table.from_arrays(columns, schema=target)


def refusal(mismatches: list[Mismatch], table: str | None) -> SchemaMismatchError:
    """The error for columns that do not fit."""
    return SchemaMismatchError(
        f"the data does not fit the table's schema: {'; '.join(map(str, mismatches))}",
        table=table,
        hint="Cast or rename these columns, or use schema evolution to add the new columns",
    )


def find_repeated_names(incoming: pa.Schema) -> list[Mismatch]:
    """The names that several columns of ``incoming`` have, regardless of case."""
    counts: dict[str, int] = {}
    for name in incoming.names:
        counts[name.lower()] = counts.get(name.lower(), 0) + 1
    return [Mismatch(name, "one", f"the name of {count} columns") for name, count in counts.items() if count > 1]


def _struct_mismatches(table: StructType, data: StructType, above: str) -> Iterator[Mismatch]:
    for field in table.fields:
        other = data.get(field.name)
        if other is not None:
            yield from type_mismatches(field.type, other.type, above + field.name, field.nullable)
        elif not field.nullable and (above or not is_computed(field)):
            yield Mismatch(above + field.name, f"{field.type} not null", "missing")
    for other in data.fields:
        if other.name not in table:
            yield Mismatch(above + other.name, "no such column", str(other.type))


def type_mismatches(table: DataType, data: DataType, name: str, nullable: bool) -> Iterator[Mismatch]:
    """Every place in a column of type ``data`` that does not fit the type ``table``."""
    if isinstance(table, StructType) and isinstance(data, StructType):
        yield from _struct_mismatches(table, data, f"{name}.")
    elif isinstance(table, ArrayType) and isinstance(data, ArrayType):
        yield from type_mismatches(table.element_type, data.element_type, f"{name}.element", table.contains_null)
    elif isinstance(table, MapType) and isinstance(data, MapType):
        yield from type_mismatches(table.key_type, data.key_type, f"{name}.key", False)
        yield from type_mismatches(table.value_type, data.value_type, f"{name}.value", table.value_contains_null)
    elif table == VariantType() and isinstance(data, StructType):
        if {(field.name, field.type) for field in data.fields} != _VARIANT_MEMBERS:
            yield Mismatch(name, "variant, as a struct of binary metadata and value", str(data))
    elif data == PrimitiveType("void"):
        if not nullable:
            yield Mismatch(name, f"{table} not null", "only nulls")
    elif data != table and not are_castable(data, table):
        yield Mismatch(name, str(table), str(data))


def are_castable(data: DataType, table: DataType) -> bool:
    """Whether ``align`` casts numbers of the type ``data`` to the type ``table``."""
    if not isinstance(data, PrimitiveType) or not isinstance(table, PrimitiveType):
        return False
    if data.decimal is not None or data in WHOLE_NUMBERS:
        return table.decimal is not None or table in WHOLE_NUMBERS | FLOATS
    return data in FLOATS and table in WHOLE_NUMBERS | FLOATS


def _refuse_invalid(column: pa.Array | pa.ChunkedArray, name: str, table: str | None) -> None:
    """Refuse text that is not UTF-8 and decimals with too many digits; Arrow imports them without a check."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"{name} has values that are not valid ({error}); expected {type_from_arrow(column.type)}",
            table=table,
            hint="Decode the text with the encoding that it was written in, or write it as binary",
        ) from error


def _align_values(array: pa.Array, target: pa.DataType, name: str, table: str | None) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        # Arrow cannot decode a dictionary of views, such as Polars' categories, so the dictionary is cast first.
        array = array.dictionary.cast(without_views(array.type.value_type)).take(array.indices)
    elif pa.types.is_run_end_encoded(array.type):
        values = array.values.cast(without_views(array.type.value_type))
        array = pc.run_end_decode(
            pa.RunEndEncodedArray.from_arrays(array.run_ends, values).slice(array.offset, len(array))
        )
    if pa.types.is_null(array.type):
        return _nulls(len(array), target)
    if pa.types.is_struct(target):
        return _align_struct(array, target, name, table)
    if pa.types.is_map(target):
        offsets, members = offsets_and_entries(entries(array))
        keys = _align_values(members.field(0), target.key_type, f"{name}.key", table)
        items = _align_values(members.field(1), target.item_type, f"{name}.value", table)
        return pa.MapArray.from_arrays(offsets, keys, items, type=target)
    if pa.types.is_list(target):
        offsets, members = offsets_and_entries(array)
        members = _align_values(members, target.value_type, f"{name}.element", table)
        return pa.ListArray.from_arrays(offsets, members, type=target)
    if array.type == target:
        return array
    try:
        return _cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"{name} has a value of {array.type} that does not fit ({error}); expected {type_from_arrow(target)}",
            table=table,
            hint="Round or cast the column before writing it",
        ) from error


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in another type; raises ``pa.ArrowInvalid`` if one of them does not fit."""
    if pa.types.is_decimal(target) and pa.types.is_integer(array.type):
        # pyarrow refuses a decimal with fewer digits than the largest number of the integer type.
        array = array.cast(pa.decimal256(_MOST_WHOLE_DIGITS + target.scale, target.scale))
    if pa.types.is_decimal(array.type) and pa.types.is_floating(target):
        return nearest_floats(array, target)
    values = array.cast(target, safe=True)
    if pa.types.is_float32(target) and pa.types.is_float64(array.type):
        is_beyond = pc.and_(pc.is_inf(values), pc.is_finite(array))
        if pc.any(is_beyond).as_py():
            raise pa.ArrowInvalid(f"{array.filter(is_beyond)[0].as_py()} is beyond the range of float")
    return values


def _align_struct(array: pa.Array, target: pa.DataType, name: str, table: str | None) -> pa.Array:
    children = array.flatten()  # flatten() also sets the parent's nulls in the children
    index = {array.type.field(i).name.lower(): i for i in range(array.type.num_fields)}
    fields = [target.field(i) for i in range(target.num_fields)]
    aligned = []
    for field in fields:
        position = index.get(field.name.lower())
        if position is None:
            aligned.append(_nulls(len(array), field.type))
            continue
        aligned.append(_align_values(children[position], field.type, f"{name}.{field.name}", table))
        if not field.nullable and aligned[-1].null_count > array.null_count:
            raise SchemaMismatchError(
                f"{name} is a variant without {field.name}; expected both metadata and value",
                table=table,
                hint="Give both members of each variant, or null for the whole value",
            )
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(aligned, fields=fields, mask=mask)


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return pa.nulls(count, kind)
    members = [_nulls(count, field.type) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.repeat(pa.scalar(True), count))
