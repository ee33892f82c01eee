"""Rows that a caller hands in: anything Arrow can stream, or a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.schema import Schema


@dataclass(frozen=True)
class Incoming:
    """``rows`` is a ``pa.RecordBatchReader`` or a Spark DataFrame, ``schema`` what its columns are in Arrow."""

    rows: Any
    schema: pa.Schema

    @property
    def is_spark(self) -> bool:
        return is_spark_dataframe(self.rows)


def incoming(data: Any) -> Incoming:
    """Take a caller's data without reading it.

    Args:
        data: a Spark DataFrame, or an object with ``__arrow_c_stream__`` (pyarrow Table and RecordBatchReader, pandas
            and polars frames, DuckDB results) or ``__arrow_c_array__`` (a record batch), or a sequence of the latter.

    Raises:
        InvalidArgumentError: nothing of the kind, or what Arrow has no columns for.
    """
    if is_spark_dataframe(data):
        # That a column has no nulls is what Spark infers of these rows, and nobody's promise for those to come.
        return Incoming(data, Schema.from_json(data.schema.toNullable().json()).to_arrow())
    reader = _reader(data)
    return Incoming(reader, reader.schema)


def is_spark_dataframe(data: object) -> bool:
    """Whether it is a DataFrame of Spark, classic or Connect; pyspark is not imported for it."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )


def _reader(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    kind = f"data of type {type(data).__module__}.{type(data).__qualname__}"
    if type(data).__module__.startswith("polars.") and "Object" in map(str, getattr(data, "dtypes", ())):
        # Polars hands out where its objects are in memory.
        raise InvalidArgumentError(
            f"{kind} with a column of Python objects cannot be written", hint="Cast the column of type Object first"
        )
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
        if isinstance(data, Sequence) and data and all(hasattr(item, "__arrow_c_array__") for item in data):
            batches = [pa.record_batch(item) for item in data]
            return pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"{kind} cannot be written: {error}",
            hint="Give a frame whose columns have names, and each values of one type that Arrow has",
        ) from error
    raise InvalidArgumentError(
        f"{kind} cannot be written",
        hint="Give an Arrow table, a RecordBatchReader or a list of record batches that is not empty; a pandas, Polars "
        "or Spark frame; a DuckDB relation; or a DeltaTable",
    )
