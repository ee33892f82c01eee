"""``make test-worker-kills``: services of a real Airflow are killed in the middle of a run; its work is done once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from demo import airflow_guard, airflow_process
from demo.home import Home
from demo.rest import AirflowApi

FILES = 3
_PATIENCE = 600.0
#: Airflow notices a dead service within seconds instead of minutes.
_SETTINGS = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
}
_DAGS = """
import os
from datetime import timedelta

from airflow.sdk import DAG
from lakehouse_airflow.operators.change_rows import LakehouseDeleteRowsOperator
from lakehouse_airflow.sensors import LakehouseTableVersionSensor

for name in ("alone", "with_tasks"):
    table = os.path.join(os.environ["TABLES"], name)
    with DAG(name, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}) as globals()[name]:
        wait = LakehouseTableVersionSensor(
            task_id="wait", table=table, target_version=%d, deferrable=True, poke_interval=1, timeout=900
        )
        wait >> LakehouseDeleteRowsOperator(
            task_id="delete", table=table, predicate="id = 0", engine="spark", durable=True
        )
"""


@dataclass(frozen=True)
class Services:
    """The services of a running Airflow."""

    home: Home
    state: airflow_process.State
    api: AirflowApi
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def service(self, name: str) -> psutil.Process:
        """The process of the scheduler or of the triggerer."""
        for process in airflow_guard.marked(self.state.mark):
            with suppress(psutil.NoSuchProcess):
                if _words(process)[-2:] == [name, "--skip-serve-logs"]:
                    return process
        raise AssertionError(f"no process of {name}")

    def kill(self, name: str, *, with_children: bool = False) -> dict[str, str]:
        """Kill a service (SIGKILL), and return its environment."""
        process = self.service(name)
        environment = process.environ()
        airflow_guard.kill([process, *(process.children(recursive=True) if with_children else [])])
        return environment

    def start(self, name: str, environment: dict[str, str]) -> None:
        """Start a service again."""
        command = [str(Path(sys.executable).parent / "airflow"), name, "--skip-serve-logs"]
        with self.home.airflow_log.open("ab") as log:
            service = subprocess.Popen(
                command, env=environment, cwd=self.home.airflow, stdout=log, stderr=log, start_new_session=True
            )
        self.started.append(service)

    def drives(self, table: Path) -> bool:
        """Whether a Spark driver works on the table."""
        return any(
            any(word.endswith("spark_jobs/delete_rows.py") for word in words) and f"--table={table}" in words
            for words in map(_words, airflow_guard.marked(self.state.mark))
        )


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    home = Home(tmp_path_factory.mktemp("airflow"))
    dags = home.root / "dags"
    dags.mkdir()
    (dags / "kills.py").write_text(_DAGS % FILES)

    def program(home: Home) -> airflow_process.Program:
        standalone = airflow_process.standalone(home, first_port=30_000 + os.getpid() % 10_000)
        own = {"AIRFLOW__CORE__DAGS_FOLDER": str(dags), "TABLES": str(home.tables), **_SETTINGS}
        inherited = {name: value for name, value in standalone.environment.items() if name != "LAKEHOUSE_REGISTRY"}
        return replace(standalone, environment=inherited | own)

    with airflow_process.session(home, program) as state:
        api = airflow_process.api(home, state)
        _wait("the DAGs", lambda: len(api.dag_ids()) == 2)
        services = Services(home, state, api)
        yield services
    for service in services.started:
        service.wait()


@pytest.mark.parametrize("dag_id", ["alone", "with_tasks"])
def test_a_run_whose_triggerer_and_scheduler_are_killed_does_its_work_once(services: Services, dag_id: str) -> None:
    """The triggerer is dead while the awaited version is written; the scheduler, alone or with its tasks, dies when the
    Spark driver has started."""
    table, api = services.home.tables / dag_id, services.api
    for number in range(FILES):
        write_deltalake(table, pa.table({"id": [0, number + 1]}), mode="append")
    api.unpause(dag_id)
    run = api.trigger(dag_id)

    def state_of(task_id: str) -> str | None:
        return next(task.state for task in api.tasks(dag_id, run.run_id) if task.task_id == task_id)

    _wait("the sensor waits", lambda: state_of("wait") == "deferred")
    environment = services.kill("triggerer")
    write_deltalake(table, pa.table({"id": [0, FILES + 1]}), mode="append")
    services.start("triggerer", environment)
    _wait("the driver starts", lambda: services.drives(table))
    environment = services.kill("scheduler", with_children=dag_id == "with_tasks")
    services.start("scheduler", environment)
    _wait("the run ends", lambda: api.run(dag_id, run.run_id).finished)
    tasks = {task.task_id: task.state for task in api.tasks(dag_id, run.run_id)}
    assert tasks == {"wait": "success", "delete": "success"}
    written = DeltaTable(table)
    assert sorted(written.to_pyarrow_table()["id"].to_pylist()) == list(range(1, FILES + 2))
    assert [commit["operation"] for commit in written.history()].count("DELETE") == 1


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return process.cmdline()
    return []


def _wait(event: str, has_come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not has_come():
        assert time.monotonic() < deadline, f"not in time: {event}"
        time.sleep(0.5)
