"""A Delta table in which the platform records rows with a time, such as the record of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import TableNotFoundError
from lakehouse_lib.expressions import from_filters
from lakehouse_lib.expressions.parsing.parser import Filter
from lakehouse_lib.operations.write.planned_write import Write
from lakehouse_lib.operations.write.write import write
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import ObjectStore

#: Properties of a new table. Each append is a commit of one small file.
_PROPERTIES = {"delta.autoOptimize.autoCompact": "true"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def append_rows(store: ObjectStore, rows: pa.Table) -> None:
    """Append the rows in one commit. The first append creates the table; new columns are added to it.

    The table has auto-compaction.
    """
    write(
        store,
        incoming(rows),
        Write(mode="append", schema_mode="merge", configuration=_PROPERTIES),
        ArrowEngine(),
    )


def rows_since(
    store: ObjectStore, schema: pa.Schema, time_column: str, moment: int, filters: Sequence[Filter] = ()
) -> pa.Table:
    """The rows from ``moment`` on that match all filters, in any order. Files with only earlier rows are not read.

    Columns that the table lacks, because an earlier version of this library created it, are null. If the table does not
    exist, the result has no rows.

    Args:
        schema: the columns of the result.
        time_column: the timestamp column with the time of each row.
        moment: ms since the epoch.
        filters: column, operator and value, as for ``from_filters``.
    """
    try:
        snapshot = load_snapshot(store)
    except TableNotFoundError:
        return schema.empty_table()
    since: Filter = (time_column, ">=", _EPOCH + timedelta(milliseconds=moment))
    predicate = from_filters([since, *filters], snapshot.schema, table=store.root)
    names = [name for name in schema.names if name in snapshot.schema.names]
    rows: pa.Table = ArrowEngine().read(snapshot, names, predicate).read_all()
    columns = [
        rows[field.name] if field.name in names else pa.chunked_array([pa.nulls(len(rows), field.type)])
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def newest_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each combination of keys, in the order of the rows.

    Args:
        rows: sorted, the newest row last.
        keys: columns.
    """
    numbered = rows.select(list(keys)).append_column("number", pa.array(np.arange(len(rows))))
    last = numbered.group_by(list(keys)).aggregate([("number", "max")])["number_max"]
    return rows.take(last.combine_chunks().sort())
