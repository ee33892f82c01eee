"""Conversion of a data file's columns to the table's columns, which are found by name or field id at every depth.

A file may differ from the table: a struct may lack members (which become nulls), have more members, or have them in
another order. Types may be narrower (before a type widening). Values may have other encodings: dictionaries, large and
fixed-size types, decimals of any physical type, timestamps of any unit with or without the UTC flag, INT96.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, PrimitiveType, StructType
from lakehouse_lib.schema.arrow import is_list
from lakehouse_lib.schema.column_mapping import Mode, field_id, physical_name

_FIELD_ID = b"PARQUET:field_id"
_UTC = pa.timestamp("us", tz="UTC")
_LOCAL = pa.timestamp("us")


class DoesNotFit(Exception):
    """A column of a file cannot be converted to the table's type; the text says why."""


def has_field_ids(fields: Sequence[pa.Field]) -> bool:
    """Whether a file has field ids at any depth; files written before column mapping have none."""
    pending = list(fields)
    while pending:
        field = pending.pop()
        if _FIELD_ID in (field.metadata or {}):
            return True
        pending += [field.type.field(index) for index in range(field.type.num_fields)]
    return False


class Members:
    """The columns of a file, or the members of a struct in it; finds them by the table's columns.

    Args:
        mode: the column mapping mode. In the mode ``id``, a field without an id is found by its physical name.
    """

    def __init__(self, fields: Sequence[pa.Field], mode: Mode) -> None:
        self._mode: Mode = mode
        self._exact = {field.name: index for index, field in enumerate(fields)}
        self._lower = {field.name.lower(): index for index, field in enumerate(fields)}
        self._ids: dict[int, int] = {}
        for index, field in enumerate(fields):
            id_text = (field.metadata or {}).get(_FIELD_ID, b"")
            if id_text.lstrip(b"-").isdigit():
                self._ids[int(id_text)] = index

    def index(self, field: Field) -> int | None:
        """The index of the column; None if the file does not have it."""
        if self._mode == "id" and (number := field_id(field)) is not None:
            return self._ids.get(number)
        name = physical_name(field, self._mode)
        exact = self._exact.get(name)
        return exact if exact is not None else self._lower.get(name.lower())


def conform(column: pa.ChunkedArray, stored: pa.Field, field: Field, mode: Mode) -> pa.ChunkedArray:
    """A column of a file, converted to the table's type.

    Args:
        stored: the column in the file's schema, with field ids.
        mode: ``none`` or ``name`` if the file has no field ids.

    Raises:
        DoesNotFit: the file's type cannot be converted to the table's type, or a value does not fit.
        UnsupportedFeatureError: the column has shredded variants.
    """
    target = field.type.to_arrow()
    if column.type == target and (mode == "none" or isinstance(field.type, PrimitiveType)):
        return column
    return pa.chunked_array([_conform(chunk, stored, field.type, mode) for chunk in column.chunks], target)


def _conform(array: pa.Array, stored: pa.Field, data_type: DataType, mode: Mode) -> pa.Array:
    array = _plain(array)
    target = data_type.to_arrow()
    if pa.types.is_null(array.type) or pa.types.is_null(target):
        return pa.nulls(len(array), target)
    if isinstance(data_type, StructType):
        return _struct(array, stored, data_type, mode)
    if isinstance(data_type, ArrayType):
        return _list(array, stored, data_type, mode)
    if isinstance(data_type, MapType):
        return _map(array, stored, data_type, mode)
    if data_type.type == "variant":
        return _variant(array, target)
    if array.type == target:
        return array
    return _primitive(array, data_type, target)


