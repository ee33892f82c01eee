"""Rows that a caller passes to a write: any object that Arrow can stream, or a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError
from lakehouse_lib.schema import Schema


@dataclass(frozen=True)
class Incoming:
    """Rows that a caller passes to a write, and their columns.

    Attributes:
        rows: a ``pa.RecordBatchReader`` or a Spark DataFrame; None: no rows.
        schema: the Arrow schema of the rows.
    """

    rows: Any
    schema: pa.Schema

    @property
    def is_spark(self) -> bool:
        """Whether the rows are a Spark DataFrame."""
        return is_spark_dataframe(self.rows)


def incoming(data: Any) -> Incoming:
    """The rows of a caller's data. They are not read yet.

    Args:
        data: a Spark DataFrame, or an object with ``__arrow_c_stream__`` (pyarrow Table and RecordBatchReader, pandas
            and polars frames, DuckDB results) or ``__arrow_c_array__`` (a record batch), or a sequence of objects with
            ``__arrow_c_array__``.

    Raises:
        InvalidArgumentError: the data is of another kind, a column has a type that Arrow does not have, or record
            batches differ in their columns.
        InvalidSchemaError: a column's name contains NUL (not checked in pyarrow's own tables, batches and readers).
    """
    if is_spark_dataframe(data):
        # All columns become nullable: Spark infers "not nullable" from these rows, and later rows may contain nulls.
        return Incoming(data, Schema.from_json(data.schema.toNullable().json()).to_arrow())
    reader = _reader(data)
    return Incoming(reader, reader.schema)


def is_spark_dataframe(data: object) -> bool:
    """Whether ``data`` is a DataFrame of Spark, classic or Connect; does not import pyspark."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )


def _reader(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    # Arrow's C interface cuts a column name at a NUL. pyarrow's own classes do not need this interface.
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    kind = f"data of type {type(data).__module__}.{type(data).__qualname__}"
    polars_types = _polars_types(data)
    if "Object" in map(str, polars_types.values()):
        # Polars would write the memory addresses of these objects as values.
        raise InvalidArgumentError(
            f"{kind} has a column of Python objects, which cannot be written",
            hint="Cast the columns of type Object to a Polars type",
            code="DELTA_UNSUPPORTED_DATA",
        )
    name_with_nul = next((name for name in _names(data, polars_types) if "\0" in name), None)
    if name_with_nul is not None:
        # Arrow's C interface would cut the name at the NUL, and Polars would end the process.
        raise InvalidSchemaError(
            f"{kind} has a column named {name_with_nul!r}; expected a name without NUL",
            hint="Rename the column",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
        if isinstance(data, Sequence) and data and all(hasattr(item, "__arrow_c_array__") for item in data):
            batches = [item if isinstance(item, pa.RecordBatch) else pa.record_batch(item) for item in data]
            return _reader_of(batches)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"{kind} cannot be written: {error}",
            hint="Give a frame in which each column has a name, and values of one type that Arrow supports",
            code="DELTA_UNSUPPORTED_DATA",
        ) from error
    raise InvalidArgumentError(
        f"{kind} has no rows that Arrow can read",
        hint="Give an Arrow table, a RecordBatchReader or a list of record batches that is not empty; a pandas, Polars "
        "or Spark frame; a DuckDB relation; or a DeltaTable",
        code="DELTA_UNSUPPORTED_DATA",
    )


def _reader_of(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatchReader:
    """The record batches in their common types.

    Raises:
        InvalidArgumentError: the columns of a batch are not named as those of the first.
        pa.ArrowException: the batches have no common types.
    """
    names = batches[0].schema.names
    for number, batch in enumerate(batches):
        if batch.schema.names != names:
            raise InvalidArgumentError(
                f"the record batch {number} has the columns {batch.schema.names}; expected those of the first: {names}",
                hint="Give all batches the same columns, in the same order, or write them one after the other",
                code="DELTA_UNSUPPORTED_DATA",
            )
    schema = pa.unify_schemas([batch.schema for batch in batches], promote_options="permissive")
    return pa.RecordBatchReader.from_batches(schema, [batch.cast(schema) for batch in batches])


def _polars_types(data: Any) -> Mapping[str, Any]:
    """The types of a Polars frame's or series' columns, by name; empty for other data."""
    if not type(data).__module__.startswith("polars."):
        return {}
    if hasattr(data, "collect_schema"):
        types: Mapping[str, Any] = data.collect_schema()
        return types
    return {data.name: data.dtype} if hasattr(data, "dtype") else {}


def _names(data: Any, polars_types: Mapping[str, Any]) -> Iterator[str]:
    """The column names of a frame; for a Polars frame also the names of struct members."""
    if not polars_types:
        columns = getattr(data, "columns", None)
        yield from (name for name in ([] if columns is None else columns) if isinstance(name, str))
        return
    yield from polars_types
    pending = list(polars_types.values())
    while pending:
        kind = pending.pop()
        for member in getattr(kind, "fields", ()):
            yield member.name
            pending.append(member.dtype)
        if getattr(kind, "inner", None) is not None:
            pending.append(kind.inner)
