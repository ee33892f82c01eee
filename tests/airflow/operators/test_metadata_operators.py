"""Operators that restore a table, write its manifests and alter it; delta-rs reads the results."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable, write_deltalake

import lakehouse_lib
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.operators.metadata.alter import LakehouseAlterOperator
from lakehouse_airflow.operators.metadata.generate import LakehouseGenerateOperator
from lakehouse_airflow.operators.metadata.pins import LakehousePinVersionOperator, LakehouseReleaseVersionOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator
from lakehouse_lib.catalogue.operation import TableOperation
from tests.table_builder import longs

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Three versions, an hour apart: the key 0; the keys 0 and 1; the key 2."""
    table = registry_file.parent / "tables" / "orders"
    for version, mode in enumerate(("append", "append", "overwrite")):
        write_deltalake(table, longs(o_custkey=[version]), mode=mode)
        commit = table / "_delta_log" / f"{version:020d}.json"
        os.utime(commit, (NOON + 3_600 * version,) * 2)
    return table


def keys(table: Path) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table()["o_custkey"].to_pylist())


def files(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", [1, "1", "2026-01-31T13:30:00Z", "2026-01-31 13:00:00+00:00"])
def test_a_version_is_restored_by_its_number_or_a_time(orders: Path, target: int | str) -> None:
    before = files(orders)
    dry = LakehouseRestoreOperator(task_id="t", table="orders", target=target, dry_run=True).execute({})
    assert (dry["version"], dry["dry_run"], dry["metrics"]["numRestoredFiles"]) == (None, True, 2)
    assert files(orders) == before

    restore = LakehouseRestoreOperator(task_id="t", table="orders", target=target)
    result = restore.execute({})
    assert (result["read_version"], result["version"], result["target_version"]) == (2, 3, 1)
    assert restore.result_version == ("orders", 3)
    assert DeltaTable(orders).history(1)[0]["operation"] == "RESTORE"
    assert keys(orders) == [0, 1]
    assert not [path for path in files(orders) - before if path.suffix == ".parquet"]


def test_a_restored_version_is_not_restored_again(orders: Path) -> None:
    for version in (3, None):
        assert LakehouseRestoreOperator(task_id="t", table="orders", target=1).execute({})["version"] == version


def test_a_target_is_a_template(orders: Path) -> None:
    restore = LakehouseRestoreOperator(task_id="t", table="orders", target="{{ params.version }}")
    restore.render_template_fields({"params": {"version": 0}})
    restore.execute({})
    assert keys(orders) == [0]


@pytest.mark.parametrize("target", ["", "None", "-1", "1.0", "latest", True, None, "7", "2020-01-01"])
def test_a_target_that_is_not_a_version_fails_the_task(orders: Path, target: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"\[DELTA_(INVALID_VERSION|VERSION_NOT_FOUND)\]"):
        LakehouseRestoreOperator(task_id="t", table="orders", target=target).execute({})
    assert DeltaTable(orders).version() == 2


def test_missing_files_are_left_out_only_if_permitted(orders: Path) -> None:
    (first,) = DeltaTable(orders, version=0).file_uris()
    Path(first).unlink()
    with pytest.raises(AirflowException, match=r"\[DELTA_VERSION_FILES_MISSING\]"):
        LakehouseRestoreOperator(task_id="t", table="orders", target=1).execute({})
    assert DeltaTable(orders).version() == 2
    permitted = LakehouseRestoreOperator(task_id="t", table="orders", target=1, ignore_missing_files=True)
    assert permitted.execute({})["files_missing"] == 1
    assert keys(orders) == [1]


def test_a_restore_is_not_repeated_over_the_commits_of_others(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry after a conflict would remove the rows of the winning commit."""
    with DAG("upkeep", default_args={"retries": 3}):
        restore = LakehouseRestoreOperator(task_id="restore", table="orders", target=1)
        assert restore.retries == 0
        assert LakehouseRestoreOperator(task_id="again", table="orders", target=1, retries=2).retries == 2
        assert LakehouseGenerateOperator(task_id="generate", table="orders").retries == 3
    load = TableOperation.load

    def after_another(operation: TableOperation) -> Callable[..., Any]:
        def verb(*, snapshot: Any, **arguments: Any) -> Any:
            monkeypatch.setattr("lakehouse_lib.operations.restore.newest", lambda opened: opened)
            write_deltalake(orders, longs(o_custkey=[9]), mode="append")
            return load(operation)(snapshot=snapshot, **arguments)

        return verb

    monkeypatch.setattr(TableOperation, "load", after_another)
    with pytest.raises(AirflowException, match="Concurrent"):
        restore.execute({})
    assert keys(orders) == [2, 9]


def test_manifests_list_the_files_of_the_latest_version(orders: Path) -> None:
    result = LakehouseGenerateOperator(task_id="t", table="orders").execute({})
    assert result == {"table": "orders", "read_version": 2, "version": None}
    lines = (orders / "_symlink_format_manifest" / "manifest").read_text().split()
    assert [line.removeprefix("file://") for line in lines] == DeltaTable(orders).file_uris()


def test_a_table_whose_files_are_not_plain_parquet_gets_no_manifest(registry_file: Path) -> None:
    table = registry_file.parent / "tables" / "orders"
    lakehouse_lib.write_deltalake(table, longs(k=[1]), configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(AirflowFailException, match=r"\[DELTA_MANIFEST_UNSUPPORTED\]"):
        LakehouseGenerateOperator(task_id="t", table="orders").execute({})
    assert not (table / "_symlink_format_manifest").exists()


def alter(*changes: Any) -> dict[str, Any]:
    result: dict[str, Any] = LakehouseAlterOperator(task_id="t", table="orders", changes=list(changes)).execute({})
    return result


def test_a_table_is_altered_in_the_order_of_the_changes(orders: Path) -> None:
    altering = LakehouseAlterOperator(
        task_id="t",
        table="orders",
        changes=[
            {"add_columns": {"fields": [{"name": "note", "type": "string"}, {"name": "n", "type": "integer"}]}},
            {"set_table_properties": {"properties": {"delta.columnMapping.mode": "name"}}},
            {"rename_column": {"column_name": "note", "new_name": "{{ params.name }}"}},
            {"drop_columns": {"column_names": ["n"]}},
            {"set_table_properties": {"properties": {"owner": "sales"}, "raise_if_not_exists": False}},
        ],
    )
    altering.render_template_fields({"params": {"name": "remark"}})
    assert altering.execute({}) == {"table": "orders", "read_version": 2, "version": 7}
    assert altering.result_version == ("orders", 7)
    assert [commit["operation"] for commit in DeltaTable(orders).history(5)][::-1] == [
        "ADD COLUMNS",
        "SET TBLPROPERTIES",
        "RENAME COLUMN",
        "DROP COLUMNS",
        "SET TBLPROPERTIES",
    ]
    assert lakehouse_lib.DeltaTable(orders).schema().names == ["o_custkey", "remark"]
    assert DeltaTable(orders).metadata().configuration["owner"] == "sales"


def test_constraints_properties_and_features_are_dropped(orders: Path) -> None:
    lakehouse_lib.DeltaTable(orders).alter.add_constraint({"positive": "o_custkey >= 0"})
    alter(
        {"set_table_properties": {"properties": {"delta.appendOnly": "true"}}},
        {"drop_constraint": {"name": "positive"}},
        {"unset_table_properties": {"names": ["delta.appendOnly"]}},
        {"add_feature": {"feature": "changeDataFeed", "allow_protocol_versions_increase": True}},
        {"drop_feature": {"feature": "checkConstraints"}},
    )
    table = DeltaTable(orders)
    assert table.metadata().configuration == {}
    assert "checkConstraints" not in (table.protocol().writer_features or [])
    assert alter({"drop_constraint": {"name": "positive", "raise_if_not_exists": False}})["version"] is None


def test_a_type_is_widened(orders: Path) -> None:
    alter({"add_columns": {"fields": {"name": "n", "type": "integer"}}})
    widening = {"properties": {"delta.enableTypeWidening": "true"}}
    alter({"set_table_properties": widening}, {"change_column_type": {"column_name": "n", "type": "long"}})
    table = lakehouse_lib.DeltaTable(orders)
    assert table.schema().get("n").type.type == "long"
    assert table.to_pyarrow_table().num_rows == 1


def test_changes_before_a_failed_change_remain(orders: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"change 2 of 2, drop_constraint, failed after the first 1"):
        alter({"set_table_description": {"description": "orders"}}, {"drop_constraint": {"name": "positive"}})
    assert (DeltaTable(orders).version(), DeltaTable(orders).metadata().description) == (3, "orders")
    with DAG("upkeep", default_args={"retries": 3}):
        assert LakehouseAlterOperator(task_id="alter", table="orders", changes=[]).retries == 0


@pytest.mark.parametrize(
    "change",
    [
        {"rename": {"a": "b"}},
        {"rename_column": {"column_name": "o_custkey"}},
        {"rename_column": ["o_custkey", "key"]},
        {"add_columns": {"fields": [{"name": "note"}]}},
        {"apply": {"changes": []}},
        {"set_table_name": {"name": "orders", "commit_properties": None}},
        {"add_constraint": {"constraints": {"positive": "o_custkey > 0"}}},
        {"set_column_not_null": {"column_name": "o_custkey"}},
        {"set_table_name": {"name": "a"}, "set_table_description": {"description": "b"}},
        {"set_table_properties": {"properties": {"owner": "sales"}}},
        {"set_table_properties": {"properties": {"delta.appendOnly": "perhaps"}}},
        "drop_columns",
        None,
    ],
)
def test_a_change_that_is_not_valid_fails_the_task(orders: Path, change: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"\[DELTA_INVALID_"):
        alter(change)
    assert DeltaTable(orders).version() == 2


def test_all_changes_are_checked_before_the_first_one(orders: Path) -> None:
    for changes in ([{"set_table_name": {"name": "a"}}, {"rename": {}}], []):
        with pytest.raises(AirflowFailException, match=r"expected a mapping of a verb to its arguments"):
            alter(*changes)
    assert DeltaTable(orders).version() == 2


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (LakehouseRestoreOperator, {"target": 0}),
        (LakehouseGenerateOperator, {}),
        (LakehouseAlterOperator, {"changes": [{"set_table_name": {"name": "a"}}]}),
    ],
)
def test_registered_only_refuses_locations(
    orders: Path, operator: type[LakehouseTableOperator], arguments: dict[str, Any]
) -> None:
    before = files(orders)
    with pytest.raises(AirflowFailException, match=r"\[DELTA_TABLE_NOT_REGISTERED\]"):
        operator(task_id="t", table=str(orders), registered_only=True, **arguments).execute({})
    assert files(orders) == before


def test_a_version_is_pinned_and_released(orders: Path) -> None:
    pin = LakehousePinVersionOperator(
        task_id="t", table="orders", name="model-{{ ds }}", version="{{ params.version }}"
    )
    pin.render_template_fields({"ds": "2026-11-25", "params": {"version": 1}})
    expected = {"table": "orders", "read_version": 2, "version": None, "name": "model-2026-11-25", "pinned_version": 1}
    assert pin.execute({}) == pin.execute({}) == expected
    table = lakehouse_lib.DeltaTable(orders)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert sorted(DeltaTable(orders, version=1).to_pyarrow_table()["o_custkey"].to_pylist()) == [0, 1]
    latest = LakehousePinVersionOperator(task_id="t", table="orders", name="latest").execute({})
    assert latest["pinned_version"] == latest["read_version"]

    release = LakehouseReleaseVersionOperator(task_id="t", table="orders", name="model-2026-11-25")
    assert release.execute({})["pinned_version"] == 1
    assert table.pins() == {"latest": latest["pinned_version"]}
    with pytest.raises(AirflowFailException, match=r"\[DELTA_INVALID_PIN\]"):
        release.execute({})
