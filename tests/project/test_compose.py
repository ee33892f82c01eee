"""docker-compose.yml compared with the compose specification, and its command lines with the real programs.

The tests have no Docker engine; docs/compose.md says what is not tested without it.
"""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TEXT = (ROOT / "docker-compose.yml").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<how>:[-?])?(?P<rest>[^}]*)\}")


def test_it_is_valid_by_the_compose_specification() -> None:
    """check-jsonschema contains the specification's schema."""
    done = subprocess.run(
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", ROOT / "docker-compose.yml"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_service_builds_the_image_and_the_others_use_it() -> None:
    our_services = {name: service for name, service in SERVICES.items() if service["image"].startswith("lakehouse:")}
    assert set(SERVICES) - set(our_services) == {"postgres"}
    assert len({service["image"] for service in our_services.values()}) == 1
    assert [name for name, service in our_services.items() if "build" in service] == ["migrate"]
    policies = {name: service["pull_policy"] for name, service in our_services.items()}
    assert policies.pop("migrate") == "build"
    assert set(policies.values()) == {"never"}


def test_every_variable_has_a_default_or_stops_with_what_to_say() -> None:
    for variable in VARIABLE.finditer(TEXT):
        assert variable["how"] in (":-", ":?"), variable[0]
        assert variable["rest"], variable[0]


def test_no_secret_has_a_default() -> None:
    required = {variable["name"] for variable in VARIABLE.finditer(TEXT) if variable["how"] == ":?"}
    defaulted = {variable["name"] for variable in VARIABLE.finditer(TEXT) if variable["how"] == ":-"}
    secret = re.compile(r"PASSWORD|SECRET|KEY|USERS")
    assert not [name for name in defaulted if secret.search(name)]
    assert {name for name in required if secret.search(name)} == {
        "AIRFLOW_API_SECRET_KEY",
        "AIRFLOW_FERNET_KEY",
        "AIRFLOW_JWT_SECRET",
        "AIRFLOW_USERS",
        "LAKEHOUSE_LEDGER_KEY",
        "POSTGRES_PASSWORD",
        "SPARK_AUTH_SECRET",
    }
    # A setting with a literal value must not look like a secret either.
    literal = {
        name: value
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if secret.search(name) and "${" not in value and not value.startswith("/")
    }
    assert literal == {}


def test_the_example_lists_every_variable_and_works_for_none_that_is_required() -> None:
    listed = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE))
    used = {variable["name"]: variable for variable in VARIABLE.finditer(TEXT)}
    assert set(listed) == set(used)
    for name, variable in used.items():
        assert listed[name] == ("" if variable["how"] == ":?" else variable["rest"]), name


def test_everything_published_is_published_on_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_that_stays_has_a_health_check() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"migrate"}
    assert SERVICES["migrate"]["restart"] == "no"


def test_the_store_is_at_one_path_for_drivers_and_executors() -> None:
    mounted = {name: service.get("volumes", []) for name, service in SERVICES.items()}
    assert "store:/lakehouse" in mounted["scheduler"]
    assert "store:/lakehouse" in mounted["spark-worker"]
    assert set(COMPOSE["volumes"]) == {
        source
        for volumes in mounted.values()
        for source in (volume.split(":")[0] for volume in volumes)
        if re.fullmatch(r"[a-z-]+", source)
    }


def test_only_the_tasks_reach_the_ledger_and_its_key() -> None:
    mounting = {name for name, service in SERVICES.items() if "ledger:/ledger" in service.get("volumes", [])}
    keyed = {name for name, service in SERVICES.items() if "LAKEHOUSE_LEDGER_KEY" in json.dumps(service)}
    assert mounting == keyed == {"scheduler"}
    # The scheduler's other needs are those of Airflow's other services.
    scheduler, other = SERVICES["scheduler"], SERVICES["triggerer"]
    assert set(scheduler["volumes"]) - set(other["volumes"]) == {"ledger:/ledger"}
    assert set(other["volumes"]) <= set(scheduler["volumes"])
    connection = "AIRFLOW_CONN_LAKEHOUSE_LEDGER"
    assert {key: value for key, value in scheduler["environment"].items() if key != connection} == other["environment"]
    key = secrets.token_hex(32)
    value = VARIABLE.sub(key, scheduler["environment"][connection])
    assert json.loads(value) == {"conn_type": "lakehouse", "password": key}