def _plain(array: pa.Array) -> pa.Array:
    """The array without extension types, dictionary encoding and run-end encoding."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def members_of(stored: pa.Field) -> list[pa.Field]:
    """The fields inside the type of a column of a file: members of a struct, the element of a list."""
    kind = stored.type
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return [kind.field(index) for index in range(kind.num_fields)]


def _struct(array: pa.Array, stored: pa.Field, data_type: StructType, mode: Mode) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise DoesNotFit(f"its type is {array.type}; expected {data_type}")
    target = data_type.to_arrow()
    if not len(data_type):
        return pa.Array.from_buffers(target, len(array), array.buffers()[:1], offset=array.offset)
    fields = members_of(stored)
    members = Members(fields, mode)
    children = []
    for field in data_type.fields:
        index = members.index(field)
        if index is None:
            children.append(pa.nulls(len(array), field.type.to_arrow()))
            continue
        try:
            children.append(_conform(array.field(index), fields[index], field.type, mode))
        except DoesNotFit as error:
            raise DoesNotFit(f"in member {field.name}: {error}") from None
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(array: pa.Array, stored: pa.Field, data_type: ArrayType, mode: Mode) -> pa.Array:
    if not is_list(array.type):
        raise DoesNotFit(f"its type is {array.type}; expected {data_type}")
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    try:
        values = _conform(array.values, members_of(stored)[0], data_type.element_type, mode)
    except DoesNotFit as error:
        raise DoesNotFit(f"in its elements: {error}") from None
    return _rewrapped(array, data_type.to_arrow(), values)


def _map(array: pa.Array, stored: pa.Field, data_type: MapType, mode: Mode) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise DoesNotFit(f"its type is {array.type}; expected {data_type}")
    entries = members_of(stored)[0].type
    target = data_type.to_arrow()
    try:
        keys = _conform(array.keys, entries.field(0), data_type.key_type, mode)
        items = _conform(array.items, entries.field(1), data_type.value_type, mode)
    except DoesNotFit as error:
        raise DoesNotFit(f"in its entries: {error}") from None
    pairs = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _rewrapped(array, target, pairs)


def _rewrapped(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists with other values."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def _variant(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise DoesNotFit(f"its type is {array.type}; expected a variant")
    names = {array.type.field(index).name: index for index in range(array.type.num_fields)}
    if "typed_value" in names:
        raise UnsupportedFeatureError(
            "a file has shredded variants (variantShredding), which only the Spark engine can read",
            hint="Leave the column out, or rewrite the table with delta.enableVariantShredding = false",
        )
    if not {"metadata", "value"} <= names.keys():
        raise DoesNotFit(f"its type is {array.type}; expected a variant")
    children = [array.field(names[field.name]).cast(field.type) for field in target]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _primitive(array: pa.Array, data_type: PrimitiveType, target: pa.DataType) -> pa.Array:
    if not may_become(array.type, target):
        raise DoesNotFit(f"its type is {array.type}; expected {data_type} or a type that widens to it (typeWidening)")
    try:
        if pa.types.is_timestamp(array.type):
            return _timestamps(array, target)
        if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
            # In two steps: a direct cast to a decimal with a scale requires more digits than the values need.
            return array.cast(pa.decimal128(20, 0)).cast(target)
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DoesNotFit(f"its type is {array.type}; expected {data_type}: {error}") from error


def may_become(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of the type ``stored`` may be cast to the table's type; the cast checks that each value fits."""
    types = pa.types
    if types.is_integer(target):
        return bool(types.is_integer(stored))
    if types.is_floating(target):
        exact = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.float16(), pa.float32())
        return stored in exact if types.is_float64(target) else stored == pa.float16()
    if types.is_decimal(target):
        return bool(types.is_decimal(stored) or types.is_integer(stored))
    if types.is_timestamp(target):
        return bool(types.is_timestamp(stored) or (types.is_date(stored) and target.tz is None))
    if types.is_date(target):
        return bool(types.is_date(stored))
    if types.is_string(target) or types.is_binary(target):
        text = types.is_string(stored) or types.is_large_string(stored) or types.is_string_view(stored)
        raw = types.is_binary(stored) or types.is_large_binary(stored) or types.is_binary_view(stored)
        return bool(text or raw or (types.is_fixed_size_binary(stored) and types.is_binary(target)))
    return False


def _timestamps(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps in microseconds. The table's type decides whether the stored numbers are UTC or wall-clock time."""
    if array.type.tz is not None:  # the stored number is UTC; the zone only affects how Arrow shows it
        array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
    if array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(_UTC if array.type.tz is not None else _LOCAL).cast(target)
