"""The hook of a lakehouse: the locations of its tables and the options of their stores."""

from __future__ import annotations

import posixpath
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk import BaseHook

from lakehouse_airflow.connections.aws import aws_options
from lakehouse_airflow.connections.extra import extra_of
from lakehouse_airflow.connections.store_options import account_type, store_options
from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.registry import is_configured, load_registry, registered

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from lakehouse_lib import DeltaTable
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.store import ObjectStore


class LakehouseHook(BaseHook):
    """Opens tables by their name in the registry, or by location.

    A connection of type ``lakehouse`` is optional. Its host (or ``root`` in its extra JSON) is the folder of tables
    that are not in the registry. ``aws_conn_id`` in its extra JSON names the connection of type ``aws`` for tables in
    S3. All other keys of the extra JSON are storage options, which override those of the ``aws`` connection.

    Args:
        conn_id: a connection of type ``lakehouse`` or ``aws``. The default connection may be missing: then tables are
            local paths without options.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "lakehouse_default"
    conn_type = "lakehouse"
    hook_name = "Lakehouse"

    def __init__(self, conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def get_conn(self) -> Connection | None:
        """The connection; None if it is the default one and not defined."""
        return self._connection

    @cached_property
    def _connection(self) -> Connection | None:
        try:
            return self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            if self.conn_id != self.default_conn_name:
                raise
            return None

    @cached_property
    def _own(self) -> Connection | None:
        """The connection; None for type ``aws``, whose fields have another meaning."""
        return None if self._connection is None or self._connection.conn_type == "aws" else self._connection

    @cached_property
    def _extra(self) -> dict[str, Any]:
        return extra_of(self._own) if self._own is not None else {}

    def storage_options(self, table: str) -> dict[str, str] | None:
        """The options of the table's store, or None. They may hold secrets; keep them out of logs, XCom and URLs.

        Raises:
            AirflowFailException, AirflowException: as ``extra_of`` and ``aws_options``.
        """
        own = {key: value for key, value in self._extra.items() if key not in ("root", "aws_conn_id")}
        location = self.uri(table)
        account = self._aws_options if account_type(location) == "aws" else {}
        return store_options(location, own, account) or None

    @cached_property
    def _aws_options(self) -> dict[str, str]:
        """The options of the ``aws`` connection; empty without one."""
        other = self._extra.get("aws_conn_id")
        connection = self.get_connection(other) if other else self._connection
        if connection is None or connection.conn_type != "aws":
            if other:
                raise AirflowFailException(
                    f"the connection {other!r} is of type {connection.conn_type!r}; expected type 'aws'"
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
        root = self._root
        # No name of a registered table has a slash.
        entry = self._registry.find(table) if "/" not in table and is_configured() else None
        if entry is None and root and ".." not in table.split("/"):
            return posixpath.join(root, table)
        return self._registry.table(table).uri if entry is None else entry.uri

    @cached_property
    def _registry(self) -> Registry:
        return load_registry()

    @property
    def _root(self) -> str | None:
        """The folder of tables that are not in the registry."""
        root = (self._own.host if self._own is not None else None) or self._extra.get("root")
        return str(root) if root else None

    def test_connection(self) -> tuple[bool, str]:
        """List the connection's folder, or the log of the first registered table. Returns success and a text."""
        try:
            with as_task_failure():
                return True, self._listed()
        except (AirflowException, AirflowNotFoundException) as error:
            return False, str(error)

    def _listed(self) -> str:
        if self._root is None:
            names = sorted(self._registry.tables) if is_configured() else []
            if not names:
                return "the connection is valid; nothing was listed, because there is no root folder and no registry"
            version = self.version(names[0])
            state = "no table is there yet" if version is None else f"its latest version is {version}"
            return f"the log of {names[0]} at {self.uri(names[0])} can be listed; {state}"
        if self._root.startswith("/") and not Path(self._root).is_dir():
            raise AirflowFailException(f"the folder {self._root} does not exist on this machine")
        count = len(self.store(self._root).folders())
        return f"{self._root} can be listed; it has {count} folders"

    def store(self, table: str) -> ObjectStore:
        """The store of a table. Nothing is read from it."""
        from lakehouse_lib.store import open_store

        return open_store(self.uri(table), self.storage_options(table))

    def version(self, table: str) -> int | None:
        """The latest version, from a listing of the log; None without a table."""
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
        """The table, opened at a version; None: the latest. Raises the library's errors.

        It is an input of the running task in Airflow's hook lineage.
        """
        from lakehouse_airflow.lineage import add_hook_input
        from lakehouse_lib import DeltaTable

        opened = DeltaTable(self.uri(table), version=version, storage_options=self.storage_options(table))
        add_hook_input(self, self.uri(table))
        return opened

    def history(self, table: str, limit: int | None = None) -> list[dict[str, Any]]:
        """The commitInfo of each commit, newest first."""
        return self.table(table).history(limit)

    def detail(self, table: str) -> dict[str, Any]:
        """Size, files, schema and properties of the latest version."""
        return self.table(table).detail()

    def health(self, table: str) -> dict[str, Any]:
        """The table's health metrics and ``score``, with the registry's target size, Z-order columns and retention."""
        from lakehouse_lib.fleet.health import score

        opened, entry = self.table(table), registered(table)
        if entry is None:
            metrics = opened.health()
        else:
            metrics = opened.health(
                target_file_size=entry.target_file_size,
                clustered_by=entry.cluster_by,
                retention_hours=entry.vacuum.retention_hours,
            )
        return {**metrics.to_dict(), "score": score(metrics).to_dict()}
