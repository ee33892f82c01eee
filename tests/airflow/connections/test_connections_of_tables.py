"""Operators and pages open each table by its connection in the registry."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakehouse_airflow.errors import InvalidConnectionError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import SubmitOperator
from lakehouse_airflow.operators.erasure.erase import LakehouseEraseOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.report import LakehouseAggregateOperator
from lakehouse_airflow.pages.records import newest_records
from lakehouse_airflow.polling import TablePoll
from lakehouse_airflow.registry import load_registry

OWN = "s3://own/orders"


@pytest.fixture(autouse=True)
def registry(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table orders has the connection ``own``, all other tables and the records have ``common``."""
    for name in ("own", "common", "chosen", "lakehouse_default"):
        extra = {"aws_access_key_id": name, "aws_secret_access_key": "x", "aws_region": "r"}
        connection = json.dumps({"conn_type": "lakehouse", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", connection)
    body = json.loads(registry_file.read_text())
    body["defaults"] = {"airflow": {"lakehouse_conn_id": "common"}}
    for name, table in body["tables"].items():
        table["uri"] = f"s3://common/{name}"
    orders = body["tables"]["orders"]
    orders |= {"uri": OWN, "quarantine": f"{OWN}_quarantine"}
    orders["airflow"] = {"per": "table", "lakehouse_conn_id": "own"}
    orders["source"]["landing"] = "s3://own/landing"
    body["records"] = "s3://common/records"
    body["report"]["output"] = "s3://common/report"
    registry_file.write_text(json.dumps(body))


def connections(options: dict[str, dict[str, str] | None]) -> dict[str, str]:
    return {location: (chosen or {})["aws_access_key_id"] for location, chosen in options.items()}


def connection_of(hook: LakehouseHook, table: str) -> str:
    return connections({"": hook.storage_options(table)})[""]


def test_a_hook_opens_each_table_by_its_connection() -> None:
    hook = LakehouseHook()
    expected = {"orders": "own", "orders_quarantine": "own", "customer": "common", "report": "common"}
    assert {table: connection_of(hook, table) for table in expected} == expected
    assert connection_of(hook, OWN) == "lakehouse_default"  # a location has no connection in the registry
    assert connection_of(hook.opener("orders"), f"{OWN}_quarantine") == "own"
    assert connection_of(hook.opener_of_records(), "s3://common/records") == "common"


def test_a_connection_that_is_named_opens_every_table() -> None:
    hook = LakehouseHook("chosen")
    assert {connection_of(hook, table) for table in ("orders", "customer", OWN)} == {"chosen"}
    assert hook.opener("orders") is hook.opener_of_records() is hook


def test_without_a_connection_in_the_registry_it_is_the_default(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    del body["defaults"]
    registry_file.write_text(json.dumps(body))
    hook = LakehouseHook()
    assert (connection_of(hook, "orders"), connection_of(hook, "customer")) == ("own", "lakehouse_default")
    assert connection_of(hook.opener_of_records(), "s3://common/records") == "lakehouse_default"


def place(table: str) -> Any:
    return SimpleNamespace(table=table, uri=load_registry().table(table).uri)


def test_a_job_gets_the_options_of_each_location() -> None:
    compact = LakehouseOptimizeOperator(task_id="t", table="orders")
    ingest = LakehouseIngestOperator(task_id="t", table="orders")
    aggregate = LakehouseAggregateOperator(
        task_id="t", table="report", inputs=["orders", "customer"], sql_file="x", app_id="a", app_version=0
    )
    maintain = LakehouseMaintainOperator(task_id="t", work={})
    maintain._orders = cast("Any", [SimpleNamespace(table="orders"), SimpleNamespace(table="customer")])
    erase = LakehouseEraseOperator(task_id="t", subject="customer", located_by="a", approved_by="b")
    erase._places = [place("orders"), place("customer")]
    both = {OWN: "own", "s3://common/customer": "common"}
    expected: dict[SubmitOperator, dict[str, str]] = {
        compact: {OWN: "own"},
        ingest: {OWN: "own", f"{OWN}_quarantine": "own", "s3://own/landing": "own"},
        aggregate: both | {"s3://common/report": "common"},
        maintain: both | {"s3://common/records": "common"},
        erase: both,
    }
    hook = LakehouseHook()
    for operator, options in expected.items():
        assert connections(operator.storage_options(hook)) == options
        assert connections(dict([operator.job_folder(hook)])) == {"s3://common/records/jobs": "common"}


def test_without_records_the_objects_of_jobs_are_in_the_table(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    del body["records"]
    registry_file.write_text(json.dumps(body))
    compact = LakehouseOptimizeOperator(task_id="t", table="orders")
    assert connections(dict([compact.job_folder(LakehouseHook())])) == {f"{OWN}/_jobs": "own"}


def test_a_table_with_its_own_connection_does_not_need_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps({"conn_type": "lakehouse", "extra": "[1]"}))
    assert connection_of(LakehouseHook(), "orders") == "own"


def test_a_connection_that_does_not_answer_blocks_only_its_own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    request, answered = Event(), Event()
    get_connection = LakehouseHook.get_connection

    def slow(conn_id: str) -> Any:
        if conn_id == "own":
            request.set()
            assert answered.wait(60)
        return get_connection(conn_id)

    monkeypatch.setattr(LakehouseHook, "get_connection", staticmethod(slow))
    slow_poll, poll = TablePoll.of(None, "orders"), TablePoll.of(None, "customer")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(slow_poll._open)
        assert request.wait(60)
        assert pool.submit(poll._open).result(60).root == "s3://common/customer"
        assert not waiting.done()
        answered.set()
        assert waiting.result(60).root == OWN


def test_pages_show_why_the_records_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_COMMON")
    records = newest_records(load_registry())
    assert records.problem is not None
    assert "common" in records.problem


def test_a_missing_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_OWN")
    with pytest.raises(InvalidConnectionError, match="'own' is not defined; create it, or correct lakehouse_conn_id"):
        LakehouseHook().storage_options("orders")


def test_a_missing_aws_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_OWN", json.dumps({"conn_type": "lakehouse", "extra": {"aws_conn_id": "no_such_connection"}})
    )
    with pytest.raises(InvalidConnectionError, match="'no_such_connection' is not defined; create it, or correct aws"):
        LakehouseHook().storage_options("orders")
