"""Data files as rows of the table, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib import file_paths, partition_values
from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError, StoreError
from lakehouse_lib.predicates import Predicate, matches, to_arrow
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore


class DataFile(pq.ParquetFile):  # type: ignore[misc]  # pyarrow is untyped
    """A data file that knows its path in the store, for errors."""

    path = ""


@dataclass(frozen=True)
class TableReader:
    """Reads data files of a table into its types; picklable.

    Attributes:
        store: the table's store.
        schema: the columns wanted, in this order; columns a file does not have become nulls.
        partition_columns: whose values come from the log.
    """

    store: ObjectStore
    schema: Schema
    partition_columns: tuple[str, ...]

    def open(self, path: str) -> DataFile:
        """The data file at a log path, with its footer read.

        INT96 timestamps come as microseconds: as nanoseconds the years past 2262 wrap around.

        Raises:
            ObjectNotFoundError: the file is missing although the log refers to it.
            StoreError: it is no Parquet file, or a damaged one.
        """
        decoded = file_paths.decode(path, self.store)
        try:
            file = DataFile(self.store.open_input(decoded), coerce_int96_timestamp_unit="us")
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(
                f"the data file {decoded} is missing although the log refers to it",
                table=self.store.root,
                hint="A vacuum with too short a retention or another program deleted it; restore the file or an "
                "older version",
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(decoded, error) from error
        file.path = decoded
        return file

    def constants(self, files: pa.Table) -> dict[str, pa.Array]:
        """The typed partition values of these files, by wanted partition column."""
        return {
            one.name: partition_values.partition_column(files, one.name, one.type)
            for one in self.schema.fields
            if one.name in self.partition_columns
        }

    def row_group(
        self, file: DataFile, index: int, constants: dict[str, pa.Scalar], *, threads: bool = False
    ) -> pa.Table:
        """One row group as the wanted columns.

        Args:
            constants: the file's partition values.
            threads: decode columns in parallel; for a caller that has the process to itself.

        Raises:
            StoreError: the file is damaged.
        """
        stored = {name.lower(): name for name in file.schema_arrow.names}
        wanted = self.schema.to_arrow()
        present = {
            one.name: stored[one.name.lower()]
            for one in wanted
            if one.name not in constants and one.name.lower() in stored
        }
        try:
            table = file.read_row_group(index, columns=list(present.values()), use_threads=threads)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(file.path, error) from error
        count = file.metadata.row_group(index).num_rows
        columns = []
        for one in wanted:
            if one.name in constants:
                columns.append(pa.chunked_array([pa.repeat(constants[one.name], count)], one.type))
            elif one.name in present:
                columns.append(self._typed(table.column(present[one.name]), one))
            else:
                columns.append(pa.chunked_array([pa.nulls(count, one.type)], one.type))
        # Files may hold nulls where the schema allows none; a reader shows what is there.
        nullable = pa.schema([one.with_nullable(True) for one in wanted])
        return pa.Table.from_arrays(columns, schema=nullable)

    def candidates(self, file: DataFile, path: str, predicate: Predicate | None) -> list[int]:
        """The row groups that may hold a row for which ``predicate`` is true, by the footer's statistics."""
        every = list(range(file.num_row_groups))
        if predicate is None or len(every) < 2 or not predicate.columns:
            return every
        stored = file.schema_arrow
        for name in predicate.columns:
            # The file's own types only: what it does not have, or has otherwise, its statistics do not tell.
            if name not in stored.names or stored.field(name).type != self.schema.field(name).type.to_arrow():
                return every
            # Nor do they tell of NaN, which is above every number here.
            if any(pa.types.is_floating(leaf) for leaf in _leaf_types(stored.field(name).type)):
                return every
        import pyarrow.dataset as pads

        with self.store.open_input(file_paths.decode(path, self.store)) as source:
            fragment = pads.ParquetFileFormat().make_fragment(source)
            return [one.id for one in fragment.subset(to_arrow(predicate, self.schema), stored).row_groups]

    def mask(self, rows: pa.Table, predicate: Predicate) -> pa.BooleanArray:
        """For each row whether ``predicate`` is true; where it is NULL it is not."""
        return pc.fill_null(matches(predicate, rows, self.schema), False)

    def files(self, files: pa.Table) -> Iterator[tuple[DataFile, dict[str, pa.Scalar]]]:
        """Each file opened, with its partition values; closed when the next one is asked for."""
        constants = self.constants(files)
        for index, path in enumerate(files.column("path").to_pylist()):
            with self.open(path) as file:
                yield file, {name: values[index] for name, values in constants.items()}

    def _damaged(self, path: str, error: Exception) -> StoreError:
        return StoreError(
            f"the data file {path} cannot be read as Parquet: {str(error).strip()}",
            table=self.store.root,
            hint="Restore the file from a backup, or an older version without it",
        )

    def _typed(self, column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
        if column.type == wanted.type:
            return column
        try:
            return column.cast(wanted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise LogCorruptedError(
                f"column {wanted.name} of a data file is {column.type}, not {wanted.type}: {error}",
                table=self.store.root,
                hint="The file does not fit the table's schema; rewrite it with the engine that wrote it",
            ) from error


def _leaf_types(arrow: pa.DataType) -> Iterator[pa.DataType]:
    if not arrow.num_fields:
        yield arrow
    for index in range(arrow.num_fields):
        yield from _leaf_types(arrow.field(index).type)


def select(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema of these columns, in the order asked for."""
    return Schema([schema.field(name) for name in columns])
