"""The hook: a table's location, and whether its rows have changed."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.errors import InvalidConnectionError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.links import TableVersionLink
from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.cleanup import LakehouseCleanupOperator
from lakehouse_airflow.operators.health import LakehouseHealthOperator
from lakehouse_airflow.operators.history import LakehouseHistoryOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_airflow.operators.z_order import LakehouseZOrderOperator
from lakehouse_lib.fleet.registry import RegistryError
from lakehouse_lib.log import segment
from lakehouse_lib.store import ObjectStore
from spark_jobs.process.command_line import file_option
from tests.table_builder import longs


def append(table: Path, *values: int) -> None:
    write_deltalake(table, longs(o_custkey=values), mode="append")


@pytest.fixture
def orders(registry_file: Path) -> Path:
    table = registry_file.parent / "tables" / "orders"
    append(table, 1, 2)
    append(table, 3)
    return table


def test_tables_are_found_by_name_by_location_and_below_the_connections_root(
    registry_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = LakehouseHook()
    assert hook.uri("orders") == str(registry_file.parent / "tables" / "orders")
    assert hook.uri("/any/where") == "/any/where"
    assert hook.uri("s3://bucket/t") == "s3://bucket/t"
    with pytest.raises(RegistryError, match="no table 'events'"):
        hook.uri("events")

    connection = {"conn_type": "lakehouse", "host": "/data", "extra": {"root": "/not/heeded"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(connection))
    assert LakehouseHook().uri("events") == "/data/events"
    connection = {"conn_type": "lakehouse", "extra": {"root": "s3://lake/tables"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(connection))
    hook = LakehouseHook()
    assert hook.uri("events") == "s3://lake/tables/events"
    assert hook.uri("orders") == str(registry_file.parent / "tables" / "orders")
    with pytest.raises(RegistryError):
        hook.uri("../etc")


@pytest.fixture
def below_the_root(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table that is not in the registry: its name ``raw`` is relative to the root of the connection."""
    root = registry_file.parent / "root"
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps({"conn_type": "lakehouse", "host": str(root)}))
    append(root / "raw", 1)
    append(root / "raw", 2)
    return root / "raw"


def test_operators_take_a_table_below_the_connections_root(below_the_root: Path, tmp_path: Path) -> None:
    health = LakehouseHealthOperator(task_id="t", table="raw")
    assert health.execute({})["files"] == 2
    assert TableVersionLink().get_link(health, ti_key=None) == ""  # only registered tables have pages
    vacuumed = LakehouseVacuumOperator(task_id="t", table="raw").execute({})
    assert (vacuumed["read_version"], vacuumed["version"], vacuumed["retention_hours"]) == (1, None, None)
    assert LakehouseCleanupOperator(task_id="t", table="raw").execute({})["files_deleted"] == 0
    optimize = LakehouseOptimizeOperator(task_id="t", table="raw")
    assert optimize.arguments(LakehouseHook()) == [f"--table={below_the_root}"]
    z_order = LakehouseZOrderOperator(task_id="t", table="raw", columns=["o_custkey"])
    assert z_order.arguments(LakehouseHook()) == [f"--table={below_the_root}", "--columns=o_custkey"]
    for operator in (
        LakehouseOptimizeOperator(task_id="t", table="raw", where="day = '2026-11-01'"),
        LakehouseZOrderOperator(task_id="t", table="raw", columns=["o_custkey"], where="day = '2026-11-01'"),
    ):
        assert operator.private_files(LakehouseHook()) == {"where_file": "day = '2026-11-01'"}
        assert file_option(operator.job_parameters, "where_file") == "--where-file"
        assert "where" in operator.template_fields
    with pytest.raises(AirflowFailException, match=r"'raw' is not in the registry.*; give columns"):
        LakehouseZOrderOperator(task_id="t", table="raw").execute({})


