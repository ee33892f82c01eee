"""Tables as Airflow assets: a DAG updates them, and other DAGs are scheduled on them."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

#: The outlet of tasks that know only at run time which tables they have changed.
LAKEHOUSE_ALIAS = AssetAlias("lakehouse")


def lakehouse_asset(table: str) -> Asset:
    """The asset of a registered table. The extra of its events is ``{"table", "from_version", "to_version"}``."""
    return Asset(f"lakehouse://tables/{table}")
