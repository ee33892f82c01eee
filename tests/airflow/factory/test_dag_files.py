"""The DAG files: quick to parse, without warnings, and of the documented structure."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import ParamValidationError

from lakehouse_airflow.registry import load_registry
from tests.airflow.dag_runs import ROOT, load_dag

DAGS = ("lakehouse_erasure_customer", "lakehouse_ingest", "lakehouse_maintenance", "lakehouse_report")

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
    assert len(files) == 1
    # Warnings are errors here, because Airflow would print them into the log of every parse.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _TIMED, *files], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_all_files_import_in_under_a_second(registry_file: Path) -> None:
    parse = parse_all()
    assert float(str(parse["seconds"])) < 1.0
    assert parse["heavy"] == []


def test_loading_a_dag_leaves_the_test_its_timeout(registry_file: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    load_dag("lakehouse_ingest")
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_dag_has_a_description_and_only_erasures_run_concurrently(registry_file: Path, dag_id: str) -> None:
    dag = load_dag(dag_id)
    assert dag.doc_md
    assert dag.max_active_runs == (1000 if "erasure" in dag_id else 1)
    assert not dag.catchup


def test_every_subject_has_its_erasure(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    body["subjects"]["employee.v2"] = {**body["subjects"]["customer"], "id_type": "string"}
    registry_file.write_text(json.dumps(body))
    dag = load_dag("lakehouse_erasure_employee.v2")
    dag.params["employee.v2_id"] = "e7"
    assert dag.params.validate() == {"employee.v2_id": "e7", "erase_mentions": False}
    assert load_dag("lakehouse_erasure_customer").dag_id == "lakehouse_erasure_customer"


def test_no_task_of_an_erasure_has_the_id_in_a_rendered_field(registry_file: Path) -> None:
    settings = {"lakehouse_conn_id", "spark_conn_id", "spark_conf", "driver_memory", "durable"}
    for task in load_dag("lakehouse_erasure_customer").tasks:
        if task.task_id != "publish":
            assert set(task.template_fields) <= settings
            assert not any("{{" in str(getattr(task, field)) for field in task.template_fields)


def test_a_registry_without_report_or_subject_has_no_such_dag(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    registry_file.write_text(json.dumps({"tables": body["tables"], "defaults": {"airflow": {"ingest": "*/5 * * * *"}}}))
    assert load_dag("lakehouse_ingest").timetable.expression == "*/5 * * * *"
    for dag_id in ("lakehouse_erasure_customer", "lakehouse_report"):
        with pytest.raises(KeyError, match=dag_id):
            load_dag(dag_id)


def test_rows_are_deleted_after_the_approval_from_referring_tables_first(registry_file: Path) -> None:
    dag = load_dag("lakehouse_erasure_customer")
    for before, after in pairwise(["locate", "approve", "delete", "purge", "report"]):
        assert after in dag.get_task(before).downstream_task_ids
    assert load_registry().subject("customer").tables() == ["lineitem", "orders_quarantine", "orders", "customer"]


def test_the_report_is_released_by_its_tables_asset(registry_file: Path) -> None:
    timetable = load_dag("lakehouse_report").timetable
    orders = f"file://{registry_file.parent}/tables/orders"
    assert [asset.uri for asset in timetable.asset_condition.objects] == [orders]


@pytest.mark.parametrize("dag_id", ["lakehouse_ingest", "lakehouse_maintenance"])
@pytest.mark.parametrize("name", ["2024", "1e5", "None"])
def test_a_table_may_be_called_like_a_number(registry_file: Path, dag_id: str, name: str) -> None:
    dag = load_dag(dag_id)
    labels = [task.map_index_template for task in dag.tasks if task.map_index_template is not None]
    assert labels
    for label in labels:  # Airflow checks its length only after the task
        assert dag.get_template_env().from_string(label).render(task=SimpleNamespace(table=name, label=name)) == name


@pytest.mark.parametrize("value", ["4711", "", "robert'); drop", None, 0, -1, 1.5, True, [1], 2**63])
def test_an_invalid_customer_id_is_refused(registry_file: Path, value: object) -> None:
    dag = load_dag("lakehouse_erasure_customer")
    with pytest.raises(ParamValidationError):
        dag.params["customer_id"] = value


def test_a_customer_id_is_required_and_accepted(registry_file: Path) -> None:
    dag = load_dag("lakehouse_erasure_customer")
    with pytest.raises(ParamValidationError):
        dag.params.validate()
    dag.params["customer_id"] = 4711
    assert dag.params.validate() == {"customer_id": 4711, "erase_mentions": False}


@pytest.mark.slow
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.fixture
def other_packages(tmp_path: Path) -> Path:
    """A folder with all packages of this Python except this project, however it is installed."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for package in {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}:
        for entry in package.iterdir():
            if not entry.name.lstrip("_").startswith(("lakehouse", "spark_jobs", "editable")):
                (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.slow
def test_an_uninstalled_checkout_works_by_plugins_folder_and_pythonpath(
    registry_file: Path, other_packages: Path
) -> None:
    code = """
import json
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
loaded, errors = plugins_manager._load_plugins_from_plugin_directory(
    plugins_folder=plugins_manager.settings.PLUGINS_FOLDER
)
bag = DagBag(dag_folder=plugins_manager.settings.DAGS_FOLDER, bundle_name="dags-folder")
names = [(plugin.name, str(plugin.source), [app["name"] for app in plugin.fastapi_apps]) for plugin in loaded]
broken = "".join(bag.import_errors.values())
print(json.dumps({"plugins": names, "errors": errors, "dags": sorted(bag.dags), "broken": broken}))
"""

    def run(*path: Path) -> dict[str, Any]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        # Without the module site, the environment's packages and the additions of their .pth files are not on the path.
        command = [sys.executable, "-S", "-P", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return dict(json.loads(done.stdout.splitlines()[-1]))

    result = run(other_packages, ROOT)
    assert result["plugins"] == [["lakehouse", "$PLUGINS_FOLDER/lakehouse_plugin.py", ["Lakehouse"]]]
    assert (result["errors"], result["dags"], result["broken"]) == ({}, list(DAGS), "")
    without = run(other_packages)
    assert (without["dags"], "No module named 'lakehouse_lib'" in without["broken"]) == ([], True)


@pytest.mark.slow
def test_the_command_line_lists_the_plugin_once(registry_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "plugins", "-o", "json"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout[done.stdout.index("[") :])
    assert [plugin["name"] for plugin in listed].count("lakehouse") == 1


def test_the_connection_type_is_offered() -> None:
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    offered = ProvidersManagerTaskRuntime().hooks["lakehouse"]
    assert offered is not None
    assert offered.hook_class_name == "lakehouse_airflow.hook.LakehouseHook"
