"""The DAG files: quick to parse, clean, and of the promised shape."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.exceptions import ParamValidationError

from tests.airflow.dag_runs import ROOT, load_dag

DAGS = ("lakehouse_erasure", "lakehouse_ingest", "lakehouse_maintenance", "lakehouse_report")

_TIMED = """
import json, runpy, sys, time
import airflow.sdk
from airflow.sdk import DAG, Asset, BaseHook, BaseOperator, BaseSensorOperator, Param
start = time.process_time()  # other tests' processes may be at work on this machine
for file in sys.argv[1:]:
    runpy.run_path(file)
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "heavy": sorted({"pyarrow", "pyspark", "pandas"} & set(sys.modules))}))
"""


def parse_all() -> dict[str, object]:
    files = sorted(str(file) for file in (ROOT / "dags").glob("*.py"))
    assert len(files) == len(DAGS)
    # Warnings are errors here: Airflow would print them into every parse's log.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _TIMED, *files], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_all_files_import_in_under_a_second(registry_file: Path) -> None:
    parse = parse_all()
    assert float(str(parse["seconds"])) < 1.0
    assert parse["heavy"] == []


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_dag_says_what_it_does_and_never_runs_twice_at_once(registry_file: Path, dag_id: str) -> None:
    dag = load_dag(dag_id)
    assert dag.doc_md
    assert dag.max_active_runs == 1
    assert not dag.catchup


def test_a_registry_without_report_or_subject_has_no_such_dag(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    registry_file.write_text(json.dumps({"tables": body["tables"], "schedules": {"ingest": "*/5 * * * *"}}))
    assert load_dag("lakehouse_ingest").timetable.expression == "*/5 * * * *"
    for dag_id in ("lakehouse_erasure", "lakehouse_report"):
        with pytest.raises(KeyError, match=dag_id):
            load_dag(dag_id)


def test_rows_go_from_the_far_end_after_the_approval(registry_file: Path) -> None:
    dag = load_dag("lakehouse_erasure")
    for before, after in pairwise(["locate", "approve", "delete", "purge", "report"]):
        assert after in dag.get_task(before).downstream_task_ids
    assert dag.get_task("delete").tables == ("lineitem", "orders_quarantine", "orders", "customer")


def test_the_report_is_released_by_its_tables_asset(registry_file: Path) -> None:
    timetable = load_dag("lakehouse_report").timetable
    assert [asset.uri for asset in timetable.asset_condition.objects] == ["lakehouse://tables/orders"]


@pytest.mark.parametrize("value", ["4711", "", "robert'); drop", None, 0, -1, 1.5, True, [1], 2**63])
def test_a_customer_id_that_is_none_is_refused(registry_file: Path, value: object) -> None:
    dag = load_dag("lakehouse_erasure")
    with pytest.raises(ParamValidationError):
        dag.params["customer_id"] = value


def test_a_customer_id_is_needed_and_taken(registry_file: Path) -> None:
    dag = load_dag("lakehouse_erasure")
    with pytest.raises(ParamValidationError):
        dag.params.validate()
    dag.params["customer_id"] = 4711
    assert dag.params.validate() == {"customer_id": 4711, "erase_mentions": False}


def test_the_plugin_is_loaded_once(registry_file: Path) -> None:
    code = """
import logging
logging.captureWarnings(True)
from airflow import plugins_manager
from airflow._shared.plugins_manager import PluginsDirectorySource
loaded, errors = plugins_manager._get_plugins()
ours = [plugin for plugin in loaded if plugin.name == "lakehouse"]
assert len(ours) == 1, loaded
assert errors == {}, errors
assert not isinstance(ours[0].source, PluginsDirectorySource), ours[0].source
import sys
assert sys.modules["lakehouse_airflow.plugin"].LakehousePlugin is type(ours[0])
stems = {"hook", "registry", "pages", "ingest", "sensors", "plugin"} & set(sys.modules)
assert not stems, stems
assert "fastapi" not in {name for name in sys.modules if name == "lakehouse_airflow.pages"}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout


def test_an_uninstalled_checkout_loads_the_plugin_from_the_folder(registry_file: Path) -> None:
    code = """
import importlib.metadata
points = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **kw: [p for p in points(**kw) if not p.value.startswith("lakehouse_")]
from airflow import plugins_manager
loaded, errors = plugins_manager._load_plugins_from_plugin_directory(
    plugins_folder=plugins_manager.settings.PLUGINS_FOLDER
)
assert [(plugin.name, str(plugin.source)) for plugin in loaded] == [
    ("lakehouse", "$PLUGINS_FOLDER/lakehouse_plugin.py")
], (loaded, errors)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_command_line_lists_the_plugin_once(registry_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "plugins", "-o", "json"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout[done.stdout.index("[") :])
    assert [plugin["name"] for plugin in listed].count("lakehouse") == 1


def test_the_connection_type_is_offered() -> None:
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    offered = ProvidersManagerTaskRuntime().hooks["lakehouse"]
    assert offered is not None
    assert offered.hook_class_name == "lakehouse_airflow.hook.LakehouseHook"
