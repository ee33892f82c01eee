"""What this package tells Airflow about itself as a provider.

Airflow reads this while it is still being imported itself, so nothing of Airflow may be imported here.
"""

from __future__ import annotations

from typing import Any

from lakehouse_lib import distribution


def get_provider_info() -> dict[str, Any]:
    """Provider metadata: the hook, and the connection type ``lakehouse`` that the connection form then offers."""
    return {
        "package-name": distribution.NAME,
        "name": "Lakehouse",
        "description": "Delta tables kept healthy by Airflow and Spark.",
        "versions": [distribution.version()],
        "connection-types": [
            {
                "connection-type": "lakehouse",
                "hook-class-name": "lakehouse_airflow.hook.LakehouseHook",
                "hook-name": "Lakehouse",
            }
        ],
    }
