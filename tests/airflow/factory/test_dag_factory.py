"""``lakehouse_dags``: which table is in which DAG, with which settings, and what a mistake in the registry does."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.common.compat.sdk import AirflowFailException

from lakehouse_airflow import registry as plugin_registry
from lakehouse_airflow.factory import lakehouse_dags as factory
from lakehouse_airflow.factory.settings import job_arguments
from lakehouse_airflow.operators.asset_events import table_names
from tests.airflow.dag_runs import ROOT


def dags_of(file: Path) -> dict[str, Any]:
    bag = DagBag(dag_folder=str(file), bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    return dict(bag.dags)


def edited(registry_file: Path, **changes: dict[str, Any]) -> None:
    body = json.loads(registry_file.read_text())
    for name, change in changes.items():
        place = body["tables"] if name in body["tables"] else body
        place[name] = {**place.get(name, {}), **change}
    registry_file.write_text(json.dumps(body))


def test_a_table_and_a_group_have_dags_of_their_own(registry_file: Path) -> None:
    group = {"per": "group", "maintenance": "@hourly", "owner": "web", "tags": ["raw"], "timeout_minutes": 5}
    edited(
        registry_file,
        defaults={"airflow": {"ingest": "@daily", "paused": True}},
        groups={"events": {"airflow": group}},
        orders={"airflow": {"per": "table", "pool": "lake", "spark_conf": {"a": "b"}, "lakehouse_conn_id": "own"}},
        lineitem={"group": "events"},
    )
    dags = dags_of(ROOT / "dags")
    assert sorted(name for name in dags if "erasure" not in name) == [
        "lakehouse_ingest",
        "lakehouse_ingest_orders",
        "lakehouse_maintenance",
        "lakehouse_maintenance_events",
        "lakehouse_maintenance_orders",
        "lakehouse_report",
    ]
    planned = {name: dag.get_task("plan").tables for name, dag in dags.items() if "maintenance" in name}
    assert planned == {
        "lakehouse_maintenance": ("customer", "report"),
        "lakehouse_maintenance_events": ("lineitem",),
        "lakehouse_maintenance_orders": ("orders", "orders_quarantine"),
    }
    folder = registry_file.parent / "tables"
    read = {name: [asset.uri for asset in dags[name].get_task("plan").inlets] for name in planned}
    assert read["lakehouse_maintenance_orders"] == [f"file://{folder}/orders", f"file://{folder}/orders_quarantine"]
    written = {name: dag.get_task("publish").outlets[1:] for name, dag in dags.items() if "publish" in dag.task_ids}
    assert {name: [asset.uri for asset in assets] for name, assets in written.items()} == {
        "lakehouse_ingest": [],
        "lakehouse_ingest_orders": [f"file://{folder}/orders"],
        "lakehouse_erasure_customer": [f"file://{folder}/{name}" for name in ("customer", "orders", "lineitem")],
    }
    aggregate = dags["lakehouse_report"].get_task("aggregate")
    assert [asset.uri for asset in (*aggregate.inlets, *aggregate.outlets)] == [
        f"file://{folder}/orders",
        f"file://{folder}/orders_by_customer",
    ]
    events = dags["lakehouse_maintenance_events"]
    assert (events.timetable.expression, events.owner) == ("0 * * * *", "web")
    assert events.dagrun_timeout == timedelta(minutes=5)
    assert (events.tags, events.is_paused_upon_creation) == ({"lakehouse", "raw"}, True)
    ingest = dags["lakehouse_ingest_orders"]
    assert (ingest.get_task("tables").tables, ingest.timetable.expression) == (("orders",), "0 0 * * *")
    mapped = ingest.get_task("ingest").partial_kwargs
    assert (mapped["pool"], mapped["spark_conf"]) == ("lake", {"a": "b"})


def test_a_dag_refuses_tables_of_another_dag() -> None:
    assert table_names(["a"], ("a", "b")) == ["a"]
    with pytest.raises(AirflowFailException, match="the DAG has no table 'orders'; it has a, b"):
        table_names(["a", "orders"], ("a", "b"))


def test_an_invalid_table_does_not_remove_the_dags_of_other_tables(registry_file: Path) -> None:
    edited(registry_file, defaults={"airflow": {"per": "table"}})
    body = json.loads(registry_file.read_text())
    body["tables"]["clicks"] = {"uri": "tables/clicks", "clustre_by": ["day"]}
    registry_file.write_text(json.dumps(body))
    dags = dags_of(ROOT / "dags")
    assert "lakehouse_maintenance_orders" in dags
    assert "lakehouse_maintenance_clicks" not in dags
    with pytest.raises(AirflowFailException, match=r"tables\.clicks\.clustre_by: unknown key"):
        dags["lakehouse_registry"].get_task("check").execute({})
    with pytest.raises(ValueError, match=r"tables\.clicks\.clustre_by: unknown key"):
        plugin_registry.require_registered("clicks")


@pytest.mark.parametrize("is_incomplete", [False, True], ids=["no date", "an error between two tasks"])
def test_a_dag_that_cannot_be_made_leaves_the_others(
    registry_file: Path, monkeypatch: pytest.MonkeyPatch, is_incomplete: bool
) -> None:
    schedule = "@daily" if is_incomplete else "0 0 30 2 *"
    edited(registry_file, lineitem={"airflow": {"per": "table", "maintenance": schedule}})

    def failing_job_arguments(settings: Any) -> dict[str, Any]:
        if settings.maintenance is not None:
            raise ValueError("no arguments")
        return job_arguments(settings)

    if is_incomplete:
        monkeypatch.setattr("lakehouse_airflow.factory.maintenance.job_arguments", failing_job_arguments)
    dags = dags_of(ROOT / "dags")
    assert {"lakehouse_ingest", "lakehouse_maintenance", "lakehouse_erasure_customer"} < dags.keys()
    assert "lakehouse_maintenance_lineitem" not in dags
    mistake = "the DAG lakehouse_maintenance_lineitem cannot be made: "
    with pytest.raises(AirflowFailException, match=mistake):
        dags["lakehouse_registry"].get_task("check").execute({})
    with pytest.raises(plugin_registry.RegistryError, match=mistake):
        factory.lakehouse_dags(only=["maintenance"])
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "lakehouse_registry")
    assert list(factory.lakehouse_dags()) == ["lakehouse_registry"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subjects": {"customer": {}}}, r"subjects\.customer"),
        ({"lineitem": {"uri": "tables/customer", "bogus": 1}}, r"tables\.lineitem\.bogus"),
        ({"lineitem": {"airflow": {"pool": "x"}}}, r"tables\.lineitem\.airflow differs from defaults\.airflow"),
        (
            {"lineitem": {"airflow": {"per": "group"}}},
            r"lineitem\.airflow\.per is group, and the table has no group",
        ),
        ({"tables": {"clicks": None}}, r"tables\.clicks: Input should be a valid dictionary"),
        ({"tables": {"clicks": 5}}, r"tables\.clicks: Input should be a valid dictionary .*got 5"),
    ],
)
def test_other_mistakes_stop_all_dags(registry_file: Path, changes: dict[str, Any], message: str) -> None:
    edited(registry_file, **changes)
    with pytest.raises(plugin_registry.RegistryError, match=message):
        factory.lakehouse_dags()


def test_tables_of_a_group_have_the_settings_of_the_group(registry_file: Path) -> None:
    edited(
        registry_file,
        groups={"g": {"airflow": {"per": "group"}}, "orders": {"airflow": {"per": "group"}}},
        lineitem={"group": "g"},
        customer={"group": "g", "airflow": {"pool": "x"}},
    )
    with pytest.raises(plugin_registry.RegistryError, match=r"tables\.customer\.airflow differs from other tables"):
        factory.lakehouse_dags()
    edited(registry_file, customer={"group": "orders", "airflow": {}}, orders={"airflow": {"per": "table"}})
    with pytest.raises(plugin_registry.RegistryError, match=r"tables\.orders and groups\.orders have a DAG of the"):
        factory.lakehouse_dags()


def test_a_dag_file_may_name_the_registry_and_kinds(
    registry_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEHOUSE_REGISTRY")
    monkeypatch.setattr(plugin_registry, "_used_registry", None)
    file = tmp_path / "dags" / "mine.py"
    file.parent.mkdir()
    file.write_text(
        f"from lakehouse_airflow import lakehouse_dags\nlakehouse_dags({str(registry_file)!r}, only=['ingest'])\n"
    )
    assert list(dags_of(file)) == ["lakehouse_ingest"]
    assert "orders" in plugin_registry.load_registry().tables
    with pytest.raises(ValueError, match="only has loads; expected some of ingest, maintenance"):
        factory.lakehouse_dags(only=["loads"])


def test_a_dag_file_does_not_use_the_registry_of_another_file(registry_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"tables": {"clicks": {"uri": "clicks"}}, "defaults": {"airflow": {"per": "table"}}}))
    assert "lakehouse_maintenance_clicks" in factory.lakehouse_dags(other)
    assert "lakehouse_erasure_customer" in factory.lakehouse_dags()


def test_the_parse_for_a_task_makes_only_its_dag(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "lakehouse_ingest")
    assert list(factory.lakehouse_dags()) == ["lakehouse_ingest"]


@pytest.mark.slow
def test_five_hundred_tables_are_parsed_in_a_second(registry_file: Path) -> None:
    tables = {f"t{number}": {"uri": f"tables/t{number}", "group": f"g{number % 50}"} for number in range(500)}
    groups = {f"g{number}": {"airflow": {"per": "group", "maintenance": "@daily"}} for number in range(50)}
    registry_file.write_text(json.dumps({"tables": tables, "groups": groups}))
    code = textwrap.dedent("""
        import time
        from airflow.sdk import DAG, Param
        from lakehouse_airflow.factory.lakehouse_dags import lakehouse_dags
        began = time.process_time()
        dags = lakehouse_dags()
        print(len(dags), time.process_time() - began)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    count, seconds = done.stdout.split()
    assert (int(count), float(seconds) < 1) == (52, True), done.stdout
