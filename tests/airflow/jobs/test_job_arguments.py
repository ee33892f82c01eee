"""The command lines that operators make, as the jobs parse them."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator, LakehouseReorgOperator
from lakehouse_airflow.operators.report import LakehouseAggregateOperator
from lakehouse_airflow.operators.statistics import LakehouseComputeStatisticsOperator
from lakehouse_airflow.operators.z_order import LakehouseZOrderOperator
from lakehouse_lib.store.s3.options import S3Options


def arguments(operator: Any) -> list[str]:
    from lakehouse_airflow.hook import LakehouseHook

    return operator.arguments(LakehouseHook())


def parsed(job: str, line: list[str]) -> Any:
    import importlib

    return importlib.import_module(f"spark_jobs.{job}").arguments().parse_args(line)


def test_a_load_gets_the_options_of_its_landing_folder(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehouse_airflow.hook import LakehouseHook

    body = json.loads(registry_file.read_text())
    options = {"timeout": "7", "region": "us-west-1"}
    landing = {"landing": "s3://inbox/orders", "pattern": "**/*.csv", "connection": "inbox", "storage_options": options}
    body["tables"]["orders"]["source"].update(landing)
    registry_file.write_text(json.dumps(body))
    own = {"conn_type": "aws", "login": "AKIAINBOX", "password": "hunter2", "extra": {"region_name": "eu-central-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_INBOX", json.dumps(own))
    operator = LakehouseIngestOperator(task_id="t", table="orders")
    loaded = parsed("ingest", arguments(operator))
    assert (loaded.landing, loaded.pattern) == ("s3://inbox/orders", "**/*.csv")
    opened = operator.storage_options(LakehouseHook())["s3://inbox/orders"]
    assert opened is not None
    chosen = S3Options.of(opened, "s3://inbox/orders", {})
    assert (chosen.access_key_id, chosen.secret_access_key) == ("AKIAINBOX", "hunter2")
    assert (chosen.timeout, chosen.region) == (7, "us-west-1")  # the options of the source override the connection


def test_the_jobs_accept_the_arguments_of_the_operators(registry_file: Path, tmp_path: Path) -> None:
    folder = registry_file.parent
    loaded = parsed("ingest", arguments(LakehouseIngestOperator(task_id="t", table="orders")))
    assert (loaded.table, loaded.source) == (str(folder / "tables/orders"), "shop_orders")
    assert loaded.landing == str(folder / "landing/orders")

    elsewhere = parsed("compact", arguments(LakehouseOptimizeOperator(task_id="t", table="/any/where")))
    assert (elsewhere.table, elsewhere.target_file_size) == ("/any/where", None)

    reorg = LakehouseReorgOperator(task_id="t", table="orders", where="day = '2026-11-01'")
    assert parsed("reorg", arguments(reorg)).table == str(folder / "tables/orders")

    footers = LakehouseComputeStatisticsOperator(task_id="t", table="orders")
    assert parsed("compute_statistics", arguments(footers)).table == str(folder / "tables/orders")

    z_order = parsed("z_order", arguments(LakehouseZOrderOperator(task_id="t", table="orders")))
    assert z_order.columns == ("o_custkey",)

    assert not z_order.full
    again = LakehouseZOrderOperator(task_id="t", table="orders", full=True)
    assert parsed("z_order", arguments(again)).full

    aggregate = LakehouseAggregateOperator(
        task_id="t",
        table=str(folder / "report"),
        inputs=["orders", "lineitem"],
        sql_file="report.sql",
        app_id="report",
        app_version="7",
    )
    aggregated = parsed("aggregate", arguments(aggregate))
    assert aggregated.input == [
        ("orders", str(folder / "tables/orders")),
        ("lineitem", str(folder / "tables/lineitem")),
    ]
    assert (aggregated.app_id, aggregated.app_version) == ("report", 7)


@pytest.mark.parametrize("registered", [None, 4_000_000])
def test_loads_and_maintenance_have_the_same_target_file_size(
    registry_file: Path, tmp_path: Path, registered: int | None
) -> None:
    """The size in the registry, or without one the table's ``delta.targetFileSize``."""
    body = json.loads(registry_file.read_text())
    if registered is not None:
        body["tables"]["orders"]["target_file_size"] = registered
        registry_file.write_text(json.dumps(body))
    for operator in (LakehouseIngestOperator, LakehouseOptimizeOperator, LakehouseZOrderOperator):
        line = arguments(operator(task_id="t", table="orders"))
        assert parsed(operator.job, line).target_file_size == registered
    for operator in (LakehouseOptimizeOperator, LakehouseZOrderOperator):
        line = arguments(operator(task_id="t", table="orders", target_file_size=5))
        assert parsed(operator.job, line).target_file_size == 5
