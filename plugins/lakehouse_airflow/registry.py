"""The registry of this Airflow installation.

The environment variable ``LAKEHOUSE_REGISTRY`` names the registry's file. If the variable is not set, ``registry`` in
the section ``[lakehouse]`` of airflow.cfg names it. A DAG file may name another file (``use_registry``).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from lakehouse_lib.fleet.registry import Registry, RegistryError, Table, read_registry

ENVIRONMENT_VARIABLE = "LAKEHOUSE_REGISTRY"

#: The registry that the DAG file of this process names. Airflow parses each DAG file, and runs each task, in a separate
#: process.
_used_registry: str | None = None


def use_registry(path: str | Path | None) -> None:
    """Use this registry in this process instead of the configured registry; None: the configured registry."""
    global _used_registry
    _used_registry = None if path is None else str(path)


def registry_path() -> str | Path:
    """The path of the registry's file, or its URI in an object store.

    Raises:
        RegistryError: no file is configured.
    """
    configured = _configured()
    if not configured:
        raise RegistryError(
            f"the registry is not configured; set the environment variable {ENVIRONMENT_VARIABLE}, or registry in the "
            "section [lakehouse] of airflow.cfg, to the file that lists the tables"
        )
    return configured if "://" in configured else Path(configured).expanduser().absolute()


def registry_of(table: str) -> str | None:
    """The path or URI of the registry for a table's name; None for a location, or if no registry is configured.

    A trigger takes it along, because the triggerer may have another registry or none.
    """
    return str(registry_path()) if "/" not in table and is_configured() else None


def is_configured() -> bool:
    """Whether the DAG file, the environment or airflow.cfg names a registry, even if its file cannot be read."""
    return bool(_configured())


def _configured() -> str:
    from airflow.providers.common.compat.sdk import conf

    return _used_registry or os.environ.get(ENVIRONMENT_VARIABLE) or conf.get("lakehouse", "registry", fallback="")


def load_registry(path: str | Path | None = None) -> Registry:
    """The registry in ``path``, without the tables that have mistakes.

    Args:
        path: the registry's file; None: the file of ``registry_path``.

    Raises:
        RegistryError: as ``read_registry`` and ``registry_path``.
    """
    return read_registry(registry_path() if path is None else path, skip_invalid_tables=True)


def registered_entry(table: str) -> Table | None:
    """The registry's entry of a table; None for a location, for an unknown name, or if no registry is configured.

    An unknown name is no error, because it may name a table below a connection's root.

    Raises:
        RegistryError: the configured registry is missing or not valid.
    """
    if "/" in table or not is_configured():  # no name has a slash
        return None
    return load_registry().find(table)


def require_registered(table: object, dag_tables: Collection[str] | None = None) -> str:
    """Check that a value from XCom is the name of a registered table, and return it.

    Any user may edit XCom. The credentials of the connection would then open any location that a user has put there.

    Args:
        dag_tables: the tables of the task's DAG, because a user may edit the XComs of only some DAGs; None: all tables.

    Raises:
        InvalidArgumentError: the registry or the DAG has no such table.
        RegistryError: as ``load_registry``.
    """
    from lakehouse_lib.errors import InvalidArgumentError

    registry = load_registry()
    if isinstance(table, str) and table in registry.invalid_tables:
        registry.table(table)  # raises an error with the mistakes of the entry
    if not isinstance(table, str) or registry.find(table) is None:
        raise InvalidArgumentError(
            f"table is {table!r}; expected the name of a table in the registry",
            hint="The value is from XCom, which users may edit: run the DAG again, or add the table to the registry",
            code="DELTA_TABLE_NOT_REGISTERED",
        )
    if dag_tables is not None and table not in dag_tables:
        raise InvalidArgumentError(
            f"table is {table!r}; expected a table of this DAG: {', '.join(dag_tables) or 'none'}",
            hint="The value is from XCom, which users may edit: run the DAG again, or run the DAG that has the table",
            code="DELTA_TABLE_NOT_REGISTERED",
        )
    return table
