"""Tables as Airflow assets: a DAG updates them, and other DAGs are scheduled on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from lakehouse_airflow.registry import load_registry

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

#: The outlet of tasks that know only at run time which tables they have changed.
LAKEHOUSE_ALIAS = AssetAlias("lakehouse")


def lakehouse_asset(table: str) -> Asset:
    """The asset of a table: ``Asset(URI)`` at the table's location, such as ``s3://lake/orders``.

    This plugin's operators emit the asset's events with the extra ``{"table", "from_version", "to_version"}``.

    Args:
        table: a table's name in the registry, or its location.

    Raises:
        RegistryError: the table is neither a location nor a name in the registry.
    """
    is_location = "://" in table or table.startswith("/")
    return Asset(asset_uri(table if is_location else load_registry().table(table).uri))


def watched_asset(table: str, *, poke_interval: float = 60.0, lakehouse_conn_id: str | None = None) -> Asset:
    """The asset of a table with a watcher in the triggerer, for tables that other programs write.

    The watcher emits an event when rows have changed, at most one for each listing of the log. The extra of the event
    is ``{"from_trigger": True, "payload": {"table", "from_version", "to_version"}}``.

    Args:
        table: as for ``lakehouse_asset``.
        poke_interval: seconds between two listings of the table's log.
        lakehouse_conn_id: as the argument of ``LakehouseHook``.

    Raises:
        RegistryError: as ``lakehouse_asset``.
    """
    from lakehouse_airflow.triggers import TableVersionEventTrigger

    trigger = TableVersionEventTrigger(table=table, poke_interval=poke_interval, lakehouse_conn_id=lakehouse_conn_id)
    asset = lakehouse_asset(table)
    return Asset(asset.uri, watchers=[AssetWatcher(name="table_version", trigger=trigger)])


def describe_events(
    context: Context, operator: BaseOperator, table: str, location: str, result: Mapping[str, Any]
) -> None:
    """Add the versions of a result to the event of the table's asset, if the asset is an outlet of the operator.

    The extra is described in ``lakehouse_asset``. Airflow emits the event when the task succeeds, even if the task has
    committed nothing. In this case ``from_version`` and ``to_version`` are the same.
    """
    uri = asset_uri(location)
    outlets = [outlet for outlet in operator.outlets if isinstance(outlet, Asset) and outlet.uri == uri]
    version = result.get("version")
    before = result.get("read_version", version)
    before = -1 if before is None else before  # the table did not exist
    versions = {"from_version": before, "to_version": before if version is None else version}
    for outlet in outlets:
        context["outlet_events"][outlet].extra = {"table": table, **versions}


def asset_uri(location: str) -> str:
    """The URI of the asset at a location.

    A path becomes ``file:///path``, and ``s3a://`` becomes ``s3://``. Percent-encoding in a URI is not changed.
    """
    from lakehouse_lib.store.schemes import kind_of

    if location.startswith("/"):
        return f"file://{quote(location.rstrip('/'))}"
    kind = kind_of(location)
    scheme, _, place = location.partition(":")
    place = place.rstrip("/")
    if kind is not None and "file" in kind.schemes:
        place = "//" + place.removeprefix("//").removeprefix("localhost")
    return f"{scheme.lower() if kind is None else kind.schemes[0]}:{place}"
