"""The registry that Airflow is configured with.

The environment variable ``LAKEHOUSE_REGISTRY`` names its file, or ``[lakehouse] registry`` in airflow.cfg.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakehouse_lib.fleet.registry import Registry, RegistryError, Table, read_registry

ENVIRONMENT_VARIABLE = "LAKEHOUSE_REGISTRY"


def registry_path() -> Path:
    """The registry's file. RegistryError: none is configured."""
    configured = _configured()
    if not configured:
        raise RegistryError(
            f"no registry: set the environment variable {ENVIRONMENT_VARIABLE}, or registry in the section "
            "[lakehouse] of airflow.cfg, to the JSON file that lists the tables"
        )
    return Path(configured).expanduser().absolute()


def is_configured() -> bool:
    """Whether the environment or airflow.cfg names a registry, readable or not."""
    return bool(_configured())


def _configured() -> str:
    from airflow.providers.common.compat.sdk import conf

    return os.environ.get(ENVIRONMENT_VARIABLE) or conf.get("lakehouse", "registry", fallback="")


def load_registry(path: str | Path | None = None) -> Registry:
    """The registry in ``path``, or in the configured file.

    Raises:
        RegistryError: as ``read_registry``, and where no file is configured.
    """
    return read_registry(registry_path() if path is None else path)


def registered(table: str) -> Table | None:
    """The registry's entry of a table that a user has named.

    None for a location, for a name that is not in the registry (a table below a connection's root may have it), and
    where no registry is configured.

    Raises:
        RegistryError: as ``load_registry``, where one is configured.
    """
    if "/" in table or not is_configured():  # no name has a slash
        return None
    return load_registry().find(table)


def require_registered(table: object) -> str:
    """The name of a table, if the registry has it: for names from XCom, which any user may edit.

    Raises:
        InvalidArgumentError: anything else, such as a location, which would be opened by the connection's keys.
        RegistryError: as ``load_registry``.
    """
    from lakehouse_lib.errors import InvalidArgumentError

    if not isinstance(table, str) or load_registry().find(table) is None:
        raise InvalidArgumentError(
            f"the table {table!r} is not in the registry; expected the name of a table that is",
            hint="XCom has it, which users may edit: run the DAG again, or add the table to the registry",
            code="DELTA_TABLE_NOT_REGISTERED",
        )
    return table
