"""The typed columns of Parquet and ORC files, cast to the schema's types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.nested import with_type
from lakehouse_lib.arrow.types import change_types, nullable
from lakehouse_lib.arrow.values import bools, int64s, null_scalar, strings
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.limits import nested_faults
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.blocks import NestedColumn, TypedBlock, column_mismatches
from lakehouse_lib.ingestion.sources.casts import cast_or_find, decode_texts, type_name
from lakehouse_lib.schema.arrow import is_list


def typed_block(columns: Mapping[str, Any], stored: pa.Schema, schema: pa.Schema, rows: int) -> TypedBlock:
    """The block of some rows of a file.

    Args:
        columns: the columns of the file by name, as ``plain_values``. Other columns of the schema are NULL.
        stored: the file's schema, without mismatches.
    """
    typed, checks, texts = [], [], []
    nested: dict[str, NestedColumn] = {}
    for field in schema:
        if field.name not in columns:
            typed.append(pa.nulls(rows, field.type))
            checks.append((field.name, "", np.zeros(rows, bool)))
            texts.append(_Texts(pa.nulls(rows, pa.string())))
            continue
        values = columns[field.name]
        decoded_type = _decoded(stored.field(field.name).type)
        if pa.types.is_timestamp(decoded_type) or pa.types.is_nested(decoded_type):
            values = values.cast(decoded_type)
        values, garbled = _readable(values)
        readable = pc.if_else(bools(garbled), null_scalar(values.type), values) if garbled.any() else values
        texts.append(_Texts(values))
        is_text = pa.types.is_string(field.type) and garbled.any()
        reason = "not valid utf-8 text" if is_text else f"not a valid {type_name(field.type)}"
        if pa.types.is_nested(field.type):
            nested[field.name] = _nested_column(readable, field, reason, garbled)
            typed.append(nested[field.name].column)
            continue
        column, wrong = cast_or_find(readable, field.type)
        typed.append(column)
        checks.append((field.name, reason, wrong | garbled))
    return TypedBlock(typed, lambda: int64s(np.arange(rows)), checks, texts, FaultyRecords(), rows, nested=nested)


def _nested_column(values: Any, field: pa.Field, reason: str, garbled: NDArray[np.bool_]) -> NestedColumn:
    """The values in the type of a nested column; NULL for those that do not fit it."""
    loose = nullable(pa.schema([field])).field(0)
    column, wrong = cast_or_find(values, loose.type)
    checks = [(field.name, reason, wrong | garbled), *nested_faults(column, field)]
    faulty = np.logical_or.reduce([check[2] for check in checks])
    if faulty.any():  # unlike if_else, take also sets the values inside to null
        column = column.take(pa.array(np.arange(len(column)), mask=faulty))
    return NestedColumn(with_type(column, field.type), checks)


def plain_values(column: Any) -> Any:
    """A column without dictionaries."""
    kind = _decoded(column.type)
    return column if column.type.equals(kind) else column.cast(kind)


def type_mismatches(schema: pa.Schema, actual: pa.Schema, *, may_lack: bool = False) -> list[str]:
    """A text for each column of a file that does not fit the schema by its name or its type.

    Args:
        may_lack: whether the file may lack nullable columns.
    """
    needed = [field for field in schema if field.name in actual.names or not (may_lack and field.nullable)]
    wrong = column_mismatches(pa.schema(needed), actual.names)
    for field in schema:
        index = actual.get_field_index(field.name)
        if index >= 0:
            wrong += _misfits(field.name, actual.field(index).type, field.type)
    return wrong


class _Texts:
    """A column that is cast to text only for the rows that ``take`` selects."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def take(self, rows: Any) -> Any:
        values = self._column.take(rows)
        try:
            return values.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = values.cast(change_types(values.type, _without_times))  # Python has no years beyond 9999
            return strings([None if value is None else str(value) for value in values.to_pylist()])


def _without_times(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind


def _readable(values: Any) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The values, and a mask of the invalid ones: text that is not UTF-8, decimals with too many digits.

    pyarrow reads such values without an error. An invalid text gets replacement characters; a nested value with an
    invalid value inside becomes null.
    """
    garbled = np.zeros(len(values), bool)
    if _is_valid(values):
        return values, garbled
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return decode_texts(values.cast(pa.large_binary()))
    pending = [np.arange(len(values))]
    while pending:
        rows = pending.pop()
        if _is_valid(values.take(int64s(rows))):
            continue
        if len(rows) == 1:
            garbled[rows] = True
        else:
            pending += np.array_split(rows, 2)
    return pc.if_else(bools(garbled), null_scalar(values.type), values) if pa.types.is_nested(
        values.type
    ) else values, garbled


def _is_valid(values: Any) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decoded(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries at any depth; else one invalid value in a dictionary would reject all rows."""
    return change_types(kind, lambda part: part.value_type if pa.types.is_dictionary(part) else part)


def _misfits(path: str, actual: pa.DataType, expected: pa.DataType) -> list[str]:
    """A text for each mismatch of a column's type, or of its nested members by dotted path.

    A cast would raise no error: it drops members that are not in the schema, and casts 5 to true.
    """
    types = pa.types
    if types.is_struct(actual) and types.is_struct(expected):
        names = [member.name for member in actual]
        needed = [member for member in expected if member.name in names or not member.nullable]  # others are NULL
        wrong = [f"{path}.{text}" for text in column_mismatches(pa.schema(needed), names)]
        for member in needed:
            if names.count(member.name) == 1:
                wrong += _misfits(f"{path}.{member.name}", actual.field(member.name).type, member.type)
        return wrong
    if types.is_map(actual) and types.is_map(expected):
        return [
            *_misfits(f"{path}.key", actual.key_type, expected.key_type),
            *_misfits(f"{path}.value", actual.item_type, expected.item_type),
        ]
    if is_list(actual) and is_list(expected):
        return _misfits(f"{path}.element", actual.value_type, expected.value_type)
    return [] if _fits(actual, expected) else [f"{path} is {type_name(actual)}, expected {type_name(expected)}"]


def _fits(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether all values of the type ``actual`` are valid for ``expected``. A finer time unit may reject its row."""
    if pa.types.is_dictionary(actual):
        actual = actual.value_type
    if actual.equals(expected) or type_name(actual) == type_name(expected) or pa.types.is_null(actual):
        return True
    if pa.types.is_integer(actual) and pa.types.is_integer(expected):
        if pa.types.is_unsigned_integer(actual):
            return bool(actual.bit_width < expected.bit_width)
        return bool(actual.bit_width <= expected.bit_width)
    if pa.types.is_floating(actual) and pa.types.is_floating(expected):
        return bool(actual.bit_width <= expected.bit_width)
    if pa.types.is_decimal(actual) and pa.types.is_decimal(expected):
        whole = expected.precision - expected.scale
        return bool(actual.scale <= expected.scale and actual.precision - actual.scale <= whole)
    return False


@contextmanager
def refusals(source_file: LandedFile, kind: str) -> Iterator[None]:
    """Raise SourceRefusedError for an error of pyarrow about the content; ``kind`` is the name of the format."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceRefusedError(
            f"{source_file.name} cannot be read as {kind}: {str(error).partition(chr(10))[0].rstrip('.')}",
            hint="Land a complete file in its place",
        ) from error
