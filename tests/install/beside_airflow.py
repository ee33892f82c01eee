"""``make test-install``: the wheel next to each Airflow as pip resolves it, by the commands of the docs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import deltalake
import pyarrow as pa
import pytest

from tests.install.environment import OWN_PAGE, ROOT, Environment, documented_commands, page_files

pytestmark = pytest.mark.timeout(1800)

SENSOR_DAG = """
from airflow.sdk import DAG

from lakehouse_airflow.sensors import LakehouseTableVersionSensor

with DAG("waiting"):
    wait = LakehouseTableVersionSensor(task_id="wait", table="{table}", target_version=2, poke_interval=0.5, timeout=2)
    defer = LakehouseTableVersionSensor(task_id="defer", table="{table}", target_version=2, deferrable=True)
    wait >> defer
"""

JOB_DAG = """
from airflow.sdk import DAG

from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator

with DAG("upkeep"):
    optimize = LakehouseOptimizeOperator(task_id="optimize", table="{table}", engine="spark")
    optimize >> LakehouseCheckpointOperator(task_id="checkpoint", table="{table}")
"""


LINEAGE_DAG = """
from airflow.sdk import DAG

from lakehouse_airflow.operators.health import LakehouseHealthOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator

with DAG("lineage"):
    health = LakehouseHealthOperator(task_id="health", table="{table}")
    health >> LakehouseRestoreOperator(task_id="restore", table="{table}", target=0)
