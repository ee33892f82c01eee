"""The predicate of a verb that chooses whole partitions."""

from __future__ import annotations

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.snapshot import Snapshot


def check_partition_predicate(snapshot: Snapshot, predicate: Predicate | None) -> None:
    """Refuse a predicate that refers to a column that is not a partition column.

    Raises:
        InvalidArgumentError: the predicate refers to another column.
    """
    if predicate is not None and not predicate.partition_only(snapshot.partition_columns):
        raise InvalidArgumentError(
            f"the predicate is {predicate.sql}; expected a predicate on partition columns only",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f"Filter by partition columns only: {', '.join(snapshot.partition_columns) or 'this table has none'}",
        )
