"""The columns of a table, with the share of files that queries skip by them, and the changes of the schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse_airflow.pages.views.commit import Commit
    from lakehouse_airflow.pages.views.condition import Condition
    from lakehouse_lib import Schema
    from lakehouse_lib.operations.inspect.schema_changes import SchemaChange


@dataclass(frozen=True)
class ColumnRow:
    """A column.

    Attributes:
        type: the type in Spark SQL.
        role: ``partition`` or ``clustering``; None: neither.
        skipped: the mean share of files that a query for one value skips; None: not measured.
        files_at_a_value: the mean number of files that may contain the same value; None: not measured.
    """

    name: str
    type: str
    nullable: bool
    role: str | None = None
    skipped: float | None = None
    files_at_a_value: float | None = None


def columns_of(
    schema: Schema, condition: Condition | None = None, partition_columns: Collection[str] = ()
) -> list[ColumnRow]:
    """The columns of a schema.

    Args:
        condition: the condition with the clustering of the columns; None: clustering is not shown.
    """
    clustered = () if condition is None else condition.clustered_by or tuple(condition.skipping)
    rows = []
    for field in schema.fields:
        is_partition = field.name in partition_columns
        rows.append(
            ColumnRow(
                field.name,
                str(field.type),
                field.nullable,
                "partition" if is_partition else "clustering" if field.name in clustered else None,
                None if condition is None else condition.skipping.get(field.name),
                None if condition is None else condition.clustering.get(field.name),
            )
        )
    return rows


@dataclass(frozen=True)
class ChangeRow:
    """A change of the schema.

    Attributes:
        text: the change in words.
        version: the version that has made the change; None: not known.
        commit: the commit of the version; None: it is not among the newest commits.
    """

    column: str
    text: str
    version: int | None
    commit: Commit | None


def change_rows(changes: Iterable[SchemaChange], commits: Iterable[Commit], most: int) -> list[ChangeRow]:
    """The first ``most`` of these changes, which are sorted newest first."""
    commit_of = {commit.version: commit for commit in commits}
    return [
        ChangeRow(change.column, _change_text(change), change.version, commit_of.get(change.version or -1))
        for change in islice(changes, most)
    ]


def _change_text(change: SchemaChange) -> str:
    texts = {
        "added": f"added as {change.after}",
        "dropped": f"dropped, was {change.before}",
        "renamed": f"renamed from {change.before}",
        "widened": f"widened from {change.before} to {change.after}",
        "retyped": f"type changed from {change.before} to {change.after}",
        "nullable": "may be NULL",
        "not null": "may no longer be NULL",
    }
    return texts[change.kind]
