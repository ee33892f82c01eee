"""The change files of a row change: a delete, an update, a merge or an overwrite by a predicate.

Change files are written after the new data files. If the row change is planned again after a conflict, its change files
are written again only if the changed rows differ.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, strings
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.change_files import CHANGED_ROWS_SCHEMA, changed_rows, write_change_files
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.features import has_change_data_feed
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import discard
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, Metadata
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

#: The kinds of changes whose rows are in files of the read version. Rows of the other kinds are in new files.
_READ_VERSION_CHANGES = strings(["delete", "update_preimage"])
_UPDATE_CHANGES = strings(["update_preimage", "update_postimage"])
_NO_CHANGES = pa.Table.from_batches([], CHANGED_ROWS_SCHEMA)
_NO_FILES = pa.Table.from_batches([], CHANGE_FILE_SCHEMA)


class ChangeData:
    """The change data of a row change, which may be planned on several versions.

    Attributes:
        files: the change files of the last plan (CHANGE_FILE_SCHEMA).
        moves_rows: whether the table has a change data feed and the last plan copies files, but changes no live row.
        metrics: operationMetrics of the last plan, under delta-spark's names; empty without a change data feed.
    """

    def __init__(self, engine: Engine, writer_properties: WriterProperties | None) -> None:
        self._engine = engine
        self._writer_properties = writer_properties
        self._changed = self._copied = _NO_CHANGES
        self._written = self.files = _NO_FILES
        self.moves_rows = False
        self.metrics: dict[str, int] = {}

    def forget(self) -> None:
        """Forget all changed rows, because the next plan matches every row again."""
        self._changed = _NO_CHANGES

    def add(self, changed: pa.Table) -> None:
        """Add changed rows (CHANGED_ROWS_SCHEMA)."""
        self._changed = pa.concat_tables([self._changed, changed])

    def write(
        self,
        snapshot: Snapshot,
        metadata: Metadata | None,
        whole_files: pa.Table,
        changed: pa.Array,
        *,
        copies_rows: bool,
    ) -> None:
        """Write the change files of a plan, if the table has a change data feed and the commit needs them.

        A commit needs change files if rows get new values, or if files are copied without some of their rows. Then
        readers use only the change files, so these contain all changes of the commit. Other commits need no change
        files, because readers derive the changes: rows of new files are inserted; rows of removed files, and rows that
        only the new deletion vector of a file hides, are deleted.

        Args:
            metadata: the table's metadata after the change; None: unchanged.
            whole_files: files table of the files that are removed with all rows.
            changed: the ``file_keys`` of the files in which rows are deleted or updated.
            copies_rows: whether the remaining rows of these files are copied to new files.
        """
        after = metadata or snapshot.metadata
        if not has_change_data_feed(after):
            self.files, self._copied, self.moves_rows, self.metrics = _NO_FILES, _NO_CHANGES, False, {}
            return
        rows = self._changed
        is_of_new_files = pc.invert(pc.is_in(rows["change"], value_set=_READ_VERSION_CHANGES))
        keys = file_keys(rows.select(KEY_COLUMNS), snapshot.store)
        rows = rows.filter(pc.or_(is_of_new_files, pc.is_in(keys, value_set=changed)))
        is_update = pc.is_in(rows["change"], value_set=_UPDATE_CHANGES)
        is_needed = copies_rows or pc.any(is_update, min_count=0).as_py()
        rows = pa.concat_tables([rows, changed_rows("delete", whole_files)]) if is_needed else _NO_CHANGES
        if not rows.equals(self._copied):
            layout = replace(snapshot.layout, schema=Schema.from_json(after.schema_string))
            properties = self._writer_properties
            target = WriteTarget(snapshot.store, layout, after.configuration, writer_properties=properties)
            self.files = write_change_files(self._engine, rows, target)
            self._written = pa.concat_tables([self._written, self.files])
            self._copied = rows
        # If deletion vectors already hid all rows that the copies lack, no live row changes.
        self.moves_rows = copies_rows and not len(self.files)
        self.metrics = {"numAddedChangeFiles": len(self.files)}

    def discard(self, store: ObjectStore, *, committed: bool) -> None:
        """Delete the change files that no version refers to.

        Args:
            committed: whether the files of the last plan are committed.
        """
        committed_paths = self.files["path"] if committed else self.files["path"].slice(0, 0)
        is_committed = pc.is_in(self._written["path"], value_set=as_array(committed_paths))
        discard(store, self._written.filter(pc.invert(is_committed)))