def test_a_name_is_not_resolved_below_the_root_if_the_registry_is_invalid(
    below_the_root: Path, registry_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry_file.write_text('{"tables": ')
    with pytest.raises(RegistryError, match="not JSON"):
        LakehouseHook().uri("orders")
    assert LakehouseHook().uri("/any/where") == "/any/where"
    monkeypatch.delenv("LAKEHOUSE_REGISTRY")
    assert LakehouseHook().uri("raw") == str(below_the_root)


def test_only_the_default_connection_may_be_missing(registry_file: Path) -> None:
    assert LakehouseHook().storage_options("orders") is None
    with pytest.raises(InvalidConnectionError):
        LakehouseHook("lakehouse_other").uri("events")


def test_rows_that_moved_have_not_changed(orders: Path) -> None:
    hook = LakehouseHook()
    assert hook.changed_rows("orders", -1) == (-1, 1)
    assert hook.changed_rows("orders", 0) == (0, 1)
    assert hook.changed_rows("orders", 1) is None
    DeltaTable(str(orders)).optimize.compact()
    assert hook.changed_rows("orders", 1) is None
    DeltaTable(str(orders)).delete("o_custkey = 3")
    assert hook.changed_rows("orders", 2) == (2, 3)
    assert hook.changed_rows("orders", 1) == (1, 3)


def test_commits_that_were_cleaned_up_count_as_a_change(orders: Path, registry_file: Path) -> None:
    DeltaTable(str(orders)).optimize.compact()
    DeltaTable(str(orders)).create_checkpoint()
    (orders / "_delta_log" / f"{2:020d}.json").unlink()
    assert LakehouseHook().changed_rows("orders", 1) == (1, 2)
    assert LakehouseHook().changed_rows("orders", 7) == (-1, 2)
    assert LakehouseHook().changed_rows("customer", -1) is None


def test_a_commit_that_is_deleted_after_the_listing_counts_as_a_change(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaTable(str(orders)).optimize.compact()
    listed = segment.list_commits

    def list_and_lose(store: ObjectStore, start: int) -> list[segment.Commit]:
        commits = listed(store, start)
        (orders / "_delta_log" / f"{2:020d}.json").unlink()
        return commits

    monkeypatch.setattr(segment, "list_commits", list_and_lose)
    assert LakehouseHook().changed_rows("orders", 1) == (1, 2)


def test_a_truncated_commit_counts_as_a_change(orders: Path) -> None:
    DeltaTable(str(orders)).optimize.compact()
    (orders / "_delta_log" / f"{2:020d}.json").write_text('{"add": {"pa')
    assert LakehouseHook().changed_rows("orders", 1) == (1, 2)


def test_operators_that_rewrite_no_data_run_in_the_task(orders: Path) -> None:
    history = LakehouseHistoryOperator(task_id="t", table="orders", limit=1).execute({})
    assert [entry["version"] for entry in history] == [1]
    health = LakehouseHealthOperator(task_id="t", table="orders").execute({})
    assert (health["files"], health["target_file_size"]) == (2, 100 * 1024 * 1024)
    assert list(health["clustering"]) == list(health["skipping"]) == ["o_custkey"]
    assert health["score"] == {"points": 100, "reasons": []}
    json.dumps([history, health])
    checkpoint = LakehouseCheckpointOperator(task_id="t", table="orders")
    assert checkpoint.execute({}) == {"table": "orders", "read_version": 1, "version": None}
    assert checkpoint.result_version == ("orders", 1)
    assert (orders / "_delta_log" / f"{1:020d}.checkpoint.parquet").exists()


def test_vacuum_takes_the_registrys_retention_and_protects_by_default(orders: Path) -> None:
    DeltaTable(str(orders)).optimize.compact()
    files = set(orders.glob("*.parquet"))
    with pytest.raises(AirflowFailException, match=r"^RetentionError: .*orders"):
        LakehouseVacuumOperator(task_id="t", table=str(orders), retention_hours=0).execute({})
    dry = LakehouseVacuumOperator(task_id="t", table="orders", dry_run=True).execute({})
    assert (dry["files_deleted"], dry["dry_run"]) == (2, True)
    assert set(orders.glob("*.parquet")) == files
    (orders / "leftover.parquet").write_bytes(b"1")
    os.utime(orders / "leftover.parquet", (0, 0))
    listed = {"path": ["leftover.parquet"], "size": [1], "last_modified_date": ["2026-01-01T00:00:00Z"]}
    pa.csv.write_csv(pa.table(listed), orders.parent / "list.csv")
    for arguments, count in (
        ({}, 3),
        ({"full": False}, 2),
        ({"full": False, "keep_versions": [0]}, 1),
        ({"inventory": str(orders.parent / "list.csv"), "files_per_second": 50}, 1),
    ):
        dry = LakehouseVacuumOperator(task_id="t", table="orders", dry_run=True, **arguments)
        assert dry.execute({})["files_deleted"] == count
    (orders / "leftover.parquet").unlink()
    assert LakehouseVacuumOperator(task_id="t", table="orders").execute({})["files_deleted"] == 2
    assert len(set(orders.glob("*.parquet"))) == 1


def test_vacuum_uses_the_retention_of_the_table_if_the_registry_has_none(
    registry_file: Path,
) -> None:
    table = registry_file.parent / "tables" / "customer"
    for number in range(2):
        rows = pa.table({"c_custkey": [number]})
        configuration = {"delta.deletedFileRetentionDuration": "interval 30 days"}
        write_deltalake(table, rows, mode="append", configuration=configuration)
    DeltaTable(str(table)).optimize.compact()
    vacuumed = LakehouseVacuumOperator(task_id="t", table="customer").execute({})
    assert (vacuumed["retention_hours"], vacuumed["files_deleted"]) == (None, 0)
    assert len(set(table.glob("*.parquet"))) == 3


def test_errors_of_the_library_are_the_tasks(registry_file: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"^TableNotFoundError: .*tables/customer"):
        LakehouseHealthOperator(task_id="t", table="customer").execute({})
    with pytest.raises(AirflowFailException, match=r"the registry has no table 'nothing'"):
        LakehouseHealthOperator(task_id="t", table="nothing").execute({})
    with pytest.raises(AirflowFailException, match=r"the registry has no table 'nothing'"):
        LakehouseZOrderOperator(task_id="t", table="nothing").execute({})


def test_a_table_without_columns_to_cluster_by_is_skipped(registry_file: Path) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="no cluster_by"):
        LakehouseZOrderOperator(task_id="t", table="customer").execute({})


def test_the_link_opens_the_version_that_the_task_committed(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = LakehouseCheckpointOperator(task_id="t", table="orders")
    run = LakehouseCheckpointOperator.run

    def before_others(self: LakehouseCheckpointOperator, hook: LakehouseHook) -> dict[str, Any]:
        result = run(self, hook)
        DeltaTable(str(orders)).optimize.compact()
        return result

    monkeypatch.setattr(LakehouseCheckpointOperator, "run", before_others)
    assert checkpoint.execute({})["read_version"] == 1
    assert TableVersionLink().get_link(checkpoint, ti_key=None).endswith("/tables/orders/versions/1")
    history = LakehouseHistoryOperator(task_id="t", table="orders")
    history.execute({})
    assert TableVersionLink().get_link(history, ti_key=None) == ""  # it committed no version
