"""``make test-worker-kills``: Airflow's metadata database is away for a minute, twice in a run."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from demo import airflow_process
from demo.airflow_process import HOST, Program, State
from demo.cluster.servers import postgres_programs, postgres_user
from demo.home import REPOSITORY, Home
from tests.airflow.awaited_delete import AwaitedDelete, without_registry, write_dags

_AWAY_SECONDS = 60.0
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class Postgres:
    """A database server of this machine, with its data and its log in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.password = secrets.token_hex(16)
        self._folder, self._user = folder, postgres_user(folder)
        self._port = airflow_process.free_port(20_000 + os.getpid() % 10_000)
        self._process: subprocess.Popen[bytes] | None = None
        programs, file = postgres_programs(), folder / "password"
        airflow_process.write_private(file, self.password)
        if self._user is not None:
            for path in (folder, file):
                shutil.chown(path, self._user)
        initdb = [programs / "initdb", "--pgdata", folder / "data", "--username", "airflow", "--no-sync"]
        options = ["--auth", "scram-sha-256", "--pwfile", file, "--encoding", "UTF8", "--locale", "C.UTF-8"]
        subprocess.run([*initdb, *options], cwd="/", user=self._user, check=True, stdout=subprocess.DEVNULL)
        file.unlink()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://airflow:{self.password}@{HOST}:{self._port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it accepts a connection."""
        command = [postgres_programs() / "postgres", "-D", self._folder / "data", "-p", str(self._port)]
        command += ["-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd="/",
                user=self._user,
                stdout=log,
                stderr=log,
                # Linux sends SIGINT to the server when this process ends, also if it is killed.
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT),
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg2.connect(self.url.replace("+psycopg2", ""), connect_timeout=5).close()
            except psycopg2.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log_text = (self._folder / "log").read_text()[-1000:]
                    raise AssertionError(f"Postgres does not answer: {log_text}") from error
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        """Stop the server, which ends its sessions."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    # Pytest's own folders are closed to the user of the server.
    with tempfile.TemporaryDirectory(prefix="lakehouse-postgres-") as folder:
        server = Postgres(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture
def airflow(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[Home, State]]:
    home = Home(tmp_path)
    own = write_dags(home, ("waits",)) | {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.url,
        "PYTHONPATH": str(REPOSITORY),
    }

    def program(home: Home) -> Program:
        standalone = airflow_process.standalone(home, first_port=30_000 + os.getpid() % 10_000)
        command = [sys.executable, "-m", "tests.airflow.restarted_services"]
        return replace(standalone, command=command, environment=without_registry(standalone, own))

    with airflow_process.session(home, program) as state:
        yield home, state


def test_a_run_whose_database_is_away_does_its_work_once(postgres: Postgres, airflow: tuple[Home, State]) -> None:
    """The database is away while the awaited version is written, and when the Spark driver has started.

    The second time, the job ends without a database, so its task is tried again, and the retry finds the commit.
    """
    home, state = airflow
    run = AwaitedDelete.begin(home, state, "waits")
    run.await_deferral()
    postgres.stop()
    run.write_awaited_version()
    time.sleep(_AWAY_SECONDS)
    postgres.start()
    run.await_driver()
    postgres.stop()
    time.sleep(_AWAY_SECONDS)
    postgres.start()
    assert run.check_end().try_number > 1
    log = home.airflow_log.read_text(errors="replace")
    assert all(log.count(f"starting {service}") > 1 for service in ("scheduler", "triggerer"))
    assert postgres.password not in log
    exposed = [file for file in (home.airflow / "logs").rglob("*.log") if postgres.password in file.read_text()]
    assert exposed == []
