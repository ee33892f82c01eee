"""``make test-worker-kills``: services of a real Airflow are killed in the middle of a run; its work is done once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from demo import airflow_guard, airflow_process
from demo.home import Home
from tests.airflow.awaited_delete import AwaitedDelete, without_registry, words_of, write_dags

_DAGS = ("alone", "with_tasks")


@dataclass(frozen=True)
class Services:
    """The services of a running Airflow."""

    home: Home
    state: airflow_process.State
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def service(self, name: str) -> psutil.Process:
        """The process of the scheduler or of the triggerer."""
        for process in airflow_guard.marked(self.state.mark):
            with suppress(psutil.NoSuchProcess):
                if words_of(process)[-2:] == [name, "--skip-serve-logs"]:
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


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    home = Home(tmp_path_factory.mktemp("airflow"))
    own = write_dags(home, _DAGS)

    def program(home: Home) -> airflow_process.Program:
        standalone = airflow_process.standalone(home, first_port=30_000 + os.getpid() % 10_000)
        return replace(standalone, environment=without_registry(standalone, own))

    with airflow_process.session(home, program) as state:
        services = Services(home, state)
        yield services
    for service in services.started:
        service.wait()


@pytest.mark.parametrize("dag_id", _DAGS)
def test_a_run_whose_triggerer_and_scheduler_are_killed_does_its_work_once(services: Services, dag_id: str) -> None:
    """The triggerer is dead while the awaited version is written; the scheduler, alone or with its tasks, dies when the
    Spark driver has started."""
    run = AwaitedDelete.begin(services.home, services.state, dag_id)
    run.await_deferral()
    environment = services.kill("triggerer")
    run.write_awaited_version()
    services.start("triggerer", environment)
    run.await_driver()
    environment = services.kill("scheduler", with_children=dag_id == "with_tasks")
    services.start("scheduler", environment)
    run.check_end()
