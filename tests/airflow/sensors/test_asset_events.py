"""The tables of a run, and the events that it emits, if one of the tables cannot be read."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.operators.asset_events import LakehouseSelectTablesOperator
from lakehouse_lib.errors import DeltaError, StoreError, UnsupportedFeatureError
from lakehouse_lib.store import LocalStore
from tests.airflow.sensors.task_run import Run, publish
from tests.table_builder import longs


@pytest.fixture
def tables(registry_file: Path) -> Path:
    """Two versions of ``customer``, ``lineitem`` and ``orders``, each of which appends rows."""
    tables = registry_file.parent / "tables"
    for name in ("customer", "lineitem", "orders"):
        for key in (1, 2):
            append(tables / name, key)
    return tables


def append(table: Path, key: int) -> None:
    write_deltalake(table, longs(k=[key]), mode="append")


def fail_reads(monkeypatch: pytest.MonkeyPatch, *names: str, error: type[DeltaError] = StoreError) -> None:
    """Make listings of these tables' stores fail."""
    list_from = LocalStore.list_from

    def fail(self: LocalStore, *arguments: str) -> Any:
        if Path(self.root).name in names:
            raise error("no answer", table=self.root)
        return list_from(self, *arguments)

    monkeypatch.setattr(LocalStore, "list_from", fail)


def event(table: str, first: int, last: int) -> dict[str, Any]:
    return {"table": table, "from_version": first, "to_version": last}


def test_a_damaged_table_does_not_block_the_events_of_other_tables(tables: Path) -> None:
    (tables / "customer" / "_delta_log" / f"{1:020d}.json").write_text('{"add":{"pa')
    run = Run()
    assert publish(run, customer=0, lineitem=1, orders=None) == {"customer": [0, 1], "orders": [-1, 1]}
    assert run.events == [event("customer", 0, 1), event("orders", -1, 1)]


def test_a_temporary_error_is_retried_before_its_table_is_left_out(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fail_reads(monkeypatch, "customer")
    first, last = Run(try_number=2, max_tries=2), Run(try_number=3, max_tries=2)
    with pytest.raises(AirflowException, match=r"StoreError: \[DELTA_STORE_ERROR\] no answer") as error:
        publish(first, customer=0, orders=0)
    assert not isinstance(error.value, AirflowFailException)
    assert first.events == []
    assert publish(last, customer=0, orders=0) == {"orders": [0, 1]}
    assert last.events == [event("orders", 0, 1)]
    assert "customer: no event" in capfd.readouterr().out


def test_a_table_with_a_permanent_error_is_left_out_at_once(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_reads(monkeypatch, "customer", error=UnsupportedFeatureError)
    run = Run(try_number=1, max_tries=2)
    assert publish(run, customer=0, gone_from_the_registry=0, orders=0) == {"orders": [0, 1]}
    assert run.events == [event("orders", 0, 1)]


def test_an_error_fails_the_task_if_no_table_has_an_event(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_reads(monkeypatch, "customer", "orders", error=UnsupportedFeatureError)
    with pytest.raises(AirflowFailException, match=r"UnsupportedFeatureError: \[DELTA_UNSUPPORTED_FEATURE\] no answer"):
        publish(Run(), customer=0, orders=0)
    with pytest.raises(AirflowFailException, match=r"UnsupportedFeatureError: \[DELTA_UNSUPPORTED_FEATURE\] no answer"):
        publish(Run(), customer=0, lineitem=1)


def test_an_unreachable_table_does_not_block_other_tables(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fail_reads(monkeypatch, "customer")
    run = Run()
    select = LakehouseSelectTablesOperator(task_id="tables", having="log")
    assert select.execute(run.context()) == ["customer", "lineitem", "orders"]
    assert run.pushed == {"versions": {"customer": "unknown", "lineitem": 1, "orders": 1}}
    assert "customer: the version is unknown: StoreError: [DELTA_STORE_ERROR] no answer" in capfd.readouterr().out

    append(tables / "orders", 3)
    assert publish(run, **run.pushed["versions"]) == {"orders": [1, 2]}


def test_a_table_of_an_unknown_version_is_judged_by_its_last_commit(tables: Path) -> None:
    run = Run()
    assert publish(run, customer="unknown") == {"customer": [0, 1]}
    DeltaTable(str(tables / "customer")).optimize.compact()
    assert publish(run, customer="unknown", orders=1) == {}
    assert run.events == [event("customer", 0, 1)]


def test_a_table_of_an_unknown_version_may_be_missing(registry_file: Path) -> None:
    assert publish(Run(), customer="unknown") == {}


def test_a_table_that_the_registry_does_not_have_is_refused_at_once(tables: Path) -> None:
    with pytest.raises(AirflowFailException, match="the registry has no table 'nothing'"):
        LakehouseSelectTablesOperator(task_id="tables", having="log", only=["nothing"]).execute(Run().context())


def select(having: Any, only: object, run: Run | None = None) -> list[str]:
    operator = LakehouseSelectTablesOperator(task_id="tables", having=having, only=only)
    return operator.execute((run or Run()).context())


def test_a_table_that_is_selected_by_name_always_has_a_task(tables: Path) -> None:
    run = Run()
    assert select("log", ["orders_quarantine", "orders", "orders"], run) == ["orders", "orders_quarantine"]
    assert run.pushed == {"versions": {"orders": 1, "orders_quarantine": None}}
    assert select("source", ["customer"]) == ["customer"]
    assert select("log", []) == select("log", "[]") == select("log", None) == ["customer", "lineitem", "orders"]


@pytest.mark.parametrize("only", ["orders", "['orders']", [1], [["orders"]], 7])
def test_an_invalid_list_of_names_is_refused(registry_file: Path, only: object) -> None:
    with pytest.raises(AirflowFailException, match=r"LAKEHOUSE_INVALID_PARAMETER. only is .*list of names"):
        select("log", only)
