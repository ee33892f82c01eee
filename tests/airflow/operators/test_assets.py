"""Assets of tables: one URI for each location, and the versions in the events of a task's own outlets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from lakehouse_airflow.assets import LAKEHOUSE_ALIAS, asset_uri, lakehouse_asset, watched_asset
from lakehouse_airflow.operators.asset_events import LakehousePublishOperator
from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator
from lakehouse_airflow.triggers import TableVersionEventTrigger
from lakehouse_lib.fleet.registry import RegistryError


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("/data/orders", "file:///data/orders"),
        ("/data/orders/", "file:///data/orders"),
        ("/data/a b", "file:///data/a%20b"),
        ("file:///data/a%20b", "file:///data/a%20b"),
        ("file:/data/orders", "file:///data/orders"),
        ("file://localhost/data/orders", "file:///data/orders"),
        ("s3://lake/orders/", "s3://lake/orders"),
        ("s3a://lake/orders", "s3://lake/orders"),
        ("S3://lake/Orders", "s3://lake/Orders"),
        ("abfss://lake@account/orders", "abfss://lake@account/orders"),
    ],
)
def test_a_location_has_one_uri(location: str, uri: str) -> None:
    assert asset_uri(location) == uri
    asset = lakehouse_asset(location) if location.startswith(("/", "s3")) else Asset(uri)
    assert (asset.name, asset.uri) == (uri, uri)  # as in a DAG with Asset(uri)
    assert asset == Asset(uri)


def test_the_asset_of_a_name_is_at_the_place_in_the_registry(registry_file: Path) -> None:
    orders = f"file://{registry_file.parent}/tables/orders"
    assert lakehouse_asset("orders") == Asset(orders)
    with pytest.raises(RegistryError, match="no table 'nothing'"):
        lakehouse_asset("nothing")
    watched = watched_asset("orders", poke_interval=5, lakehouse_conn_id="own")
    assert watched.uri == orders
    (watcher,) = watched.watchers
    assert isinstance(watcher.trigger, TableVersionEventTrigger)
    assert watcher.trigger.serialize()[1] == {
        "table": "orders",
        "poke_interval": 5,
        "lakehouse_conn_id": "own",
        "registry": str(registry_file),
    }


def events_of(operator: Any) -> OutletEventAccessors:
    events = OutletEventAccessors()
    operator.execute({"outlet_events": events})
    return events


def test_the_event_of_an_outlet_has_the_versions(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    for number in range(2):
        deltalake.write_deltalake(table, pa.table({"id": [number]}), mode="append")
    own, other = lakehouse_asset(table), Asset("s3://lake/other")
    restore = LakehouseRestoreOperator(task_id="t", table=table, target=0, outlets=[own, other, LAKEHOUSE_ALIAS])
    events = events_of(restore)
    assert events[own].extra == {"table": table, "from_version": 1, "to_version": 2}
    assert events[other].extra == {}
    checkpoint = LakehouseCheckpointOperator(task_id="t", table=table, outlets=[own])
    assert events_of(checkpoint)[own].extra == {"table": table, "from_version": 2, "to_version": 2}


def test_publish_accepts_additional_outlets() -> None:
    publish = LakehousePublishOperator(task_id="t", versions={}, outlets=[Asset("s3://lake/marker")])
    assert publish.outlets == [LAKEHOUSE_ALIAS, Asset("s3://lake/marker")]


def test_assets_are_listed_as_outlets_and_emit_no_events_themselves() -> None:
    shown, marker = Asset("s3://lake/orders"), Asset("s3://lake/marker")
    publish = LakehousePublishOperator(task_id="t", versions={}, assets=[shown], outlets=[marker])
    assert publish.outlets == [LAKEHOUSE_ALIAS, shown, marker]
    running = publish.prepare_for_execution()  # as Airflow does, which then emits an event for each outlet
    running.execute({})
    assert running.outlets == [LAKEHOUSE_ALIAS, marker]
    assert publish.outlets == [LAKEHOUSE_ALIAS, shown, marker]
