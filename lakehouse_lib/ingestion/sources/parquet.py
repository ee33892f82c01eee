"""Read Parquet files as blocks of typed columns; a row's line is its number in the file, from 1.

Dates and timestamps that Spark wrote before version 3, in the hybrid calendar, keep their year, month and day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.parquet.footer import with_int96_in_utc
from lakehouse_lib.engine.parquet.reader import DataFile
from lakehouse_lib.errors import SourceRefusedError, UnsupportedFeatureError
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.blocks import TypedBlock, refusal
from lakehouse_lib.ingestion.sources.stored_columns import plain_values, refusals, type_mismatches, typed_block

_ROWS = 65_536


def parquet_head(source_file: LandedFile) -> tuple[pa.Schema, int]:
    """The columns of a file and its number of rows; raises SourceRefusedError if it is not complete."""
    with refusals(source_file, "Parquet"), source_file.open() as source:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        return with_int96_in_utc(file.schema_arrow, file.metadata), file.metadata.num_rows


def read_parquet(
    source_file: LandedFile, schema: pa.Schema, *, may_lack: bool = False
) -> Iterator[Callable[[], TypedBlock]]:
    """Functions that convert the blocks of a file, in order. They can run in other threads.

    Args:
        may_lack: whether the file may lack nullable columns, which are NULL.

    Raises:
        SourceRefusedError: the columns or their types do not fit the schema, the file is not complete, or it has
            timestamps of the hybrid calendar in a time zone other than UTC. The functions raise it, too.
    """
    with (
        refusals(source_file, "Parquet"),
        source_file.open() as source,
        DataFile(source, coerce_int96_timestamp_unit="us") as file,
    ):
        stored = with_int96_in_utc(file.schema_arrow, file.metadata)
        mismatches = type_mismatches(schema, stored, may_lack=may_lack)
        if mismatches:
            raise refusal(source_file.name, mismatches)
        count = file.num_row_groups
        groups = [number for number in range(count) if source_file.has_chunk(number, count)]
        for batch in file.iter_batches(_ROWS, row_groups=groups):
            yield partial(_converted, batch, stored, file, source_file, schema)


def _converted(
    batch: pa.RecordBatch, stored: pa.Schema, file: DataFile, source_file: LandedFile, schema: pa.Schema
) -> TypedBlock:
    with refusals(source_file, "Parquet"):
        columns = {
            name: _to_proleptic_gregorian(plain_values(batch.column(name)), name, file, source_file.name)
            for name in schema.names
            if name in stored.names
        }
        return typed_block(columns, stored, schema, batch.num_rows)


def _to_proleptic_gregorian(column: Any, name: str, file: DataFile, file_name: str) -> Any:
    if file.calendar is None:
        return column
    physical = file.physical(file.schema_arrow.get_field_index(name))
    try:
        return file.calendar.rebased(pa.chunked_array([column]), physical).chunk(0)
    except UnsupportedFeatureError as error:
        raise SourceRefusedError(f"column {name} of {file_name}: {error.message}", hint=error.hint) from error