"""

#: Releases of Airflow, each with the bounds without which its tasks fail as pip resolves it.
AIRFLOWS = {"3.3": [], "3.2": ["fastapi<0.137", "svcs<26"], "3.1.3": []}

#: The names that need a task that waits for a person, which Airflow has from 3.3 on.
APPROVALS = {
    "lakehouse_airflow.operators.base.approval",
    "lakehouse_airflow.operators.erasure.approval",
    "lakehouse_airflow.operators.repair_approval",
    "lakehouse_airflow.factory.erasure",
}

IMPORTS = """
import importlib, pkgutil
import lakehouse_airflow
for module in pkgutil.walk_packages(lakehouse_airflow.__path__, "lakehouse_airflow."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        print(module.name, error, sep="|")
"""

SUBJECTS = """
subjects:
  customer:
    id_type: long
    approvers: [officer]
    rows: [{table: orders, key: id}]
ledger: LEDGER
"""


#: Requests pages of the plugin from Airflow's API server, without a browser.
PAGES = """
import os
os.environ["LAKEHOUSE_REGISTRY"] = {registry!r}
os.environ["AIRFLOW__API_AUTH__JWT_ISSUER"] = "tests"  # Airflow 3.1 has no default that PyJWT accepts
from airflow.api_fastapi.app import create_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient
app = create_app()
user = SimpleAuthManagerUser(username="ann", role="ADMIN")
client = TestClient(app, headers={{"Authorization": f"Bearer {{app.state.auth_manager.generate_jwt(user)}}"}})
for path in ("tables", "tables/orders", "tables/orders/versions/1", "tables/orders/maintenance"):
    answer = client.get(f"/lakehouse/{{path}}")
    assert (answer.status_code, "orders" in answer.text) == (200, True), (path, answer.text)
print("all pages")
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *build, "--wheel-dir", folder, ROOT], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module", params=AIRFLOWS)
def airflow(request: pytest.FixtureRequest, wheels: Path) -> Iterator[Environment]:
    """Airflow only, as pip resolves it; the tests install the rest, one after the other."""
    assert documented_commands("With Airflow")[0] == ["apache-airflow"]
    with TemporaryDirectory(prefix="lakehouse-install-") as folder:
        environment = Environment(Path(folder), wheels, request.param)
        environment.pip_install(f"apache-airflow=={request.param}.*", *AIRFLOWS[request.param])
        environment.run("airflow", "db", "migrate")
        yield environment


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of two small files that deltalake has written, at version 1."""
    uri = str(tmp_path / "orders")
    for value in (1, 2):
        deltalake.write_deltalake(uri, pa.table({"id": [value]}), mode="append")
    return uri


def test_the_wheel_changes_no_version(airflow: Environment) -> None:
    before = airflow.installed()
    airflow.pip_install(*documented_commands("With Airflow")[1])
    after = airflow.installed()
    assert {name: after.get(name) for name in before} == before
    assert "lakehouse-lib" in after
    assert airflow.run("python", "-m", "pip", "check").stdout == "No broken requirements found.\n"


def test_airflow_lists_the_provider_and_the_plugin(airflow: Environment) -> None:
    assert "lakehouse-lib" in airflow.run("airflow", "providers", "list").stdout
    assert "lakehouse_airflow.plugin" in airflow.run("airflow", "plugins", "--output", "json").stdout


def test_the_sensor_waits_for_a_version_that_deltalake_writes(airflow: Environment, table: str) -> None:
    (airflow.dags / "waiting.py").write_text(SENSOR_DAG.format(table=table))
    waited = airflow.test_dag("waiting")
    assert "AirflowSensorTimeout" in waited.stdout + waited.stderr
    assert waited.returncode == 1
    deltalake.write_deltalake(table, pa.table({"id": [3]}), mode="append")
    done = airflow.test_dag("waiting")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_answer(airflow: Environment, table: str) -> None:
    registry = airflow.home / "pages.yaml"
    registry.write_text(f"tables:\n  orders:\n    uri: {table}\n")
    assert "all pages" in airflow.python(PAGES.format(registry=str(registry))).stdout


def test_openlineage_gets_the_tables_of_a_task(airflow: Environment, table: str) -> None:
    airflow.pip_install("apache-airflow-providers-openlineage")
    (airflow.dags / "lineage.py").write_text(LINEAGE_DAG.format(table=table))
    events = airflow.home / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    done = airflow.test_dag("lineage", AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport))
    assert done.returncode == 0, done.stdout + done.stderr
    complete = [json.loads(line) for line in events.read_text().splitlines()]
    by_task = {event["job"]["name"]: event for event in complete if event["eventType"] == "COMPLETE"}
    health, restore = by_task["lineage.health"], by_task["lineage.restore"]
    (read,) = health["inputs"]
    assert (read["namespace"], read["name"], health["outputs"]) == ("file", table, [])
    (written,) = restore["outputs"]
    assert (written["namespace"], written["name"], restore["inputs"]) == ("file", table, [])
    facets = written["facets"]
    assert facets["version"]["datasetVersion"] == "2"
    assert facets["storage"]["storageLayer"] == "delta"
    assert [(field["name"], field["type"]) for field in facets["schema"]["fields"]] == [("id", "long")]


def test_a_job_without_spark_names_what_is_missing(airflow: Environment) -> None:
    done = airflow.python("import lakehouse_airflow.operators.optimize", check=False)
    assert "ModuleNotFoundError: operators that submit a Spark job need airflow.providers.apache" in done.stderr
    assert "pip install --no-deps apache-airflow-providers-apache-spark" in done.stderr


def test_a_job_runs_beside_a_whole_pyspark(airflow: Environment, table: str) -> None:
    for command in documented_commands("With Airflow")[2:4]:
        airflow.pip_install(*command)
    missing = airflow.run("python", "-m", "pip", "check", check=False).stdout.splitlines()
    assert sorted(line.split(" requires ")[1].split(",")[0] for line in missing) == ["grpcio-status", "pyspark-client"]
    (airflow.dags / "upkeep.py").write_text(JOB_DAG.format(table=table))
    done = airflow.test_dag("upkeep")
    assert done.returncode == 0, done.stdout + done.stderr
    judge = deltalake.DeltaTable(table)
    assert judge.history(1)[0]["operation"] == "OPTIMIZE"
    assert sorted(judge.to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_the_steps_of_the_page_run_dags_of_a_registry_and_a_sensor(airflow: Environment, table: str) -> None:
    """docs/your-own-airflow.md: its registry and its DAG files, with the path of a table that deltalake has written."""
    registry = airflow.home / "lakehouse.yaml"
    for name, text in page_files(OWN_PAGE).items():
        text = text.replace("/data/tables/orders", table).replace("/data/lakehouse.yaml", str(registry))
        text = text.replace("/data/records", f"{table}-records")
        (registry if name == registry.name else airflow.dags / name).write_text(text)
    done = airflow.test_dag("orders_report")
    assert done.returncode == 0, done.stdout + done.stderr
    done = airflow.test_dag("lakehouse_maintenance")
    assert done.returncode == 0, done.stdout + done.stderr
    judge = deltalake.DeltaTable(table)
    assert "OPTIMIZE" in [commit["operation"] for commit in judge.history()]
    assert sorted(judge.to_pyarrow_table()["id"].to_pylist()) == [1, 2]

    registry.write_text(registry.read_text() + SUBJECTS.replace("LEDGER", f"{table}-ledger"))
    made = airflow.python(
        f"from lakehouse_airflow import lakehouse_dags; print(sorted(lakehouse_dags({str(registry)!r})))", check=False
    )
    if airflow.release == "3.3":
        assert "'lakehouse_erasure_customer'" in made.stdout, made.stderr
    else:
        assert "has no tasks that wait for an answer; expected 3.3" in made.stderr
        kinds = ("ingest", "maintenance", "report", "registry")
        airflow.python(f"from lakehouse_airflow import lakehouse_dags; lakehouse_dags({str(registry)!r}, only={kinds})")


def test_every_module_imports_but_approvals_before_airflow_3_3(airflow: Environment) -> None:
    failed = dict(line.split("|") for line in airflow.python(IMPORTS).stdout.splitlines() if "|" in line)
    assert set(failed) == (set() if airflow.release == "3.3" else APPROVALS)
    assert all("expected 3.3" in text for text in failed.values())
