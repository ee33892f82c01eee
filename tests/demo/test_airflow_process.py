"""The demo leaves no process behind after any end, and no setting of the user reaches its Airflow.

In place of Airflow, the guard runs a worse child: it ignores SIGINT and SIGTERM, and starts another process in a new
session.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from demo import airflow_guard, airflow_process
from demo.errors import DemoError
from demo.home import Home

pytestmark = pytest.mark.slow  # starts processes of Airflow

STUBBORN = """
import signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
print("started", flush=True)
time.sleep(300)
"""
OBEDIENT = "import time; print('started', flush=True); time.sleep(300)"
# The real grace period is for Airflow; the replacements need none.
GRACE = ["--grace", "0.5"]


@pytest.fixture
def mark() -> Iterator[str]:
    mark = secrets.token_hex(8)
    yield mark
    airflow_guard.kill_marked(mark)


def start_guard(mark: str, program: str, *, stay: bool = False) -> subprocess.Popen[bytes]:
    guard = subprocess.Popen(
        [sys.executable, airflow_guard.__file__, *(["--stay"] if stay else []), *GRACE, sys.executable, "-c", program],
        stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, airflow_guard.MARK: mark, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert guard.stdout is not None
    assert guard.stdout.readline() == b"started\n"
    return guard


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def close(guard: subprocess.Popen[bytes]) -> None:
    for stream in (guard.stdin, guard.stdout):
        if stream is not None:
            stream.close()
    guard.wait(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_process_tree_that_ignores_signals(mark: str, number: signal.Signals) -> None:
    guard = start_guard(mark, STUBBORN, stay=True)
    assert eventually(lambda: len(airflow_guard.marked(mark)) == 3)

    guard.send_signal(number)

    close(guard)
    assert airflow_guard.marked(mark) == []


def test_the_process_tree_ends_when_its_input_is_closed(mark: str) -> None:
    guard = start_guard(mark, STUBBORN)
    assert guard.stdin is not None

    guard.stdin.close()

    guard.wait(10)
    close(guard)
    assert airflow_guard.marked(mark) == []


def test_the_process_tree_ends_when_the_demo_is_killed(mark: str, tmp_path: Path) -> None:
    script = f"""
