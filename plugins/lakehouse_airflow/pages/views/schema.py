"""The columns of a table, with what makes a query skip files by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse_lib import Schema
    from lakehouse_lib.fleet.health import Health


@dataclass(frozen=True)
class ColumnRow:
    """A column.

    Attributes:
        type: as Spark SQL writes it.
        role: ``partition`` or ``clustering``; None: neither.
        skipped: the mean share of files that a query of one value skips; None: not measured.
        files_at_a_value: the mean number of files that may have the same value; None: not measured.
    """

    name: str
    type: str
    nullable: bool
    role: str | None = None
    skipped: float | None = None
    files_at_a_value: float | None = None


def columns_of(schema: Schema, health: Health | None = None) -> list[ColumnRow]:
    """The columns of a schema.

    Args:
        health: of the same version, by which clustering is measured; None: it is not shown.
    """
    partition = set() if health is None else set(health.partition_columns)
    clustered = set() if health is None else set(health.clustered_by)
    rows = []
    for field in schema.fields:
        role = "partition" if field.name in partition else "clustering" if field.name in clustered else None
        rows.append(
            ColumnRow(
                field.name,
                str(field.type),
                field.nullable,
                role,
                None if health is None else health.skipping.get(field.name),
                None if health is None else health.clustering.get(field.name),
            )
        )
    return rows
