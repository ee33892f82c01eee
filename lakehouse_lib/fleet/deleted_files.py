"""The record of deleted files: a Delta table with a row for each file that a vacuum deletes.

The rows are written before the deletion. So after a kill, the record has a row for each deleted file. It may also have
rows of files that were not deleted yet; the next vacuum writes another row for each of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.record_table import append_rows
from lakehouse_lib.log import clock
from lakehouse_lib.store import open_store

logger = logging.getLogger(__name__)

_TIME = pa.timestamp("us", "UTC")

#: The columns of the record. ``path`` is relative to the table and decoded; ``size`` is in bytes; ``modified_at`` is
#: null if the file is known only from the log; ``deleted_at`` is the time at which the row was written, before the
#: deletion.
SCHEMA = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("table", pa.string()),
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified_at", _TIME),
        pa.field("deleted_at", _TIME),
    ]
)


class DeletedFilesRecord:
    """The record of deleted files in ``RECORDS/deleted_files``. The table is created by the first write.

    Args:
        records: the location of the platform's own tables.
    """

    def __init__(self, records: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.store = open_store(f"{records.rstrip('/')}/deleted_files", dict(storage_options or {}))

    def writer(self, table: str, run: str) -> Callable[[pa.Table], None]:
        """A function that records files of a table, for ``before_deletion`` of ``operations.upkeep.vacuum``.

        Each call of this function makes one commit. If the rows cannot be written, a warning is logged, and the vacuum
        continues.

        Args:
            table: the name or the location of the table.
            run: the id of the maintenance run or of the vacuum.
        """

        def append(deleted: pa.Table) -> None:
            count = len(deleted)
            columns = {
                "run": pa.repeat(literal(run, pa.string()), count),
                "table": pa.repeat(literal(table, pa.string()), count),
                "path": deleted["path"],
                "size": deleted["size"],
                "modified_at": _times(deleted["modified"]),
                "deleted_at": _times(pa.repeat(literal(clock.now(), pa.int64()), count)),
            }
            rows = pa.table(columns, schema=SCHEMA)
            try:
                append_rows(self.store, rows)
            except DeltaError as error:
                logger.warning("%d files of %s are deleted and not recorded: %s", count, table, error)

        return append


def _times(milliseconds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.cast(pc.cast(milliseconds, pa.timestamp("ms", "UTC")), _TIME)
