"""The DAG that maintains a table, and the connection by which it opens the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse_airflow.factory.settings import dag_id_of
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_lib.fleet.registry import Registry, dag_shares


@dataclass(frozen=True)
class TableDag:
    """The maintenance DAG of a table.

    Attributes:
        connection: the id of the connection by which the DAG opens tables.
    """

    dag_id: str
    connection: str


def dags_of(registry: Registry, tables: Iterable[str]) -> dict[str, TableDag]:
    """The maintenance DAG of each of these tables of the registry."""
    return {
        table: TableDag(
            dag_id_of("maintenance", share), share.settings.lakehouse_conn_id or LakehouseHook.default_conn_name
        )
        for share in dag_shares(registry, tables)
        for table in share.tables
    }