import subprocess, sys, time
guard = subprocess.Popen(
    [sys.executable, {airflow_guard.__file__!r}, *{GRACE!r}, sys.executable, "-c", {STUBBORN!r}], stdin=subprocess.PIPE
)
time.sleep(300)
"""
    demo = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.DEVNULL,
        env={**os.environ, airflow_guard.MARK: mark, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert eventually(lambda: len(airflow_guard.marked(mark)) == 4)

    demo.kill()
    demo.wait(10)

    assert eventually(lambda: not airflow_guard.marked(mark))


def test_the_guard_ends_the_process_tree_when_its_child_ends(mark: str) -> None:
    guard = start_guard(
        mark,
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'], stdout=subprocess.DEVNULL)\n"
        "print('started', flush=True); sys.exit(3)",
        stay=True,
    )

    close(guard)

    assert guard.returncode == 3
    assert airflow_guard.marked(mark) == []


def test_a_guard_with_stay_ignores_a_closed_input(mark: str) -> None:
    guard = start_guard(mark, OBEDIENT, stay=True)
    time.sleep(0.5)
    assert guard.poll() is None
    guard.terminate()
    close(guard)


def test_processes_of_a_killed_guard_are_ended_at_the_next_start(mark: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    guard = start_guard(mark, STUBBORN, stay=True)
    started = psutil.Process(guard.pid).create_time()
    home.airflow_state.write_text(
        json.dumps({"guard": guard.pid, "guard_started": started, "mark": mark, "port": 8080})
    )
    assert airflow_process.running(home) is not None
    airflow_process.sweep(home)
    assert guard.poll() is None, "a sweep must leave a running Airflow alone"
    guard.kill()
    close(guard)
    assert airflow_process.running(home) is None

    airflow_process.sweep(home)

    assert airflow_guard.marked(mark) == []
    assert not home.airflow_state.exists()


def test_stop_ends_the_guard_and_returns_whether_it_was_running(mark: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert airflow_process.stop(home) is False
    guard = start_guard(mark, STUBBORN, stay=True)
    started = psutil.Process(guard.pid).create_time()
    home.airflow_state.write_text(
        json.dumps({"guard": guard.pid, "guard_started": started, "mark": mark, "port": 8080})
    )

    assert airflow_process.stop(home) is True

    close(guard)
    assert airflow_guard.marked(mark) == []
    assert airflow_process.stop(home) is False


def test_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.airflow_state.write_text(
        json.dumps({"guard": os.getpid(), "guard_started": 1.0, "mark": "none has this", "port": 8080})
    )
    assert airflow_process.running(home) is None
    assert airflow_process.stop(home) is False


def test_a_truncated_state_file_means_that_airflow_is_not_running(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.airflow_state.write_text('{"guard": 1')
    assert airflow_process.running(home) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_not_chosen(address: str) -> None:
    with socket.socket() as taken:
        taken.bind((address, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert airflow_process.free_port(first=port, tries=20) > port
        with pytest.raises(DemoError, match=f"ports {port} to {port} are all taken"):
            airflow_process.free_port(first=port, tries=1)


def test_settings_of_the_users_own_airflow_and_spark_are_not_inherited(tmp_path: Path) -> None:
    inherited = {
        "PATH": "/usr/bin",
        "HOME": "/home/somebody",
        "JAVA_HOME": "/opt/java",
        "AIRFLOW_HOME": "/srv/production",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://production",
        "AIRFLOW_CONN_SPARK_DEFAULT": "spark://production",
        "SPARK_HOME": "/opt/other-spark",
        "PYSPARK_PYTHON": "/usr/bin/python2",
        "PYTHONPATH": "/somewhere",
        "LAKEHOUSE_REGISTRY": "/srv/production.json",
        "http_proxy": "http://proxy:3128",
        "no_proxy": "intranet",
    }
    home = Home(tmp_path)

    environment = airflow_process.settings(home, 8123, inherited)

    assert not [value for value in environment.values() if "production" in value or "other-spark" in value]
    assert "PYTHONPATH" not in environment
    assert environment["JAVA_HOME"] == "/opt/java"
    assert environment["AIRFLOW_HOME"] == str(home.airflow)
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["LAKEHOUSE_REGISTRY"] == str(home.registry)
    assert environment["no_proxy"].split(",") == ["intranet", "127.0.0.1", "localhost"]
    folders = environment["PATH"].split(os.pathsep)
    assert folders.index(str(home.airflow / "bin")) < folders.index(str(Path(sys.executable).parent))


def test_no_secret_is_in_the_environment(tmp_path: Path) -> None:
    home = Home(tmp_path)
    airflow_process.write_start_files(home)

    password = airflow_process.password(home)

    assert len(password) >= 12
    assert password not in "".join(airflow_process.settings(home, 8080, os.environ).values())
    assert (home.airflow / "passwords.json").stat().st_mode & 0o077 == 0
    secret = (home.airflow / "jwt_secret").read_text()
    assert len(bytes.fromhex(secret)) == 64
    assert (home.airflow / "jwt_secret").stat().st_mode & 0o077 == 0
    connections = (home.airflow / "connections.json").read_text()
    key = json.loads(connections)["lakehouse_ledger"]["password"]
    assert len(bytes.fromhex(key)) == 32
    assert (home.airflow / "connections.json").stat().st_mode & 0o077 == 0
    assert key not in "".join(airflow_process.settings(home, 8080, os.environ).values())
    assert secret not in "".join(airflow_process.settings(home, 8080, os.environ).values())
    airflow_process.write_start_files(home)
    assert (home.airflow / "jwt_secret").read_text() == secret
    assert (home.airflow / "connections.json").read_text() == connections, "records are sealed with the first key"
    assert airflow_process.password(home) == password, "the password must survive a second start"


def test_requester_and_approver_are_two_users_with_their_own_passwords(tmp_path: Path) -> None:
    home = Home(tmp_path)
    airflow_process.write_start_files(home)
    users = airflow_process.settings(home, 8080, os.environ)["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
    assert users == "admin:admin,requester:user,officer:user"
    assert len({airflow_process.password(home, user) for user in ("admin", "requester", "officer")}) == 3
