"""The registry of this Airflow installation.

The environment variable ``LAKEHOUSE_REGISTRY`` names its file, or ``[lakehouse] registry`` in airflow.cfg.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakehouse_lib.fleet.registry import Registry, RegistryError, Table, read_registry

ENVIRONMENT_VARIABLE = "LAKEHOUSE_REGISTRY"


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


def is_configured() -> bool:
    """Whether the environment or airflow.cfg names a registry, readable or not."""
    return bool(_configured())


def _configured() -> str:
    from airflow.providers.common.compat.sdk import conf

    return os.environ.get(ENVIRONMENT_VARIABLE) or conf.get("lakehouse", "registry", fallback="")


def load_registry(path: str | Path | None = None) -> Registry:
    """The registry in ``path``, or in the configured file.

    Raises:
        RegistryError: as ``read_registry``, or no file is configured.
    """
    return read_registry(registry_path() if path is None else path)


def registered(table: str) -> Table | None:
    """The registry's entry of a table; None for a location, an unknown name, or without a configured registry.

    An unknown name may be that of a table below a connection's root.

    Raises:
        RegistryError: the configured registry is missing or not valid.
    """
    if "/" in table or not is_configured():  # no name has a slash
        return None
    return load_registry().find(table)


def require_registered(table: object) -> str:
    """Check that a value from XCom is the name of a registered table, and return it.

    Any user may edit XCom, and a location there would be opened with the connection's keys.

    Raises:
        InvalidArgumentError: the registry has no such table.
        RegistryError: as ``load_registry``.
    """
    from lakehouse_lib.errors import InvalidArgumentError

    if not isinstance(table, str) or load_registry().find(table) is None:
        raise InvalidArgumentError(
            f"table is {table!r}; expected the name of a table in the registry",
            hint="The value is from XCom, which users may edit: run the DAG again, or add the table to the registry",
            code="DELTA_TABLE_NOT_REGISTERED",
        )
    return table
