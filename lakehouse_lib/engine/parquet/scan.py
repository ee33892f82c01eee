"""The plan of a read: its columns, their types, and its predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.schema import Schema, TableLayout, type_widening, usable
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import map_in_threads

#: Columns after the requested ones: the row id, and the version that added the row or changed it last (row commit
#: version). The names are delta-spark's.
ROW_IDS = ("_metadata.row_id", "_metadata.row_commit_version")

#: The number of files of a remote store that are opened ahead, because most of the time is spent waiting.
_REMOTE_FILES_AHEAD = 16


@dataclass(frozen=True)
class Scan:
    """A read of a snapshot.

    Attributes:
        reader: reads the requested columns and those of the predicate.
        columns: the requested columns.
        predicate: only rows for which it is true are read; None: all rows.
    """

    reader: TableReader
    columns: tuple[str, ...]
    predicate: Predicate | None

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> Scan:
        """The scan of these columns (None: all) for rows that match the predicate.

        Args:
            row_ids: whether to add the columns ROW_IDS.

        Raises:
            InvalidArgumentError: a column does not exist or is given twice, or ``row_ids`` is true and the table does
                not have row tracking.
            InvalidSchemaError: this library cannot read the type of a column.
            UnsupportedFeatureError: the type of a column was changed in a way that the protocol does not allow.
        """
        schema = snapshot.schema
        names = snapshot.names_of(columns)
        needed = [name for name in (predicate.columns if predicate is not None else ()) if name not in names]
        fields = Schema([schema.field(name) for name in [*names, *sorted(needed)]])
        type_widening.check_changes(fields, table=snapshot.store.root, version=snapshot.version)
        usable.check_readable(fields, table=snapshot.store.root)
        reader = TableReader(snapshot.store, _layout_with_row_ids(snapshot) if row_ids else snapshot.layout, fields)
        return cls(reader, tuple(names), predicate)

    @property
    def result_schema(self) -> pa.Schema:
        """The schema of the rows; all columns are nullable, because files may have nulls in NOT NULL columns."""
        arrow = self.reader.schema.to_arrow()
        id_columns = ROW_IDS if self.reader.layout.row_ids is not None else ()
        return pa.schema(
            [
                *(arrow.field(name).with_nullable(True) for name in self.columns),
                *(pa.field(name, pa.int64()) for name in id_columns),
            ]
        )

    def loads(self, files: pa.Table) -> Iterator[Callable[[], pa.Table]]:
        """One function per row group that may have matching rows; it opens the file itself, so any thread may call it.

        Args:
            files: a files table; rows that its deletion vectors delete are left out.
        """
        constants = self.reader.constants(files)
        paths = files.column("path").to_pylist()
        ids = FileIds.of(files) if self.reader.layout.row_ids is not None else [None] * len(paths)

        def opened(index: int) -> tuple[DataFile, list[int]]:
            with self.reader.open(paths[index], files["deletionVector"][index].as_py(), ids[index]) as file:
                return file, self.reader.candidates(file, self.predicate)

        ahead = _REMOTE_FILES_AHEAD if self.reader.store.is_remote else 0
        for index, (file, groups) in enumerate(map_in_threads(opened, range(len(paths)), ahead, ahead=ahead)):
            values = {name: column[index] for name, column in constants.items()}
            for group in groups:
                yield partial(self._load, file, group, values)

    def _load(self, opened: DataFile, group: int, values: dict[str, pa.Scalar]) -> pa.Table:
        with self.reader.reopened(opened) as file:
            rows = self.reader.row_group(file, group, values)
        if self.predicate is not None:
            rows = rows.filter(self.reader.mask(rows, self.predicate))
        row_ids = self.reader.layout.row_ids
        if row_ids is None:
            return rows.select(list(self.columns))
        return rows.select([*self.columns, row_ids.ids, row_ids.versions]).rename_columns([*self.columns, *ROW_IDS])


def _layout_with_row_ids(snapshot: Snapshot) -> TableLayout:
    layout = snapshot.layout_with_row_ids()
    if layout.row_ids is None:
        raise InvalidArgumentError(
            "row_ids cannot be read: row tracking is not enabled (rowTracking)",
            table=snapshot.store.root,
            version=snapshot.version,
            hint='First call alter.set_table_properties({"delta.enableRowTracking": "true"})',
        )
    return layout
