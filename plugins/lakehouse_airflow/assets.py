"""Tables as assets: what Airflow calls the thing that one DAG updates and another is released by."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

#: Declared as the outlet of tasks that learn only when they run which tables they have changed.
LAKEHOUSE_ALIAS = AssetAlias("lakehouse")


def lakehouse_asset(table: str) -> Asset:
    """The asset of a registered table. Its events carry ``{"table", "from_version", "to_version"}``."""
    return Asset(f"lakehouse://tables/{table}")
