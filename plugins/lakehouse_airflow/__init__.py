"""The Airflow plugin: hook, operators, sensors, triggers, pages, and the DAGs of a registry.

``lakehouse_dags`` is imported at its first use, so that a process that uses only the hook imports no operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_airflow.factory.lakehouse_dags import lakehouse_dags

__all__ = ["lakehouse_dags"]


def __getattr__(name: str) -> Any:
    if name != "lakehouse_dags":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakehouse_airflow.factory.lakehouse_dags import lakehouse_dags

    return lakehouse_dags
