"""The metadata of this package as an Airflow provider.

Airflow calls ``get_provider_info`` while Airflow itself is imported, so this module imports nothing of Airflow.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

from lakehouse_lib import distribution

_INTEGRATION = "Lakehouse"
_PACKAGE = "lakehouse_airflow"

#: The modules with operators, below ``lakehouse_airflow.operators``.
_OPERATORS = (
    "apply_changes",
    "asset_events",
    "change_rows",
    "checkpoint",
    "cleanup",
    "erasure.approval",
    "erasure.erase",
    "erasure.locate",
    "erasure.report",
    "health",
    "history",
    "ingest",
    "maintenance.maintain",
    "maintenance.plan",
    "maintenance.summary",
    "metadata.alter",
    "metadata.clone",
    "metadata.constraints",
    "metadata.generate",
    "metadata.pins",
    "metadata.restore",
    "optimize",
    "repair",
    "repair_approval",
    "report",
    "statistics",
    "vacuum",
    "z_order",
)


def get_provider_info() -> dict[str, Any]:
    """The provider metadata: modules, the connection type with its form, assets, and the section of airflow.cfg."""
    return {
        "package-name": distribution.NAME,
        "name": "Lakehouse",
        "description": "Loads and maintains Delta tables, and waits for them.",
        "versions": [distribution.VERSION],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://docs.delta.io/latest/index.html",
                "tags": ["protocol"],
            }
        ],
        "operators": [_modules(*(f"operators.{name}" for name in _OPERATORS))],
        "sensors": [_modules("sensors")],
        "triggers": [_modules("triggers")],
        "hooks": [_modules("hook")],
        "connection-types": [
            {
                "connection-type": "lakehouse",
                "hook-class-name": f"{_PACKAGE}.hook.LakehouseHook",
                "hook-name": "Lakehouse",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "port"],
                    "relabeling": {"host": "Root folder or URI", "password": "Ledger key (only for lakehouse_ledger)"},
                    "placeholders": {"host": "s3://lake", "extra": '{"storage option": "value"}'},
                },
                "conn-fields": {
                    "aws_conn_id": {
                        "label": "AWS connection",
                        "description": "The connection of type aws with the credentials for tables in S3",
                        "schema": {"type": ["string", "null"]},
                    },
                    "allowed_roots": {
                        "label": "Allowed roots",
                        "description": "Other folders from which tables may read data files",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            }
        ],
        "asset-uris": _asset_uris(),
        "config": {
            "lakehouse": {
                "description": "Settings of the plugin for Delta tables.",
                "options": {
                    "registry": {
                        "description": "The registry of tables: a path, or a URI in an object store. The environment "
                        "variable LAKEHOUSE_REGISTRY overrides it.",
                        "version_added": None,
                        "type": "string",
                        "example": "s3://lake/lakehouse.yaml",
                        "default": "",
                    }
                },
            }
        },
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}


def _asset_uris() -> list[dict[str, Any]]:
    """The functions for assets in S3; none if Airflow's amazon provider is installed, which has the same functions."""
    try:
        importlib.metadata.distribution("apache-airflow-providers-amazon")
    except importlib.metadata.PackageNotFoundError:
        module = f"{_PACKAGE}.s3_assets"
        return [
            {
                "schemes": ["s3"],
                "handler": f"{module}.sanitize_uri",
                "factory": f"{module}.create_asset",
                "to_openlineage_converter": f"{module}.convert_asset_to_openlineage",
            }
        ]
    return []
