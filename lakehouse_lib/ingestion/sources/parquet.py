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
from lakehouse_lib.ingestion.sources.row_blocks import most_bytes, row_blocks
from lakehouse_lib.ingestion.sources.stored_columns import plain_values, refusals, type_mismatches, typed_block

#: The largest number of rows that are decoded at a time. A dictionary hides how wide they are.
_DECODED_ROWS = 2048
#: The largest size of compressed row groups that are read in a few requests.
_WHOLE_GROUP = 32 << 20
#: The bytes of a value in memory, by physical type; of other types, the size in the file is used.
_WIDTHS = {"INT64": 8, "DOUBLE": 8, "INT96": 8, "INT32": 4, "FLOAT": 4}


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
    with refusals(source_file, "Parquet"), source_file.open() as source:
        metadata = pq.ParquetFile(source).metadata
        size = _buffer_size(metadata)
        options = {"metadata": metadata, "buffer_size": size, "pre_buffer": not size}
        file = DataFile(source, coerce_int96_timestamp_unit="us", **options)
        stored = with_int96_in_utc(file.schema_arrow, file.metadata)
        mismatches = type_mismatches(schema, stored, may_lack=may_lack)
        if mismatches:
            raise refusal(source_file.name, mismatches)
        count = file.num_row_groups
        groups = [number for number in range(count) if source_file.has_chunk(number, count)]
        batches = (batch for number in groups for batch in _decoded(file, number))
        for batch in row_blocks(batches):
            yield partial(_converted, batch, stored, file, source_file, schema)


def _buffer_size(metadata: pq.FileMetaData) -> int:
    """The bytes of a buffer for each column, through which row groups are read; 0: they are small and read whole."""
    sizes = [
        sum(group.column(number).total_compressed_size for number in range(group.num_columns))
        for group in map(metadata.row_group, range(metadata.num_row_groups))
    ]
    if max(sizes, default=0) <= _WHOLE_GROUP:
        return 0
    return int(max(1 << 16, _WHOLE_GROUP // metadata.num_columns))


def _decoded(file: DataFile, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of a row group, without dictionaries, in batches that are small in memory."""
    group = file.metadata.row_group(number)
    columns = map(group.column, range(group.num_columns))
    size = sum(
        max(column.total_uncompressed_size, _WIDTHS.get(column.physical_type, 0) * column.num_values)
        for column in columns
    )
    rows = max(1, min(_DECODED_ROWS, most_bytes(group.num_columns) * group.num_rows // max(1, size)))
    for batch in file.iter_batches(rows, row_groups=[number]):
        yield pa.RecordBatch.from_arrays([plain_values(column) for column in batch.columns], batch.schema.names)


def _converted(
    batch: pa.RecordBatch, stored: pa.Schema, file: DataFile, source_file: LandedFile, schema: pa.Schema
) -> TypedBlock:
    with refusals(source_file, "Parquet"):
        columns = {
            name: _to_proleptic_gregorian(column, name, file, source_file.name)
            for name, column in zip(stored.names, batch.columns, strict=True)
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
