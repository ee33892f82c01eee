"""What tasks tell about the tables that they have read and written. ``make test-install`` has OpenLineage's objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from airflow.sdk import Asset
from airflow.sdk import lineage as airflow_lineage

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.lineage import Lineage, dataset_name
from lakehouse_airflow.operators.change_rows import LakehouseMergeRowsOperator
from lakehouse_airflow.operators.health import LakehouseHealthOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.metadata.clone import LakehouseCloneOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/data/a b", ("file", "/data/a b")),
        ("file:///data/orders", ("file", "/data/orders")),
        ("s3a://lake/shop/orders/", ("s3://lake", "shop/orders")),
        ("s3://lake", ("s3://lake", "/")),
        ("abfss://lake@account.dfs.core.windows.net/orders", ("abfss://lake@account.dfs.core.windows.net", "orders")),
    ],
)
def test_datasets_have_the_names_of_openlineage(location: str, name: tuple[str, str]) -> None:
    assert dataset_name(location) == name


def test_a_table_that_is_only_read_is_an_input(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    for number in range(2):
        deltalake.write_deltalake(table, pa.table({"id": [number]}), mode="append")
    health = LakehouseHealthOperator(task_id="t", table=table)
    result = health.execute({})
    assert health.lineage is not None
    # The version of a health is the one that it describes, not one that it has committed.
    assert (health.lineage.inputs, health.lineage.outputs) == ((table,), ())
    assert result["version"] == 1
    restore = LakehouseRestoreOperator(task_id="t", table=table, target=0)
    result = restore.execute({})
    assert restore.lineage == Lineage((), (table,), result)


def lineage_of(operator: Any, **result: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lineage = operator.lineage_of(LakehouseHook(), {"read_version": 0, **result})
    return lineage.inputs, lineage.outputs


@pytest.mark.usefixtures("registry_file")
def test_other_tables_of_a_job_are_inputs() -> None:
    merge = LakehouseMergeRowsOperator(
        task_id="t", table="/data/t", source="/data/s", predicate="target.id = source.id", clauses=[]
    )
    assert lineage_of(merge, version=3) == (("/data/s",), ("/data/t",))
    assert lineage_of(merge, version=None) == (("/data/t", "/data/s"), ())
    clone = LakehouseCloneOperator(task_id="t", table="/data/t", target="/data/copy")
    assert clone.written_table == "/data/copy"
    assert lineage_of(clone, version=0) == (("/data/t",), ("/data/copy",))


def test_a_load_reads_its_landing_folder(registry_file: Path) -> None:
    folder = registry_file.parent
    load = LakehouseIngestOperator(task_id="t", table="orders")
    landing, orders, quarantine = (
        str(folder / name) for name in ("landing/orders", "tables/orders", "tables/orders_quarantine")
    )
    assert lineage_of(load, version=None) == ((landing,), ())
    assert lineage_of(load, version=1, quarantine_version=None) == ((landing,), (orders,))
    assert lineage_of(load, version=1, quarantine_version=0, quarantine=quarantine) == (
        (landing,),
        (orders, quarantine),
    )


def test_the_hook_tells_airflow_which_table_a_task_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(tmp_path / "t")
    deltalake.write_deltalake(table, pa.table({"id": [1]}))
    collector = airflow_lineage.HookLineageCollector()  # that of an Airflow with a plugin that reads hook lineage
    monkeypatch.setattr(airflow_lineage, "get_hook_lineage_collector", lambda: collector)
    for _ in range(2):
        LakehouseHook().table(table).to_pyarrow_table()
    read = {info.asset for info in collector.collected_assets.inputs}
    assert read == {Asset(f"file://{table}")}
    assert collector.collected_assets.outputs == []
