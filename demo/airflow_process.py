"""Start, watch and stop the demo's own Airflow: `airflow standalone` on 127.0.0.1."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from demo import airflow_guard
from demo.errors import DemoError
from demo.home import REPOSITORY, Home
from demo.rest import AirflowApi
from demo.users import ADMIN, ROLES

HOST = "127.0.0.1"
FIRST_PORT = 8080
START_SECONDS = 180.0
# The time to wait for the guard after its grace period, when it kills Airflow.
STOP_SECONDS = 20.0
# The number of parallel tasks. Each may be a Spark driver with Python workers, and the demo needs 8 GiB and 2 cores.
PARALLELISM = 3
# Airflow signs its tokens with HMAC-SHA-512, which requires 64 bytes (RFC 7518, section 3.2).
JWT_SECRET_BYTES = 64

# A driver runs for a minute at most. In that time the JVM's second compiler would take a third of the processor time,
# and save less.
_SPARK_DEFAULTS = """\
spark.driver.memory 1g
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.ui.enabled false
spark.log.level WARN
spark.sql.shuffle.partitions 4
"""

_CLASHING = ("AIRFLOW", "SPARK_", "PYSPARK_", "LAKEHOUSE_", "PYTHONPATH", "PYTHONHOME")


@dataclass(frozen=True)
class State:
    """The running Airflow, as stored in the home: `guard` is the process to stop, `mark` the mark of its tree.

    The guard kills the tree `grace_seconds` after the signal to stop.
    """

    guard: int
    guard_started: float
    mark: str
    port: int
    grace_seconds: float = airflow_guard.GRACE_SECONDS

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@dataclass(frozen=True)
class Program:
    """What the guard runs: a command, its environment without the mark, and the API server's port.

    Attributes:
        is_ready: asked when Airflow answers.
    """

    command: list[str]
    environment: dict[str, str]
    port: int
    start_seconds: float = START_SECONDS
    grace_seconds: float = airflow_guard.GRACE_SECONDS
    is_ready: Callable[[], bool] = lambda: True


def standalone(home: Home, first_port: int = FIRST_PORT) -> Program:
    """`airflow standalone` on a free port.

    Args:
        first_port: the first port to try. Two Airflows that start at the same time need different ones.
    """
    write_start_files(home)
    port = free_port(first_port)
    return Program(["airflow", "standalone"], settings(home, port, os.environ), port)


def free_port(first: int = FIRST_PORT, tries: int = 20) -> int:
    """The first free port from `first` on.

    Raises:
        DemoError: all `tries` ports are taken.
    """
    for port in range(first, first + tries):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                # All addresses, because a process that listens on 0.0.0.0 has the port on 127.0.0.1, too.
                probe.bind(("0.0.0.0", port))  # noqa: S104
            except OSError:
                continue
            return port
    raise DemoError(f"The ports {first} to {first + tries - 1} are all taken", hint="Free one of them.")


def inherited_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without settings of Airflow, Spark and Python, and without a proxy for this machine."""
    local = ",".join(filter(None, [inherited.get("no_proxy") or inherited.get("NO_PROXY"), HOST, "localhost"]))
    return {name: value for name, value in inherited.items() if not name.startswith(_CLASHING)} | {
        "PATH": inherited.get("PATH", os.defpath),
        "no_proxy": local,
        "NO_PROXY": local,
        # Else setproctitle would overwrite the environment, and the mark with it, with the process's new name.
        "SPT_NOENV": "1",
    }


def settings(home: Home, port: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the demo's Airflow.

    It leaves out the user's settings of Airflow and Spark, which could name another database.
    """
    environment = inherited_environment(inherited)
    url = f"http://{HOST}:{port}"
    bin_folder = Path(sys.executable).parent
    environment |= {
        "PATH": f"{home.airflow / 'bin'}{os.pathsep}{bin_folder}{os.pathsep}{environment['PATH']}",
        "AIRFLOW_HOME": str(home.airflow),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home.airflow / "passwords.json"),
        # From a file, because other processes can read an environment. Airflow's default secret is too short.
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": f"cat {shlex.quote(str(_jwt_secret(home)))}",
        # Has the connection with the ledger's key. Only workers have this backend; the API server does not.
        "AIRFLOW__WORKERS__SECRETS_BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__WORKERS__SECRETS_BACKEND_KWARGS": json.dumps({"connections_file_path": str(_connections(home))}),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home.airflow / 'airflow.db'}",
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SCARF_ANALYTICS": "false",
        "DO_NOT_TRACK": "1",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
        ),
        "LAKEHOUSE_REGISTRY": str(home.registry),
        "SPARK_CONF_DIR": str(home.airflow / "spark"),
        "SPARK_LOCAL_IP": HOST,
        # A killed Spark leaves its scratch files; the next demo deletes this folder.
        "SPARK_LOCAL_DIRS": str(home.airflow / "spark" / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return environment


def password(home: Home, user: str = ADMIN) -> str:
    """The password of a user of this home's Airflow."""
    return str(json.loads((home.airflow / "passwords.json").read_text())[user])


def _jwt_secret(home: Home) -> Path:
    return home.airflow / "jwt_secret"


def _connections(home: Home) -> Path:
    return home.airflow / "connections.json"


def running(home: Home) -> State | None:
    """The Airflow of this home if its guard is alive, else None."""
    state = _load_state(home)
    if state is None:
        return None
    try:
        # The process id alone may belong to another process now.
        alive = abs(psutil.Process(state.guard).create_time() - state.guard_started) < 1.0
    except psutil.NoSuchProcess:
        alive = False
    return state if alive else None


def sweep(home: Home) -> None:
    """Kill the processes that a killed guard has left."""
    state = _load_state(home)
    if state is not None and running(home) is None:
        airflow_guard.kill_marked(state.mark)
        home.airflow_state.unlink(missing_ok=True)


def api(home: Home, state: State, user: str = ADMIN) -> AirflowApi:
    """A session of a user with the running Airflow."""
    return AirflowApi(state.url, user, password(home, user))


def start(home: Home) -> State:
    """Start an Airflow that outlives this process, and wait until all its components answer.

    Raises:
        DemoError: Airflow did not start in time.
    """
    state, _ = _launch(home, standalone, stay=True)
    return state


@contextmanager
def session(home: Home, program_of: Callable[[Home], Program] = standalone) -> Iterator[State]:
    """Run an Airflow for the length of the block; it is stopped even if this process is killed.

    Raises:
        DemoError: Airflow did not start in time.
    """
    state, guard = _launch(home, program_of, stay=False)
    try:
        yield state
    finally:
        _stop_guarded(home, guard)


def _launch(home: Home, program_of: Callable[[Home], Program], *, stay: bool) -> tuple[State, subprocess.Popen[bytes]]:
    sweep(home)
    program = program_of(home)
    mark = secrets.token_hex(8)
    options = [*(["--stay"] if stay else []), "--grace", str(program.grace_seconds)]
    with home.airflow_log.open("ab") as log:
        guard = subprocess.Popen(
            [sys.executable, airflow_guard.__file__, *options, *program.command],
            # The guard stops Airflow when this pipe closes.
            stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**program.environment, airflow_guard.MARK: mark},
            cwd=home.airflow,
            start_new_session=True,
        )
    try:
        state = State(guard.pid, psutil.Process(guard.pid).create_time(), mark, program.port, program.grace_seconds)
        home.airflow_state.write_text(json.dumps(asdict(state)))
        _await_healthy(home, state, guard, program)
    except BaseException:
        _stop_guarded(home, guard)
        raise
    return state, guard


