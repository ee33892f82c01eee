"""The rules between keys of a registry, for example: each named table exists, and locations do not conflict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from lakehouse_lib.fleet.registry.dag_shares import misplaced_settings
from lakehouse_lib.fleet.registry.document import Place
from lakehouse_lib.fleet.registry.location_conflicts import location_conflicts

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry.registry import Registry

#: The type of pydantic's errors about a broken rule. Their messages name the keys.
ERROR_TYPE = "registry_rule"


def check_rules(registry: Registry, quarantine_suffix: str) -> None:
    """Check all rules between keys.

    Raises:
        ValidationError: rules are broken; it has an error for each.
    """
    problems = [
        *_unknown_groups(registry),
        *_unknown_tables(registry, quarantine_suffix),
        *_clustered_partitions(registry),
        *_missing_ledger(registry),
        *misplaced_settings(registry),
        *location_conflicts(registry, quarantine_suffix),
    ]
    if problems:
        raise ValidationError.from_exception_data(
            "Registry",
            [
                InitErrorDetails(
                    type=PydanticCustomError(ERROR_TYPE, "{message}", {"message": message}), loc=place, input=None
                )
                for place, message in problems
            ],
        )


def _unknown_groups(registry: Registry) -> Iterator[tuple[Place, str]]:
    expected = ", ".join(sorted(registry.groups)) or "none"
    for name, table in registry.tables.items():
        if table.group is not None and table.group not in registry.groups:
            yield (
                ("tables", name, "group"),
                f"tables.{name}.group is {table.group!r}; expected one of groups: {expected}",
            )


def _unknown_tables(registry: Registry, quarantine_suffix: str) -> Iterator[tuple[Place, str]]:
    expected = ", ".join(sorted(registry.tables)) or "none"
    for place, name in _table_names(registry):
        table = registry.tables.get(name.removesuffix(quarantine_suffix)) if name.endswith(quarantine_suffix) else None
        if name not in registry.tables and (table is None or table.quarantine is None):
            yield place, f"the table {name} does not exist; expected one of {expected}"


def _table_names(registry: Registry) -> Iterator[tuple[Place, str]]:
    """The names of tables that other parts of the registry use, each with its place."""
    for number, name in enumerate(registry.report.tables if registry.report is not None else ()):
        yield ("report", "tables", number), name
    for subject_name, subject in registry.subjects.items():
        for number, rows in enumerate(subject.rows):
            place: Place = ("subjects", subject_name, "rows", number)
            yield (*place, "table"), rows.table
            if rows.through is not None:
                yield (*place, "through", "table"), rows.through.table


def _clustered_partitions(registry: Registry) -> Iterator[tuple[Place, str]]:
    for name, table in registry.tables.items():
        partitions = {column.lower() for column in table.partition_by}
        for column in table.cluster_by:
            if column.lower() in partitions:
                yield (
                    ("tables", name, "cluster_by"),
                    f"tables.{name}.cluster_by has the partition column {column!r}; expected other columns, because "
                    "files are clustered within a partition",
                )


def _missing_ledger(registry: Registry) -> Iterator[tuple[Place, str]]:
    places: list[Place] = [("subjects", name) for name in registry.subjects]
    if registry.repair is not None:
        places.append(("repair",))
    if places and registry.ledger is None:
        yield (
            places[0],
            f'{".".join(map(str, places[0]))} needs a ledger: write "ledger": LOCATION beside "tables", a location '
            "where Airflow's users cannot write",
        )
