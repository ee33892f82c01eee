"""Reading of data files as rows of the table, one row group at a time, without deleted rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakehouse_lib.arrow.legacy_calendar import HybridCalendar
from lakehouse_lib.arrow.types import as_types, without_views
from lakehouse_lib.arrow.values import flags_of, is_true, strings
from lakehouse_lib.data_skipping import may_match
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.conform import DoesNotFit, Members, conform, has_field_ids
from lakehouse_lib.engine.parquet.footer import missing_file, unreadable_file
from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError, UnsupportedFeatureError
from lakehouse_lib.expressions import Predicate, matches
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.protocol import deletion_vector, file_paths, partition_values
from lakehouse_lib.schema import Field, PrimitiveType, Schema, TableLayout
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.statistics import StatisticsColumns, from_footer, leaves
from lakehouse_lib.store import ObjectStore

#: The columns of a files table that are needed to copy the rows of its files.
COPIED_COLUMNS = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


class DataFile(pq.ParquetFile):  # type: ignore[misc]  # pyarrow is untyped
    """An open data file with its path and its deleted rows.

    Attributes:
        path: the path in the store.
        deleted: the positions of deleted rows; None: no row is deleted.
        ids: the row ids in the file's action; None: the action has none.
        source: the open file, kept if opening it again would cost a request; else None.
    """

    path = ""
    deleted: BitMap64 | None = None
    ids: FileIds | None = None
    source: pa.NativeFile | None = None

    def close(self, force: bool = False) -> None:
        """Close the file that was opened for this reader. ``source`` stays open, because other readers share it."""
        super().close(force or self.source is None)

    @property
    def live_rows(self) -> int:
        """The number of rows that are not deleted."""
        count: int = self.metadata.num_rows
        return count - (len(self.deleted) if self.deleted is not None else 0)

    def live_rows_of(self, group: int) -> int:
        """The number of rows of a row group that are not deleted."""
        count: int = self.metadata.row_group(group).num_rows
        if self.deleted is None:
            return count
        start = self.starts[group]
        return count - self.deleted.range_cardinality(start, start + count)

    def live_mask(self, group: int) -> pa.BooleanArray | None:
        """Which rows of a row group are not deleted; None: no row is deleted."""
        count: int = self.metadata.row_group(group).num_rows
        if self.deleted is None or self.live_rows_of(group) == count:
            return None
        return deletion_vector.live_row_mask(self.deleted, self.starts[group], count)

    @cached_property
    def columns(self) -> list[pa.Field]:
        """The columns as Arrow fields, with field ids."""
        return list(self.schema_arrow)

    @cached_property
    def leaves(self) -> list[range]:
        """For each column, the numbers of the Parquet columns in which it is stored."""
        ranges: list[range] = []
        start = 0
        for field in self.columns:
            stop = start + sum(1 for _ in _leaf_types(field.type))
            ranges.append(range(start, stop))
            start = stop
        if start != self.metadata.num_columns:
            raise pa.ArrowInvalid(f"the file has {self.metadata.num_columns} columns, but types for {start} columns")
        return ranges

    @property
    def rows_of_groups(self) -> int:
        """The number of rows of all row groups."""
        return sum(self.metadata.row_group(number).num_rows for number in range(self.num_row_groups))

    @cached_property
    def calendar(self) -> HybridCalendar | None:
        """The calendar of Spark before version 3, if the file uses it; None: the file uses the current calendar."""
        return HybridCalendar.of(self.metadata.metadata)

    def physical(self, column: int) -> list[str]:
        """The physical types of the Parquet columns in which a column is stored."""
        return [self.metadata.schema.column(number).physical_type for number in self.leaves[column]]

    @cached_property
    def has_field_ids(self) -> bool:
        """Whether a column or a member has a field id."""
        return has_field_ids(self.columns)

    @cached_property
    def starts(self) -> list[int]:
        """The position of the first row of each row group."""
        starts, start = [], 0
        for group in range(self.num_row_groups):
            starts.append(start)
            start += self.metadata.row_group(group).num_rows
        return starts


#: Rows of a row group that are decoded at a time if only some of them are returned.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TableReader:
    """A picklable reader of a table's data files that converts values to the table's types.

    Attributes:
        store: the table's store.
        layout: the table's layout. If it has ``row_ids``, row ids and row commit versions are read as two more columns.
        schema: the columns to read, in this order; columns that a file does not have become nulls.
    """

    store: ObjectStore
    layout: TableLayout
    schema: Schema

    def open(self, path: str, vector: Mapping[str, Any] | None, ids: FileIds | None = None) -> DataFile:
        """Open the data file at a log path; reads its footer and its deletion vector.

        INT96 timestamps are read as microseconds, because years after 2262 would overflow as nanoseconds.

        Args:
            vector: the ``deletionVector`` of the file's action; None: no row counts as deleted.
            ids: the row ids of the file's action; needed if the layout has ``row_ids``.

        Raises:
            ObjectNotFoundError: the file or its deletion vector is missing although the log refers to it.
            StoreError: the file is not a Parquet file, or is damaged.
            LogCorruptedError: the deletion vector differs from its description in the log, or does not fit the file.
        """
        decoded = file_paths.decode(path, self.store)
        file = self._opened(decoded)
        file.ids = ids
        if vector is not None:
            file.deleted = deletion_vector.load(self.store, vector)
            try:
                deletion_vector.check_rows(file.deleted, decoded, file.metadata.num_rows, table=self.store.root)
            except LogCorruptedError:
                file.close()
                raise
        return file

    def reopened(self, file: DataFile) -> DataFile:
        """The same file, opened again for another thread without reading the footer again."""
        reopened_file = self._opened(file.path, file.metadata, file.source)
        reopened_file.deleted, reopened_file.ids = file.deleted, file.ids
        return reopened_file

    def _opened(
        self, path: str, footer: pq.FileMetaData | None = None, source: pa.NativeFile | None = None
    ) -> DataFile:
        try:
            source = self.store.open_input(path) if source is None else source
            # Over a network, all columns of a row group are requested at once, adjacent ones in one request.
            is_local = isinstance(source, pa.OSFile | pa.BufferReader)
            file = DataFile(source, metadata=footer, coerce_int96_timestamp_unit="us", pre_buffer=not is_local)
            if footer is None and file.rows_of_groups != file.metadata.num_rows:
                raise pa.ArrowInvalid("the number of rows in its row groups differs from that of the file")
        except ObjectNotFoundError as error:
            raise missing_file(path, table=self.store.root) from error
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # UnicodeDecodeError: a name in the footer
            raise unreadable_file(path, error, self.store) from error
        file.path, file.source = path, None if isinstance(source, pa.OSFile) else source
        return file

    def constants(self, files: pa.Table) -> dict[str, pa.Array]:
        """The typed partition values of these files, by partition column of ``schema``."""
        keys = self.layout.partition_keys
        return {
            field.name: partition_values.partition_column(files, keys[field.name.lower()], field.type)
            for field in self.schema.fields
            if self.layout.is_partition_column(field.name)
        }

    def row_group(
        self,
        file: DataFile,
        index: int,
        constants: dict[str, pa.Scalar],
        *,
        include_deleted: bool = False,
        mask: pa.BooleanArray | None = None,
    ) -> pa.Table:
        """The rows of one row group that are not deleted, with the columns of ``schema``.

        Args:
            constants: the file's partition values.
            include_deleted: whether deleted rows are included.
            mask: true for the rows of the row group to return, deleted or not; None: ``include_deleted`` decides.

        Raises:
            StoreError: the file is damaged.
            LogCorruptedError: the file does not fit the table's schema, or its action lacks the row ids of the layout.
            UnsupportedFeatureError: a column has shredded variants.
        """
        row_ids = self.layout.row_ids
        fields = [*self.schema.fields, *(row_ids.fields if row_ids is not None else ())]
        mode = self._mode(file)
        members = Members(file.columns, mode)
        place_by_name = {
            field.name: place
            for field in fields
            if field.name not in constants and (place := members.index(field)) is not None
        }
        places = sorted(set(place_by_name.values()))
        if mask is None and not include_deleted:
            mask = file.live_mask(index)
        try:
            numbers = [number for place in places for number in file.leaves[place]]
            table = _columns_of(file, index, numbers, mask)
        except (pa.ArrowException, OSError) as error:
            raise unreadable_file(file.path, error, self.store) from error
        count = file.metadata.row_group(index).num_rows if mask is None else mask.true_count
        read = {place: table.column(position) for position, place in enumerate(places)}
        # Nullable, because files of other writers may have nulls in NOT NULL columns.
        nullable = pa.schema([field.to_arrow().with_nullable(True) for field in fields])
        columns = []
        for field, arrow in zip(fields, nullable, strict=True):
            if field.name in constants:
                columns.append(pa.chunked_array([pa.repeat(constants[field.name], count)], arrow.type))
            elif field.name in place_by_name:
                place = place_by_name[field.name]
                columns.append(self._typed(file, read[place], place, field, mode))
            else:
                columns.append(pa.chunked_array([pa.nulls(count, arrow.type)], arrow.type))
        if row_ids is not None:
            positions = file.starts[index] + (np.arange(count) if mask is None else np.flatnonzero(flags_of(mask)))
            ids, versions = columns[-2:]
            columns[-2:] = self._ids(file).complete(ids, versions, positions)
        if not columns:  # the result has no columns, but it has the number of rows
            return pa.table([pa.nulls(count)], ["rows"]).select([])
        return pa.Table.from_arrays(columns, schema=nullable)

    def _ids(self, file: DataFile) -> FileIds:
        if file.ids is None:
            raise LogCorruptedError(
                f"the log has no ids for the rows of {file.path}; expected row ids, because rowTracking is enabled",
                table=self.store.root,
                hint="Set delta.enableRowTracking to false and to true again with the engine that set it",
            )
        return file.ids

    def holds(self, file: DataFile, column: Field) -> bool:
        """Whether the file has the column; a missing column is read as nulls."""
        return Members(file.columns, self._mode(file)).index(column) is not None

    def other_columns(self, file: DataFile, schema: Schema) -> list[str]:
        """The columns of the file that are not in ``schema``, by their names in the file."""
        members = Members(file.columns, self._mode(file))
        places = {members.index(field) for field in schema.fields}
        return [field.name for place, field in enumerate(file.columns) if place not in places]

    def candidates(self, file: DataFile, predicate: Predicate | None) -> list[int]:
        """The row groups that may have a row for which ``predicate`` is true, by the statistics in the footer."""
        all_groups = list(range(file.num_row_groups))
        if predicate is None or len(all_groups) < 2 or not predicate.columns or file.calendar is not None:
            return all_groups
        # Conditions on partition columns have already been used to skip whole files.
        predicate = predicate.split(self.layout.partition_columns)[1]
        if predicate is None:
            return all_groups
        mode = self._mode(file)
        members = Members(file.columns, mode)
        names: dict[str, str] = {}
        for name in predicate.columns:
            field = self.schema.field(name)
            place = members.index(field)
            # Statistics are used only for columns that the file has in the table's type.
            if place is None or file.columns[place].type != field.type.to_arrow():
                return all_groups
            # A copy of a partition column in the file may differ from the log. With column mapping, members of a struct
            # may have swapped names while the struct has the same type.
            if self.layout.is_partition_column(name) or (mode != "none" and not isinstance(field.type, PrimitiveType)):
                return all_groups
            # Statistics leave out NaN, which is greater than every number.
            if any(pa.types.is_floating(leaf) for leaf in _leaf_types(file.columns[place].type)):
                return all_groups
            names[name] = file.columns[place].name
        stored = Counter(column.name.lower() for column in file.columns)
        if any(stored[name.lower()] != 1 for name in names.values()):
            return all_groups
        file_schema = Schema([Field(names[name], self.schema.field(name).type) for name in sorted(names)])
        indexed = StatisticsColumns(frozenset(path for path, _ in leaves(file_schema)))
        stats = strings([from_footer(file.metadata, file_schema, indexed=indexed, group=group) for group in all_groups])
        may_match_flags = may_match(predicate, pa.table([stats], ["stats"]), TableLayout.of_names(self.schema, names))
        return [
            group for group, is_candidate in zip(all_groups, may_match_flags.to_pylist(), strict=True) if is_candidate
        ]

    def mask(self, rows: pa.Table, predicate: Predicate) -> pa.BooleanArray:
        """Whether ``predicate`` is true for each row; NULL counts as false."""
        return is_true(matches(predicate, rows))

    def files(self, files: pa.Table) -> Iterator[tuple[DataFile, dict[str, pa.Scalar]]]:
        """Open each file, and yield it with its partition values; it is closed when the iterator advances.

        Args:
            files: path, partitionValues and deletionVector of a files table; also its row ids if the layout has
                ``row_ids``.
        """
        constants = self.constants(files)
        ids = [None] * len(files) if self.layout.row_ids is None else FileIds.of(files)
        for index, path in enumerate(files.column("path").to_pylist()):
            with self.open(path, files["deletionVector"][index].as_py(), ids[index]) as file:
                yield file, {name: values[index] for name, values in constants.items()}

    def _mode(self, file: DataFile) -> Mode:
        """The column mapping mode for a file; files written before the table had field ids have only physical names."""
        return "name" if self.layout.mapping == "id" and not file.has_field_ids else self.layout.mapping

    def _typed(self, file: DataFile, column: pa.ChunkedArray, place: int, field: Field, mode: Mode) -> pa.ChunkedArray:
        try:
            if file.calendar is not None:
                column = file.calendar.rebased(column, file.physical(place))
            return conform(column, file.columns[place], field, mode)
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                f"column {field.name} of {file.path}: {error.message}",
                table=self.store.root,
                hint=error.hint,
                code=error.code,
            ) from error
        except (DoesNotFit, pa.ArrowException) as error:
            raise LogCorruptedError(
                f"column {field.name} of the data file {file.path} does not fit the table: {error}",
                table=self.store.root,
                hint="Rewrite the file with the engine that wrote it",
            ) from error


def copy_reader(target: WriteTarget) -> TableReader:
    """The reader of rows that are copied into files of ``target``.

    It reads the columns of data files, and the row ids if the target's layout has columns for them.
    """
    return TableReader(target.store, target.layout, target.layout.data_columns)


def _columns_of(file: DataFile, group: int, columns: list[int], mask: pa.BooleanArray | None) -> pa.Table:
    """The rows of a row group for which a mask is true, with these Parquet columns.

    Rows are decoded in batches, up to the last row of the mask. Each batch is filtered before the next batch is
    decoded, so that its memory is used again.
    """
    count = file.metadata.row_group(group).num_rows
    if mask is None or not columns or not count:
        table = file.reader.read_row_group(group, column_indices=columns, use_threads=False)
        table.validate()
        read, parts = len(table), [table]
    else:
        read, parts = 0, []
        for batch in file.reader.iter_batches(_BATCH_ROWS, [group], column_indices=columns, use_threads=False):
            batch.validate()
            batch_mask = mask.slice(read, len(batch))
            read += len(batch)
            if batch_mask.true_count or not parts:
                plain = pa.schema([field.with_type(without_views(field.type)) for field in batch.schema])
                parts.append(as_types(pa.Table.from_batches([batch]), plain).filter(batch_mask))
            if not mask.slice(read).true_count and read < count:
                return pa.concat_tables(parts)
    if columns and read != count:
        raise pa.ArrowInvalid(f"row group {group} has {read} rows; expected the number in the footer")
    return pa.concat_tables(parts)


def _leaf_types(arrow: pa.DataType) -> Iterator[pa.DataType]:
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if not arrow.num_fields:
        yield arrow
    for index in range(arrow.num_fields):
        yield from _leaf_types(arrow.field(index).type)