def new_passwords() -> dict[str, str]:
    """A password for each user."""
    return {user: secrets.token_urlsafe(12) for user in ROLES}


def write_private(file: Path, content: str) -> None:
    """Write a file that only this user can read."""
    file.touch(mode=0o600)
    file.write_text(content)


def write_start_files(home: Home) -> None:
    """Write the files that Airflow reads when it starts. Existing passwords and keys are kept."""
    (home.airflow / "bin").mkdir(parents=True, exist_ok=True)
    (home.airflow / "spark").mkdir(exist_ok=True)
    ledger = {"conn_type": "lakehouse", "password": secrets.token_hex(32)}
    for file, content in (
        (home.airflow / "passwords.json", json.dumps(new_passwords())),
        (_jwt_secret(home), secrets.token_hex(JWT_SECRET_BYTES)),
        (_connections(home), json.dumps({"lakehouse_ledger": ledger})),
    ):
        if not file.exists():
            write_private(file, content)
    # `airflow standalone` starts its components by the bare name `airflow`. Scheduler and triggerer would serve task
    # logs on all addresses of this machine, and no setting prevents it. The API server reads the log files itself.
    real = Path(sys.executable).parent / "airflow"
    if not real.exists():
        raise DemoError(f"Airflow is not installed in {real.parent}", hint="Run `make demo`, which installs it.")
    shim = home.airflow / "bin" / "airflow"
    shim.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'  scheduler|triggerer) exec {shlex.quote(str(real))} "$@" --skip-serve-logs ;;\n'
        f'  *) exec {shlex.quote(str(real))} "$@" ;;\n'
        "esac\n"
    )
    shim.chmod(0o755)
    (home.airflow / "spark" / "spark-defaults.conf").write_text(_SPARK_DEFAULTS)


def _await_healthy(home: Home, state: State, guard: subprocess.Popen[bytes], program: Program) -> None:
    airflow = api(home, state)
    deadline = time.monotonic() + program.start_seconds
    while time.monotonic() < deadline:
        if guard.poll() is not None:
            raise DemoError("Airflow ended during its start", hint="Its log has the reason.", log=home.airflow_log)
        if program.is_ready() and airflow.healthy():
            return
        time.sleep(0.5)
    raise DemoError(
        f"Airflow did not answer on {state.url} within {program.start_seconds:.0f} seconds",
        hint="Its log has the reason; a machine with less than 2 free cores may need a second try.",
        log=home.airflow_log,
    )


def _stop_guarded(home: Home, guard: subprocess.Popen[bytes]) -> None:
    with _uninterrupted():
        if guard.stdin is not None:
            guard.stdin.close()
        stop(home)
        guard.wait()


def stop(home: Home) -> bool:
    """Stop the Airflow of this home with all its processes; False if it was not running."""
    state = _load_state(home)
    if state is None:
        return False
    was_running = running(home)
    if was_running is not None:
        guard = psutil.Process(state.guard)
        try:
            guard.terminate()
            guard.wait(state.grace_seconds + STOP_SECONDS)
        except psutil.TimeoutExpired:
            airflow_guard.kill([guard])
        except psutil.NoSuchProcess:
            pass
    airflow_guard.kill_marked(state.mark)
    home.airflow_state.unlink(missing_ok=True)
    return was_running is not None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore SIGINT, SIGTERM and SIGHUP in the block, because a second Ctrl-C would leave processes that still run."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _load_state(home: Home) -> State | None:
    try:
        return State(**json.loads(home.airflow_state.read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None
