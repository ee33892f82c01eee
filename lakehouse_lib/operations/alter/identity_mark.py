"""Move the high water mark of an identity column to the last number in the table (SYNC IDENTITY)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.features.computed_columns.identity_columns import is_identity, step_of, synchronize
from lakehouse_lib.operations.alter.column_place import place_of
from lakehouse_lib.operations.alter.columns import change_column
from lakehouse_lib.operations.optimize.statistics import statistics_of
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.schema import Field, PrimitiveType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import StatisticsColumns, bounds_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_LONG = PrimitiveType("long")


def sync_identity(
    snapshot: Snapshot, column: str, engine: Engine, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Move the high water mark of an identity column to the last number in the table.

    So no write assigns that number again. The mark never moves back. The last number comes from the statistics in the
    log, and may be the number of a deleted row. Only files without statistics of the column are read: their footers, or
    the column if a footer has no statistics. If the mark is already at or after the last number, nothing is committed.

    Raises:
        InvalidArgumentError: the column does not exist, or is not an identity column.
        MetadataChangedError: another writer changed the metadata first.
        CommitFailedError: another writer added rows that may have later numbers.
    """
    place = place_of(snapshot, column)
    if not is_identity(place.field):
        raise InvalidArgumentError(
            f"the column {place.name!r} is not an identity column",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Name a column whose metadata has delta.identity.start",
            code="DELTA_INVALID_IDENTITY_COLUMN",
        )
    snapshot.check_writable()
    number = _last_number(snapshot, place.field, engine)
    changed = place.field if number is None else synchronize(place.field, number)
    if changed == place.field:
        return OperationResult(snapshot.store.root, snapshot.version, None)
    return change_column(snapshot, place, changed, commit_properties, reads=(None,))


def _last_number(snapshot: Snapshot, field: Field, engine: Engine) -> int | None:
    """The last number in a column: the greatest, or with a negative step the least; None: no row has a number."""
    path = snapshot.layout.physical_path((field.name,))
    is_ascending = step_of(field) > 0

    def ends_of(files: pa.Table) -> tuple[pa.Array, pa.Array]:
        """For each file, the last number (null: none or unknown), and whether it is unknown."""
        bounds = bounds_of(files, {path: _LONG})[path]
        ends = bounds.max if is_ascending else bounds.min
        may_have_numbers = pc.fill_null(pc.less(bounds.null_count, bounds.num_records), True)
        return ends, pc.and_(pc.is_null(ends), may_have_numbers)

    files = snapshot.files
    ends, are_unknown = ends_of(files)
    unknown_files = files.filter(are_unknown)
    if len(unknown_files):
        computed_ends, _ = ends_of(statistics_of(snapshot, unknown_files, StatisticsColumns(frozenset({path})), engine))
        ends = pa.concat_arrays([ends, computed_ends])
    number: int | None = (pc.max(ends) if is_ascending else pc.min(ends)).as_py()
    return number
