"""Footers of data files, statistics from them, and the errors for files that are missing or unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import statistics
from lakehouse_lib.arrow.legacy_calendar import HybridCalendar
from lakehouse_lib.arrow.types import change_types
from lakehouse_lib.errors import DataFileMissingError, ObjectNotFoundError, StoreError
from lakehouse_lib.schema import PrimitiveType, TableLayout
from lakehouse_lib.statistics import StatisticsColumns
from lakehouse_lib.store import ObjectStore

_TIMES = ("date", "timestamp", "timestamp_ntz")


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


@dataclass(frozen=True)
class FooterStatistics:
    """Reads statistics from footers.

    Attributes:
        layout: of the table.
        indexed: the columns that have statistics, by physical names.
    """

    store: ObjectStore
    layout: TableLayout
    indexed: StatisticsColumns

    def of(self, path: str) -> str:
        """The ``stats`` of the data file at a store path, as JSON.

        A column that the file does not have is null in every row. With column mapping by id it has no statistics,
        because the file may have it under another name. Dates and times get no bounds if the file uses the calendar of
        Spark before version 3.

        Raises:
            ObjectNotFoundError: the file does not exist.
            StoreError: it is not a Parquet file, or is damaged.
        """
        footer = read_footer(self.store, path)
        return statistics.from_footer(
            footer,
            self.layout.physical.schema,
            indexed=self.indexed,
            bounded=self.indexed if HybridCalendar.of(footer.metadata) is None else self._without_times,
            absent_are_null=self.layout.mapping != "id",
        )

    @cached_property
    def _without_times(self) -> StatisticsColumns:
        leaves = statistics.leaves(self.layout.physical.schema)
        times = {path for path, kind in leaves if isinstance(kind, PrimitiveType) and kind.type in _TIMES}
        return StatisticsColumns(self.indexed.paths - times)


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

    return change_types(kind, change)


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
