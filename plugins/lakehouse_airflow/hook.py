"""The hook of a lakehouse: the locations of its tables and the options of their stores."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from airflow.sdk import BaseHook

from lakehouse_airflow.connections.aws import aws_options
from lakehouse_airflow.connections.extra import extra_of
from lakehouse_airflow.connections.store_options import account_type, store_options
from lakehouse_airflow.errors import InvalidConnectionError, as_task_failure
from lakehouse_airflow.registry import is_configured, load_registry

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from lakehouse_lib import DeltaTable
    from lakehouse_lib.fleet.registry import Registry, Table
    from lakehouse_lib.store import ObjectStore

_Value = TypeVar("_Value")


class LakehouseHook(BaseHook):
    """Opens tables by their name in the registry, or by location.

    A connection of type ``lakehouse`` is optional. Its host (or ``root`` in its extra JSON) is the folder of tables
    that are not in the registry. ``aws_conn_id`` in its extra JSON names the connection of type ``aws`` for tables in
    S3. All other keys of the extra JSON are storage options, which override those of the ``aws`` connection.

    Args:
        conn_id: a connection of type ``lakehouse`` or ``aws``. None: a registered table is opened by the connection
            in the registry (``airflow.lakehouse_conn_id``), and everything else by the default connection, which may
            be missing. Tables are then opened without storage options.
        registry: the path or URI of the registry; None: the registry of this process.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "lakehouse_default"
    conn_type = "lakehouse"
    hook_name = "Lakehouse"

    def __init__(self, conn_id: str | None = None, *, registry: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._registry_path = registry
        self.conn_id = self.default_conn_name if conn_id is None else conn_id
        self._follows_registry = conn_id is None
        self._openers: dict[str, LakehouseHook] = {}
        self._values: dict[str, Any] = {}

    def opener(self, table: str) -> LakehouseHook:
        """The hook whose connection opens a table.

        Other locations can be opened by the same connection, such as the landing folder of the table.

        Args:
            table: as in ``uri``.
        """
        is_name = "/" not in table and self._follows_registry and self._has_registry
        return self._opener(self._registry.connection(table) if is_name else None)

    def opener_of_records(self) -> LakehouseHook:
        """The hook whose connection opens the records of the registry."""
        follows_registry = self._follows_registry and self._has_registry
        return self._opener(self._registry.defaults.airflow.lakehouse_conn_id if follows_registry else None)

    def _opener(self, conn_id: str | None) -> LakehouseHook:
        if conn_id in (None, self.conn_id):
            return self
        return self._openers.setdefault(conn_id, LakehouseHook(conn_id))

    def get_conn(self) -> Connection | None:
        """The connection; None if it is the default connection and is not defined."""
        return self._connection

    def _once(self, name: str, read: Callable[[], _Value]) -> _Value:
        """A value that is read once.

        In Python 3.11, a ``cached_property`` has one lock for all hooks, so a connection that does not answer would
        block the others.
        """
        if name not in self._values:
            self._values[name] = read()
        value: _Value = self._values[name]
        return value

    @property
    def _connection(self) -> Connection | None:
        return self._once("connection", self._read_connection)

    def _read_connection(self) -> Connection | None:
        try:
            return self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            if self.conn_id != self.default_conn_name:
                raise InvalidConnectionError(
                    f"the connection {self.conn_id!r} is not defined; create it, or correct lakehouse_conn_id of the "
                    "task or of the table in the registry"
                ) from error
            return None

    @property
    def _lakehouse_connection(self) -> Connection | None:
        """The connection of type ``lakehouse``; None for type ``aws``, whose fields have another meaning."""
        return None if self._connection is None or self._connection.conn_type == "aws" else self._connection

    @property
    def _extra(self) -> dict[str, Any]:
        connection = self._lakehouse_connection
        return extra_of(connection) if connection is not None else {}

    def storage_options(self, table: str) -> dict[str, str] | None:
        """The options of the table's store; None without options.

        Options may be secret: keep them out of logs, XCom and URLs.

        Raises:
            AirflowFailException, AirflowException: as ``extra_of`` and ``aws_options``.
        """
        location, opener = self.uri(table), self.opener(table)
        if opener is not self:
            return opener.storage_options(location)
        extra = {key: value for key, value in self._extra.items() if key not in ("root", "aws_conn_id")}
        account = self._once("aws_options", self._aws_options) if account_type(location) == "aws" else {}
        return store_options(location, extra, account) or None

    def _aws_options(self) -> dict[str, str]:
        """The options of the ``aws`` connection; empty if there is no such connection."""
        aws_conn_id = self._extra.get("aws_conn_id")
        try:
            connection = self.get_connection(aws_conn_id) if aws_conn_id else self._connection
        except AirflowNotFoundException as error:
            raise InvalidConnectionError(
                f"the connection {aws_conn_id!r} is not defined; create it, or correct aws_conn_id of the connection "
                f"{self.conn_id!r}"
            ) from error
        if connection is None or connection.conn_type != "aws":
            if aws_conn_id:
                raise InvalidConnectionError(
                    f"the connection {aws_conn_id!r} is of type {connection.conn_type!r}; expected type 'aws'"
                )
            return {}
        return aws_options(connection)

    def uri(self, table: str) -> str:
        """The location of a table.

        Args:
            table: a name in the registry, an absolute path or URI, or a name below the connection's root.

        Raises:
            RegistryError: the table is none of these, or the registry is not valid.
        """
        if "://" in table or table.startswith("/"):
            return table
        entry = self._entry(table)
        if entry is not None:
            return entry.uri
        if self._root and ".." not in table.split("/"):
            return posixpath.join(self._root, table)
        return self._registry.table(table).uri

    @property
    def _registry(self) -> Registry:
        return self._once("registry", lambda: load_registry(self._registry_path))

    def _entry(self, table: str) -> Table | None:
        """The registry's entry of a table; None: a location, an unknown name, or no registry."""
        # No name of a registered table has a slash.
        return self._registry.find(table) if "/" not in table and self._has_registry else None

    @property
    def _has_registry(self) -> bool:
        return self._registry_path is not None or is_configured()

    @property
    def _root(self) -> str | None:
        """The folder of tables that are not in the registry."""
        connection = self._lakehouse_connection
        root = (None if connection is None else connection.host) or self._extra.get("root")
        return str(root) if root else None

    def test_connection(self) -> tuple[bool, str]:
        """List the connection's root folder, or the log of the first registered table if there is no root folder.

        Returns:
            Whether the listing succeeded, and a text for the user.
        """
        try:
            with as_task_failure():
                return True, self._list()
        except AirflowException as error:
            return False, str(error)

    def _list(self) -> str:
        if self._root is None:
            names = sorted(self._registry.tables) if self._has_registry else []
            if not names:
                return "the connection is valid; nothing was listed, because there is no root folder and no registry"
            version = self.version(names[0])
            state = "there is no table yet" if version is None else f"its latest version is {version}"
            return f"the log of {names[0]} at {self.uri(names[0])} can be listed; {state}"
        if self._root.startswith("/") and not Path(self._root).is_dir():
            raise InvalidConnectionError(f"the folder {self._root} does not exist on this machine")
        count = len(self.store(self._root).folders())
        return f"{self._root} can be listed; it has {count} folders"

    def store(self, table: str) -> ObjectStore:
        """The store of a table, without a request to the store."""
        from lakehouse_lib.store import open_store

        return open_store(self.uri(table), self.storage_options(table))

    def version(self, table: str) -> int | None:
        """The latest version of a table, from a listing of the log; None if the table does not exist."""
        from lakehouse_lib.fleet.versions import latest_version

        return latest_version(self.store(table))

    def changed_rows(self, table: str, since: int) -> tuple[int, int] | None:
        """The versions ``(since, latest)`` if a commit after ``since`` has changed rows, else None.

        Compaction and Z-order change no rows. A commit that log cleanup has deleted, or that is corrupted, counts as
        a change, because its changes are unknown.

        Args:
            since: a version; -1: before the first version.
        """
        from lakehouse_lib.fleet.versions import changed_rows

        return changed_rows(self.store(table), since)

    def table(self, table: str, version: int | None = None) -> DeltaTable:
        """Open a table at a version; None: the latest.

        The table becomes an input of the running task in Airflow's hook lineage.

        Raises:
            DeltaError: the table or the version cannot be read.
            RegistryError: as ``uri``.
        """
        from lakehouse_airflow.lineage import add_hook_input
        from lakehouse_lib import DeltaTable

        delta_table = DeltaTable(self.uri(table), version=version, storage_options=self.storage_options(table))
        add_hook_input(self, self.uri(table))
        return delta_table

    def history(self, table: str, limit: int | None = None) -> list[dict[str, Any]]:
        """The commitInfo of each commit, newest first.

        Args:
            limit: the largest number of commits; None: all.
        """
        return self.table(table).history(limit)

    def detail(self, table: str) -> dict[str, Any]:
        """Size, files, schema and properties of the latest version."""
        return self.table(table).detail()

    def health(self, table: str) -> dict[str, Any]:
        """The table's health metrics and ``score``.

        For a registered table, the target file size, the Z-order columns and the retention are those of the registry.
        """
        from lakehouse_lib.fleet.health import score

        delta_table = self.table(table)
        entry = self._entry(table)
        if entry is None:
            metrics = delta_table.health()
        else:
            metrics = delta_table.health(
                target_file_size=entry.target_file_size,
                clustered_by=entry.cluster_by,
                retention_hours=entry.vacuum.retention_hours,
            )
        return {**metrics.to_dict(), "score": score(metrics).to_dict()}
