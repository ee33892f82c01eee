"""Footers of data files, and the errors for files that are missing or unreadable."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.arrow.types import rebuilt
from lakehouse_lib.errors import DataFileMissingError, ObjectNotFoundError, StoreError
from lakehouse_lib.store import ObjectStore


def read_footer(store: ObjectStore, path: str) -> pq.FileMetaData:
    """The footer of the data file at a store path.

    Raises:
        ObjectNotFoundError: the file is missing although the log refers to it.
        StoreError: the file is not a Parquet file, or is damaged.
    """
    try:
        with store.open_input(path) as source:
            return pq.read_metadata(source)
    except ObjectNotFoundError as error:
        raise missing_file(path, table=store.root) from error
    except (pa.ArrowException, OSError) as error:
        raise unreadable_file(path, error, store) from error


def with_int96_in_utc(schema: pa.Schema, footer: pq.FileMetaData) -> pa.Schema:
    """The Arrow schema of a file with its INT96 columns as timestamps in UTC, which Arrow shows without a zone."""
    physical = [footer.schema.column(number).physical_type for number in range(footer.num_columns)]
    if "INT96" not in physical:
        return schema
    leaves = iter(physical)
    return pa.schema([column.with_type(_in_utc(column.type, leaves)) for column in schema])


def _in_utc(kind: pa.DataType, physical: Iterator[str]) -> pa.DataType:
    def change(part: pa.DataType) -> pa.DataType:
        is_int96 = not part.num_fields and next(physical, "") == "INT96"
        return pa.timestamp(part.unit, "UTC") if is_int96 and pa.types.is_timestamp(part) else part

    return rebuilt(kind, change)


def missing_file(path: str, *, table: str, version: int | None = None) -> DataFileMissingError:
    """The error for a data file that is missing although the log refers to it."""
    return DataFileMissingError(
        f"the data file {path} is missing although the log refers to it",
        table=table,
        version=version,
        hint="A vacuum with too short a retention, or another program, deleted it; read the latest version, or "
        "restore the file",
    )


def unreadable_file(path: str, error: Exception, store: ObjectStore) -> StoreError:
    """The error for a data file that pyarrow cannot read, because it is damaged or the store fails."""
    explanation = store.explain(error) if isinstance(error, OSError) else None
    return StoreError(
        f"the data file {path} cannot be read as Parquet: {str(error).strip()}",
        table=store.root,
        hint=explanation or "Restore the file from a backup, or read an older version without it",
        code="DELTA_DATA_FILE_UNREADABLE",
    )
