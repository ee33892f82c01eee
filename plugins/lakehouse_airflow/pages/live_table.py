"""A table of the registry, opened for a page, and the status of the errors of opening it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from fastapi import HTTPException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.pages.table_dags import dags_of
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.errors import (
    DeltaError,
    ObjectNotFoundError,
    StoreError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lakehouse_lib.fleet.registry import RegistryError

if TYPE_CHECKING:
    from lakehouse_lib import DeltaTable
    from lakehouse_lib.fleet.registry import Registry, Table


@dataclass(frozen=True)
class LiveTable:
    """An opened table.

    Attributes:
        entry: its entry in the registry.
    """

    name: str
    registry: Registry
    entry: Table
    hook: LakehouseHook
    table: DeltaTable


def registered_table(name: str) -> tuple[Registry, Table]:
    """The registry and its entry of a table. A location is refused: it could open any folder of this machine.

    Raises:
        HTTPException: 404: the registry has no such table.
    """
    registry = load_registry()
    entry = registry.find(name)
    if entry is None:
        raise HTTPException(status_code=404, detail=f"the registry has no table {name!r}")
    return registry, entry


def open_table(name: str, connection: str | None, version: int | None = None) -> LiveTable:
    """Open a table of the registry.

    Args:
        connection: the connection that the reader of the page chooses; None: that of the table's DAG.
        version: None: the latest.

    Raises:
        HTTPException: 404: the registry has no such table, or the connection does not exist.
        Exception: as ``answered_errors`` answers it.
    """
    registry, entry = registered_table(name)
    hook = hook_of_dag(registry, name) if connection is None else hook_of(connection)
    return LiveTable(name, registry, entry, hook, hook.table(name, version))


def hook_of_dag(registry: Registry, name: str) -> LakehouseHook:
    """The hook by which the DAG of a table opens it."""
    return LakehouseHook(dags_of(registry, [name])[name].connection)


@contextmanager
def answered_errors() -> Iterator[None]:
    """Answer errors of the registry, the connection and the table by a status and their text.

    503: the registry, the connection or the store cannot be used. 404: the table or the version does not exist. 500:
    the table cannot be read.
    """
    try:
        yield
    except (RegistryError, AirflowException) as error:
        raise HTTPException(status_code=503, detail=str(error)) from error
    except DeltaError as error:
        raise HTTPException(status_code=_status(error), detail=str(error)) from error


def hook_of(connection: str) -> LakehouseHook:
    """The hook of a connection of type ``lakehouse``; the page's reader chooses it, so no other type is opened.

    A connection of another type gets the same answer as a missing one, so that the page does not reveal which exist.

    Raises:
        HTTPException: 404: there is no such connection of this type.
    """
    hook = LakehouseHook(connection)
    if connection == LakehouseHook.default_conn_name:
        return hook
    try:
        stored_connection = hook.get_conn()
    except AirflowNotFoundException:
        stored_connection = None
    if stored_connection is None or stored_connection.conn_type != LakehouseHook.conn_type:
        raise HTTPException(
            status_code=404, detail=f"the connection {connection!r} of type {LakehouseHook.conn_type} does not exist"
        )
    return hook


def _status(error: DeltaError) -> int:
    if isinstance(error, TableNotFoundError | VersionNotFoundError):
        return 404
    return 503 if isinstance(error, StoreError) and not isinstance(error, ObjectNotFoundError) else 500
