"""The columns and members that Parquet and ORC files add to a schema, by the schemas of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakehouse_lib.arrow.types import VARIANT, change_types
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.inference.additions import count_fields, new_column, new_member
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.orc import orc_head
from lakehouse_lib.ingestion.sources.parquet import parquet_head
from lakehouse_lib.ingestion.sources.stored_columns import type_mismatches
from lakehouse_lib.schema.arrow import is_list

_NewField = Callable[[pa.Field, Iterable[str]], pa.Field | None]


def with_typed_additions(files: Sequence[LandedFile], kind: str, schema: pa.Schema, taken: frozenset[str]) -> pa.Schema:
    """The schema with the columns and members that only the files have. Of two types, the one that both fit is taken.

    A column of the type null becomes a string, as a column without values in CSV.

    Args:
        kind: ``parquet`` or ``orc``.
        schema: the columns of the table that the files have.
        taken: names, in lower case, that a new column must not have.
    """
    read, column = orc_head if kind == "orc" else parquet_head, partial(new_column, taken=taken)
    wide, most = schema, count_fields(schema) + additions.MOST_COLUMNS
    for file in files:
        try:
            stored, _ = read(file)
        except SourceRefusedError:
            continue
        trial = pa.schema(_wider_fields(wide, schema, stored, column))
        if not type_mismatches(trial, stored, may_lack=True) and count_fields(trial) <= most:
            wide = trial
    return pa.schema(_with_texts(wide, schema))


def _wider_fields(
    wide: Iterable[pa.Field], own: Iterable[pa.Field], stored: Iterable[pa.Field], new_field: _NewField
) -> list[pa.Field]:
    """The fields ``wide``, and at their end the fields that only a file has.

    Args:
        own: the fields of the schema, without additions. Their types do not change, except for new members.
        stored: the fields of the file.
    """
    fields, types = {field.name: field for field in wide}, _types(own)
    for field in stored:
        earlier = fields.get(field.name)
        if earlier is not None:
            fields[field.name] = earlier.with_type(_wider_type(earlier.type, types.get(field.name), field.type))
            continue
        addition = new_field(field, fields)
        if addition is not None:
            fields[field.name] = addition
    return list(fields.values())


def _wider_type(wide: pa.DataType, own: pa.DataType | None, stored: pa.DataType) -> pa.DataType:
    """The type ``wide`` with the members of the file's type. For an addition (``own`` is None), the wider type."""
    types = pa.types
    if types.is_struct(wide) and types.is_struct(stored):
        if wide == VARIANT:
            return wide
        return pa.struct(_wider_fields(wide, own or (), stored, new_member))
    if types.is_map(wide) and types.is_map(stored):
        key = wide.key_type if own is not None else _wider_type(wide.key_type, None, stored.key_type)
        value = _wider_type(wide.item_type, None if own is None else own.item_type, stored.item_type)
        return pa.map_(key, wide.item_field.with_type(value))
    if is_list(wide) and is_list(stored):
        element = _wider_type(wide.value_type, None if own is None else own.value_type, stored.value_type)
        return pa.list_(wide.value_field.with_type(element))
    addition = None if own is not None else new_member(pa.field("value", stored), ())
    if addition is None or type_mismatches(pa.schema([addition]), pa.schema([("value", wide)])):
        return wide
    return addition.type


def _with_texts(wide: Iterable[pa.Field], own: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields, in whose additions the type null is replaced by string."""
    types = _types(own)
    return [field.with_type(_with_text(field.type, types.get(field.name))) for field in wide]


def _with_text(wide: pa.DataType, own: pa.DataType | None) -> pa.DataType:
    if own is None:
        return change_types(wide, lambda part: pa.string() if pa.types.is_null(part) else part)
    if pa.types.is_struct(wide):
        return pa.struct(_with_texts(wide, own))
    if pa.types.is_map(wide):
        return pa.map_(wide.key_type, wide.item_field.with_type(_with_text(wide.item_type, own.item_type)))
    return pa.list_(wide.value_field.with_type(_with_text(wide.value_type, own.value_type))) if is_list(wide) else wide


def _types(fields: Iterable[pa.Field]) -> Mapping[str, pa.DataType]:
    return {field.name: field.type for field in fields}