def test_the_image_has_the_folders_that_volumes_are_mounted_on() -> None:
    made = " ".join(re.findall(r"install -d .*", (ROOT / "docker/Dockerfile").read_text())).split()
    targets = {volume.split(":")[1] for volume in SERVICES["scheduler"]["volumes"] if re.match(r"[a-z-]+:", volume)}
    assert targets <= set(made)


def test_the_dockerfile_copies_only_what_is_there_and_not_ignored() -> None:
    copies = re.findall(r"^COPY (.+) \S+$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copies for source in line.split()}
    exceptions = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == exceptions
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_airflow_takes_every_command_line(tmp_path: Path) -> None:
    commands = [
        *(service["command"] for service in SERVICES.values() if service.get("command", [""])[0] == "airflow"),
        *(
            service["healthcheck"]["test"][1:]
            for service in SERVICES.values()
            if service.get("healthcheck", {}).get("test", ["", ""])[1] == "airflow"
        ),
    ]
    assert len(commands) == 7
    # Use a separate process, because Airflow configures logging and warnings when it is imported.
    code = (
        "import json, sys; from airflow.cli.cli_parser import get_parser; parser = get_parser(); "
        "[parser.parse_args(command[1:]) for command in json.loads(sys.argv[1])]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
            print(f"{log.name}: {log.read_text()[-2000:]}")  # shown if the test fails


def wait_until(holds: Callable[[], bool], *processes: subprocess.Popen[bytes]) -> None:
    """Wait as long as the processes live. The time depends on the machine, and the test has a timeout."""
    while not holds():
        assert [process.poll() for process in processes] == [None] * len(processes)
        time.sleep(0.2)


def status(address: str) -> dict[str, Any] | None:
    """The JSON at an address, or None without an answer."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            body: dict[str, Any] = json.load(answer)
            return body
    except OSError:
        return None


@pytest.mark.slow
def test_the_spark_cluster_starts_as_written_and_wants_the_secret(tmp_path: Path) -> None:
    ports = {"7077": str(free_port()), "8080": str(free_port()), "8081": str(free_port())}
    here = {**ports, "spark-master": "127.0.0.1", "spark://spark-master:7077": f"spark://127.0.0.1:{ports['7077']}"}

    def command(service: str, *more: str) -> list[str]:
        line = [VARIABLE.sub(lambda variable: variable["rest"], part) for part in SERVICES[service]["command"]]
        line = [here.get(part, part).replace("/tmp/spark-work", str(tmp_path / "work")) for part in line]
        return [str(BIN / line[0]), line[1], *more, *line[2:]]

    def configured(name: str, secret: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        content = COMPOSE["configs"]["spark-defaults"]["content"]
        (folder / "spark-defaults.conf").write_text(VARIABLE.sub(secret, content))
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}

    our_environment = configured("ours", "one")
    foreign_environment = configured("theirs", "another")
    log = tmp_path / "log"
    with ExitStack() as cluster:
        master = cluster.enter_context(running(command("spark-master"), log, our_environment))
        page = f"http://127.0.0.1:{ports['8080']}/json/"
        wait_until(lambda: status(page) is not None, master)
        local = ("--host", "127.0.0.1")
        stranger = command("spark-worker", *local)
        stranger[stranger.index(ports["8081"])] = "0"
        cluster.enter_context(running(stranger, tmp_path / "stranger", foreign_environment))
        worker = cluster.enter_context(running(command("spark-worker", *local), tmp_path / "worker", our_environment))
        wait_until(lambda: status(f"http://127.0.0.1:{ports['8081']}/json/") is not None, master, worker)
        wait_until(lambda: "Failed to connect to master" in (tmp_path / "stranger").read_text(), master)
        wait_until(lambda: (status(page) or {"aliveworkers": 0})["aliveworkers"] > 0, master, worker)
        alive = status(page)
        assert alive is not None
        assert (alive["aliveworkers"], alive["cores"]) == (1, 2)
        assert "6066" not in log.read_text()
