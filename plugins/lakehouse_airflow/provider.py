"""The metadata of this package as an Airflow provider.

Airflow calls this during its own import, so this module imports nothing of Airflow.
"""

from __future__ import annotations

from typing import Any

from lakehouse_lib import distribution


def get_provider_info() -> dict[str, Any]:
    """The provider metadata: the connection type ``lakehouse`` for the connection form, and its hook."""
    return {
        "package-name": distribution.NAME,
        "name": "Lakehouse",
        "description": "Operators that load and maintain Delta tables.",
        "versions": [distribution.VERSION],
        "connection-types": [
            {
                "connection-type": "lakehouse",
                "hook-class-name": "lakehouse_airflow.hook.LakehouseHook",
                "hook-name": "Lakehouse",
            }
        ],
    }
