"""Run the services until a signal arrives: `python -m demo.cluster.servers FOLDER`, under the demo's guard.

Starts them in the order of `COUNTS`, waits for each health check, and stops them in the reverse order.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg2

from demo.airflow_process import HOST
from demo.cluster.home import ClusterHome
from demo.cluster.services import Service, services
from demo.errors import DemoError

START_SECONDS = 1200.0
STOP_SECONDS = 20.0
POLL_SECONDS = 1.0
DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
#: Who runs Postgres if the demo runs as root, because Postgres refuses to.
POSTGRES_USER = "postgres"


def postgres_programs() -> Path:
    """The folder of Debian's newest Postgres, which is not on the PATH.

    Raises:
        DemoError: there is none.
    """
    folders = [folder for folder in DEBIAN_POSTGRES.glob("*/bin") if (folder / "initdb").exists()]
    if not folders:
        raise DemoError(
            f"Postgres is missing: {DEBIAN_POSTGRES} has no version with initdb",
            hint="Install it: apt install postgresql",
        )
    return max(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.parent.name)])


def postgres_user(folder: Path) -> str | None:
    """The user who runs Postgres; None for the user of this process.

    Raises:
        DemoError: the process runs as root, and the user postgres does not exist or cannot reach the folder.
    """
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(POSTGRES_USER)
    except KeyError:
        raise DemoError(
            f"Postgres does not run as root, and the user {POSTGRES_USER} does not exist",
            hint="Run the demo as another user.",
        ) from None
    closed = [parent for parent in folder.absolute().parents if parent.exists() and not parent.stat().st_mode & 0o001]
    if closed:
        raise DemoError(
            f"Postgres does not run as root, and the user {POSTGRES_USER} cannot reach {closed[-1]}",
            hint="Clone the repository into a folder that all users may enter, or run the demo as another user.",
        )
    return POSTGRES_USER


def run(home: ClusterHome) -> int:
    """Run all services until SIGINT or SIGTERM."""
    with ExitStack() as started:
        starting = []
        for service in services(home, os.environ):
            service.folder.mkdir(parents=True, exist_ok=True)
            if service.name == "migrate":
                # The services before it are the ones that docker-compose.yml waits for.
                _await_healthy(starting)
                _create_database(home, service)
                subprocess.run(service.command, env=service.environment, cwd=service.folder, check=True)
                continue
            command, user = service.command, None
            if service.name == "postgres":
                command, user = _prepare_postgres(home, service), postgres_user(home.root)
            starting.append(started.enter_context(_Running(home, service, command, user)))
        _await_healthy(starting)
        home.ready.touch()
        while True:
            time.sleep(POLL_SECONDS)


class _Running:
    """A service's process, which ends with the block."""

    def __init__(self, home: ClusterHome, service: Service, command: list[str], user: str | None) -> None:
        self._service = service
        self.name = service.name
        self._log = home.logs / f"{service.name}.log"
        with self._log.open("ab") as log:
            # Its own session, so that only the order of this program stops it.
            self._process = subprocess.Popen(
                command,
                env=service.environment,
                cwd=service.folder if user is None else "/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
            )

    def __enter__(self) -> _Running:
        return self

    def is_healthy(self) -> bool:
        """Whether the health check passes.

        Raises:
            DemoError: the process has ended.
        """
        if self._process.poll() is not None:
            raise DemoError(f"{self.name} ended with {self._process.returncode}", log=self._log)
        return self._service.is_healthy()

    def __exit__(self, *_: object) -> None:
        # Postgres ends its sessions on SIGINT, and waits for them on SIGTERM.
        number = signal.SIGINT if self.name == "postgres" else signal.SIGTERM
        if self._process.poll() is None:
            self._process.send_signal(number)
            deadline = time.monotonic() + STOP_SECONDS
            while not self._has_ended() and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS / 10)
            # Also what the service leaves behind. Its own process, still unread, keeps the group's number.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        print(f"{self.name} ended with {self._process.returncode}", flush=True)

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _await_healthy(starting: list[_Running]) -> None:
    """Wait until every service passes its health check.

    Raises:
        DemoError: a process ended, or a check does not pass in time.
    """
    began = time.monotonic()
    waiting = starting
    while waiting:
        if time.monotonic() - began > START_SECONDS:
            raise DemoError(f"{', '.join(running.name for running in waiting)} do not pass their health checks")
        ill = [running for running in waiting if not running.is_healthy()]
        for running in waiting:
            if running not in ill:
                print(f"{running.name} is healthy after {time.monotonic() - began:.1f} s", flush=True)
        waiting = ill
        time.sleep(POLL_SECONDS)


def _prepare_postgres(home: ClusterHome, service: Service) -> list[str]:
    """Make an empty database cluster with a password, and return the server's command."""
    programs, user = postgres_programs(), postgres_user(home.root)
    home.postgres.mkdir(mode=0o700)
    password = home.postgres / "password"
    password.touch(mode=0o600)
    password.write_text((home.secrets / "postgres_password").read_text())
    if user is not None:
        for path in (home.postgres, password):
            shutil.chown(path, user)
    data = home.postgres / "data"
    initdb = [str(programs / "initdb"), "--pgdata", str(data), "--username", "airflow", "--auth", "scram-sha-256"]
    initdb += ["--pwfile", str(password), "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"]
    subprocess.run(initdb, env=service.environment, cwd="/", user=user, check=True)
    password.unlink()
    settings = {"listen_addresses": HOST, "port": service.environment["PGPORT"], "unix_socket_directories": ""}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(programs / "postgres"), "-D", str(data), *options]


def _create_database(home: ClusterHome, service: Service) -> None:
    connection = psycopg2.connect(
        host=HOST,
        port=service.environment["PGPORT"],
        user="airflow",
        password=(home.secrets / "postgres_password").read_text().strip(),
        dbname="postgres",
    )
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE airflow")
    connection.close()


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(ClusterHome(Path(arguments[0])))
    except KeyboardInterrupt:
        return 0
    except (DemoError, subprocess.CalledProcessError) as error:
        print(error, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
