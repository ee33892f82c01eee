"""The DAG that loads or maintains a table: a DAG for only this table, for its group, or for all other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse_lib.fleet.registry.dag_settings import DagSettings
from lakehouse_lib.fleet.registry.document import Place

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry.registry import Registry


@dataclass(frozen=True)
class DagShare:
    """The tables that one DAG loads or maintains.

    Attributes:
        name: the name of the table or the group; None: the DAG of all tables that are in no other DAG.
        tables: names of tables of the registry.
        settings: the settings of the DAG.
    """

    name: str | None
    tables: tuple[str, ...]
    settings: DagSettings


def dag_shares(registry: Registry, tables: Iterable[str]) -> list[DagShare]:
    """Divide tables among their DAGs. A quarantine is in the DAG of its table.

    The last share has all tables that are in no other DAG, and may be empty.
    """
    names: dict[str | None, list[str]] = {}
    for table in tables:
        loaded = registry.table_of_quarantine(table)
        entry = registry.table(loaded)
        name = {"table": loaded, "group": entry.group, None: None}[entry.airflow.per]
        names.setdefault(name, []).append(table)
    other_tables = names.pop(None, [])
    shares = [
        DagShare(name, tuple(share), registry.table(registry.table_of_quarantine(share[0])).airflow)
        for name, share in names.items()
    ]
    return [*shares, DagShare(None, tuple(other_tables), registry.defaults.airflow)]


def misplaced_settings(registry: Registry) -> Iterator[tuple[Place, str]]:
    """Mistakes in ``airflow``: settings that no DAG uses, and DAGs with the same name."""
    for name, table in registry.tables.items():
        key = f"tables.{name}.airflow"
        per, group = table.airflow.per, registry.groups.get(table.group or "")
        if per == "group" and group is None:
            yield ("tables", name, "airflow"), f"{key}.per is group, and the table has no group; expected per: table"
        elif per == "table" and name in registry.groups and _has_dag(registry, name):
            yield ("tables", name), f"tables.{name} and groups.{name} have a DAG of the same name; rename one of them"
        elif per is None and table.airflow != registry.defaults.airflow:
            yield (
                ("tables", name, "airflow"),
                f"{key} differs from defaults.airflow, and the table is in the common DAG; expected per: table or "
                "per: group, or no settings",
            )
        elif per == "group" and table.airflow != registry.table(_first(registry, table.group)).airflow:
            yield (
                ("tables", name, "airflow"),
                f"{key} differs from other tables of the group {table.group!r}, which has one DAG; expected the "
                "settings in the group",
            )


def _has_dag(registry: Registry, group: str) -> bool:
    return any(table.group == group and table.airflow.per == "group" for table in registry.tables.values())


def _first(registry: Registry, group: str | None) -> str:
    return next(
        name for name, table in registry.tables.items() if table.group == group and table.airflow.per == "group"
    )
