"""A real Airflow with one kind of DAG: a deferred sensor awaits a version of a table, then a Spark job deletes rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from demo import airflow_guard, airflow_process
from demo.airflow_process import Program
from demo.errors import DemoError
from demo.home import Home
from demo.rest import AirflowApi, Task

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

for name in %r:
    table = os.path.join(os.environ["TABLES"], name)
    with DAG(name, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}) as globals()[name]:
        wait = LakehouseTableVersionSensor(
            task_id="wait", table=table, target_version=%d, deferrable=True, poke_interval=1, timeout=900
        )
        wait >> LakehouseDeleteRowsOperator(
            task_id="delete", table=table, predicate="id = 0", engine="spark", durable=True
        )
"""


def write_dags(home: Home, names: tuple[str, ...]) -> dict[str, str]:
    """Write a DAG for each name, and return Airflow's settings for them. A DAG's table has the name of the DAG."""
    dags = home.root / "dags"
    dags.mkdir()
    (dags / "kills.py").write_text(_DAGS % (names, FILES))
    return {"AIRFLOW__CORE__DAGS_FOLDER": str(dags), "TABLES": str(home.tables), **_SETTINGS}


def without_registry(program: Program, own: dict[str, str]) -> dict[str, str]:
    """The environment of the program with the settings `own`, and without the demo's registry."""
    inherited = {name: value for name, value in program.environment.items() if name != "LAKEHOUSE_REGISTRY"}
    return inherited | own


@dataclass(frozen=True)
class AwaitedDelete:
    """A run of the DAG `dag_id`; the table has all its versions but the awaited one."""

    table: Path
    state: airflow_process.State
    api: AirflowApi
    dag_id: str
    run_id: str

    @classmethod
    def begin(cls, home: Home, state: airflow_process.State, dag_id: str) -> AwaitedDelete:
        """Write the table, and start the run."""
        table, api = home.tables / dag_id, airflow_process.api(home, state)
        wait("the DAG", lambda: dag_id in api.dag_ids())
        for number in range(FILES):
            write_deltalake(table, pa.table({"id": [0, number + 1]}), mode="append")
        api.unpause(dag_id)
        return cls(table, state, api, dag_id, api.trigger(dag_id).run_id)

    def write_awaited_version(self) -> None:
        write_deltalake(self.table, pa.table({"id": [0, FILES + 1]}), mode="append")

    def await_deferral(self) -> None:
        """Wait until the sensor is deferred."""
        wait("the sensor waits", lambda: self._task_states()["wait"] == "deferred")

    def await_driver(self) -> None:
        """Wait until a Spark driver works on the table."""
        wait("the driver starts", self._has_driver)

    def check_end(self) -> Task:
        """Wait until the run ends, and check that the rows were deleted once; returns the task that deleted them.

        The last try must name the commit that deleted them, whichever try made it.
        """
        wait("the run ends", lambda: self.api.run(self.dag_id, self.run_id).finished)
        assert self._task_states() == {"wait": "success", "delete": "success"}
        written = DeltaTable(self.table)
        assert sorted(written.to_pyarrow_table()["id"].to_pylist()) == list(range(1, FILES + 2))
        deletes = [commit["version"] for commit in written.history() if commit["operation"] == "DELETE"]
        result = self.api.xcom(self.dag_id, self.run_id, "delete")
        assert [result["version"]] == deletes
        return next(task for task in self.api.tasks(self.dag_id, self.run_id) if task.task_id == "delete")

    def _task_states(self) -> dict[str, str | None]:
        return {task.task_id: task.state for task in self.api.tasks(self.dag_id, self.run_id)}

    def _has_driver(self) -> bool:
        return any(
            any(word.endswith("spark_jobs/delete_rows.py") for word in words) and f"--table={self.table}" in words
            for words in map(words_of, airflow_guard.marked(self.state.mark))
        )


def words_of(process: psutil.Process) -> list[str]:
    """The command line of the process; empty if it has ended."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return process.cmdline()
    return []


def wait(event: str, has_come: Callable[[], bool]) -> None:
    """Wait until the event has come. An Airflow that does not answer, or answers with an error, is asked again."""
    deadline = time.monotonic() + _PATIENCE
    problem: DemoError | None = None
    while True:
        try:
            if has_come():
                return
            problem = None
        except DemoError as error:
            problem = error
        assert time.monotonic() < deadline, f"not in time: {event}; {problem or 'Airflow answers'}"
        time.sleep(0.5)
