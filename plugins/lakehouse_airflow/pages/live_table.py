"""Open a table of the registry for a page, and translate errors into HTTP statuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowException
from fastapi import HTTPException

from lakehouse_airflow.errors import InvalidConnectionError
from lakehouse_airflow.hook import LakehouseHook
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
        entry: the table's entry in the registry.
    """

    name: str
    registry: Registry
    entry: Table
    hook: LakehouseHook
    table: DeltaTable


def registered_table(name: str) -> tuple[Registry, Table]:
    """The registry, and its entry of a table. A location is refused, because it could be any folder on this machine.

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
        connection: the connection that the reader of the page chooses; None: the connection in the registry.
        version: None: the latest version.

    Raises:
        HTTPException: 404: the registry has no such table, or the connection does not exist.
        RegistryError, AirflowException, DeltaError: ``errors_as_http`` translates them.
    """
    registry, entry = registered_table(name)
    hook = LakehouseHook().opener(name) if connection is None else hook_of(connection)
    return LiveTable(name, registry, entry, hook, hook.table(name, version))


@contextmanager
def errors_as_http() -> Iterator[None]:
    """Translate errors of the registry, the connection and the table into HTTPExceptions with the same text.

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
    """The hook of a connection of type ``lakehouse``, which the reader of the page chooses.

    Connections of other types are refused, except the default connection. The answer is the same as for a missing
    connection, so that the page does not reveal which connections exist.

    Raises:
        HTTPException: 404: there is no such connection of this type.
    """
    hook = LakehouseHook(connection)
    if connection == LakehouseHook.default_conn_name:
        return hook
    try:
        stored_connection = hook.get_conn()
    except InvalidConnectionError:
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
