"""The DAG that maintains a table."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse_airflow.factory.settings import dag_id_of
from lakehouse_lib.fleet.registry import Registry, dag_shares


def maintenance_dags(registry: Registry, tables: Iterable[str]) -> dict[str, str]:
    """The id of the maintenance DAG of each of these tables of the registry."""
    return {table: dag_id_of("maintenance", share) for share in dag_shares(registry, tables) for table in share.tables}
