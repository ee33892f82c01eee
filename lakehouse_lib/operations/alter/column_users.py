"""The check that the partitioning, constraints, generated columns and properties of a table do not use a column."""

from __future__ import annotations

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import ValueRule
from lakehouse_lib.features.rules_of_rows import feature_rules
from lakehouse_lib.operations.alter.column_place import ColumnPlace
from lakehouse_lib.protocol.table_properties import STATS_COLUMNS
from lakehouse_lib.snapshot import Snapshot


def check_unused(snapshot: Snapshot, place: ColumnPlace, verb: str) -> None:
    """Refuse a column or member that partitions the table, or that a condition or a property names.

    A condition that names any member of a column uses all members of this column.

    Args:
        verb: the participle for the error, such as "renamed".

    Raises:
        InvalidArgumentError: the column is in use; the message lists its users.
    """
    column, path = place.path[0], tuple(name.lower() for name in place.path)
    rules = feature_rules(snapshot.metadata, snapshot.store.root)
    # The rule of a generated column also names the generated column itself, which may change. Only the columns that its
    # expression reads may not change.
    users = [
        rule.name for rule in rules if column in (rule.value.columns if isinstance(rule, ValueRule) else rule.columns)
    ]
    statistics_columns = STATS_COLUMNS.of(snapshot.configuration, snapshot.store.root) or ()
    if any(tuple(name.lower() for name in other[: len(path)]) == path for other in statistics_columns):
        users.append(STATS_COLUMNS.key)
    if snapshot.layout.is_partition_column(column):
        users.insert(0, "the partitioning of the table")
    if users:
        raise InvalidArgumentError(
            f"the column {place.name!r} cannot be {verb}: it is in {', '.join(users)}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Drop the constraint or the generated column, or change the property first; the partitioning of a "
            "table cannot change",
            code="DELTA_COLUMN_IN_USE",
        )
