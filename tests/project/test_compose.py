"""docker-compose.yml compared with the compose specification, and its command lines with the real programs.

The tests have no Docker engine; docs/compose.md says what is not tested without it.
"""

import json
import os
import re
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

from tests.s3.spark_session import HADOOP

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TEXT = (ROOT / "docker-compose.yml").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<how>:[-?])?(?P<rest>[^}]*)\}")


def test_the_file_is_valid_by_the_compose_specification() -> None:
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
    assert set(SERVICES) - set(our_services) == {"postgres", "redis", "s3"}
    assert len({service["image"] for service in our_services.values()}) == 1
    assert [name for name, service in our_services.items() if "build" in service] == ["migrate"]
    policies = {name: service["pull_policy"] for name, service in our_services.items()}
    assert policies.pop("migrate") == "build"
    assert set(policies.values()) == {"never"}


def test_every_variable_has_a_default_or_an_error_message() -> None:
    for variable in VARIABLE.finditer(TEXT):
        assert variable["how"] in (":-", ":?"), variable[0]
        assert variable["rest"], variable[0]


def test_the_example_lists_every_variable_and_no_value_of_required_ones() -> None:
    listed = dict(re.findall(r"^#?([A-Z_0-9]+)=(.*)$", EXAMPLE, re.MULTILINE))
    used = {variable["name"]: variable for variable in VARIABLE.finditer(TEXT)}
    assert set(listed) == set(used)
    for name, variable in used.items():
        assert listed[name] == ("" if variable["how"] == ":?" else variable["rest"]), name


def test_secrets_are_files_that_only_their_services_have() -> None:
    # No environment or command line has a secret: settings that look like one are commands that read a file.
    secret = re.compile(r"PASSWORD|SECRET|_KEY|CONN|BROKER|BACKEND")
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            is_place = key.endswith(("_CMD", "_FILE", "BACKEND")) or "/run/secrets/" in value
            assert is_place or not secret.search(key), (name, key)
    holders: dict[str, set[str]] = {secret_name: set() for secret_name in COMPOSE["secrets"]}
    for name, service in SERVICES.items():
        for entry in service.get("secrets", []):
            holders[entry["source"] if isinstance(entry, dict) else entry].add(name)
    airflow = {"migrate", "api-server", "scheduler", "dag-processor", "triggerer"}
    assert holders == {
        "postgres_password": {"postgres", *airflow},
        "redis_password": {"redis", "worker", *airflow},
        "fernet_key": airflow,
        "jwt_secret": airflow,
        "connections.json": airflow,
        "api_secret_key": {"api-server"},
        "s3_secret_key": {"s3"},
        "worker_connections.json": {"worker"},
        "spark-defaults.conf": {"worker", "spark-master", "spark-worker", "spark-history"},
    }
    # Each file that a service reads is one that it has.
    for name, service in SERVICES.items():
        files = set(re.findall(r"/run/secrets/([\w.]+)", json.dumps(service)))
        assert files <= {secret_name for secret_name, who in holders.items() if name in who}, name


def test_the_script_writes_every_secret_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"

    def write() -> dict[str, str]:
        subprocess.run(["sh", ROOT / "docker/secrets.sh", folder], check=True, timeout=30)
        return {file.name: file.read_text() for file in folder.iterdir()}

    files = write()
    assert {Path(entry["file"]).name for entry in COMPOSE["secrets"].values()} <= set(files)
    assert folder.stat().st_mode & 0o077 == 0
    random = [text.strip() for name, text in files.items() if not name.endswith((".json", ".conf"))]
    assert len(set(random)) == len(random)
    assert min(len(text) for text in random) >= 44
    assert len(files["jwt_secret"]) == 128  # HMAC-SHA-512 needs 64 bytes
    tasks, pages = json.loads(files["worker_connections.json"]), json.loads(files["connections.json"])
    assert set(tasks) == {"lakehouse_default", "lakehouse_s3", "lakehouse_ledger", "spark_default"}
    assert set(pages) == {"lakehouse_default", "lakehouse_s3"}
    assert pages["lakehouse_s3"]["password"] == files["s3_secret_key"].strip()
    assert files["spark-defaults.conf"].count("spark.authenticate.secret ") == 1
    (folder / "redis_password").unlink()
    again = write()
    assert {name for name in files if files[name] != again[name]} == {"redis_password"}


def test_ports_are_published_on_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_permanent_service_has_a_health_check() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"migrate"}
    assert SERVICES["migrate"]["restart"] == "no"


def volumes_of(name: str) -> set[str]:
    """The targets of a service's volumes."""
    volumes = SERVICES[name].get("volumes", [])
    return {volume["target"] if isinstance(volume, dict) else volume.split(":")[1] for volume in volumes}


def test_tables_and_landing_files_are_at_one_path_for_drivers_and_executors() -> None:
    assert {"/lakehouse", "/landing"} <= volumes_of("worker") & volumes_of("spark-worker")
    assert "/spark-events" in volumes_of("worker") & volumes_of("spark-history")
    named = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if isinstance(volume, str)
    }
    assert set(COMPOSE["volumes"]) == named


def test_a_missing_folder_of_this_machine_is_not_created() -> None:
    binds = [
        volume for service in SERVICES.values() for volume in service.get("volumes", []) if isinstance(volume, dict)
    ]
    assert binds
    for bind in binds:
        assert bind["read_only"] is True
        assert bind["bind"] == {"create_host_path": False}


def test_tasks_run_in_the_worker_which_has_the_ledger_and_no_database() -> None:
    assert {name for name in SERVICES if "/ledger" in volumes_of(name)} == {"worker"}
    assert "DATABASE" not in json.dumps(SERVICES["worker"])
    assert SERVICES["api-server"]["environment"]["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
    # Stopping waits for tasks: Docker's default is ten seconds.
    assert SERVICES["worker"]["stop_grace_period"] == "1h"


def test_the_image_has_the_folders_that_volumes_are_mounted_on() -> None:
    image = (ROOT / "docker/Dockerfile").read_text() + (ROOT / "docker/s3.Dockerfile").read_text()
    made = " ".join(re.findall(r"install -d .*", image)).split()
    named = {
        volume.split(":")[1]
        for name, service in SERVICES.items()
        for volume in service.get("volumes", [])
        if isinstance(volume, str) and name != "postgres"
    }
    assert named <= set(made)


def test_the_dockerfile_copies_only_existing_tracked_files() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copies for source in line.split()}
    exceptions = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == exceptions
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_s3_server_and_the_client_have_the_versions_that_are_tested() -> None:
    makefile = (ROOT / "Makefile").read_text()
    server = re.search(r"^s3_server_version := (\S+)$", makefile, re.MULTILINE)
    client = re.search(r"^hadoop_aws := (\S+)$", makefile, re.MULTILINE)
    assert server is not None
    assert client is not None
    assert f"versitygw@{server[1]}\n" in (ROOT / "docker/s3.Dockerfile").read_text()
    assert SERVICES["s3"]["image"] == f"lakehouse-s3:{server[1].removeprefix('v')}"
    assert client[1] == HADOOP
    assert f"# {client[1]} for loads" in EXAMPLE


@pytest.mark.slow
def test_airflow_parses_every_command_line(tmp_path: Path) -> None:
    commands = [
        *(service["command"] for service in SERVICES.values() if service.get("command", [""])[0] == "airflow"),
        *(
            service["healthcheck"]["test"][1:]
            for service in SERVICES.values()
            if service.get("healthcheck", {}).get("test", ["", ""])[1] == "airflow"
        ),
    ]
    assert len(commands) == 8
    # Use a separate process, because Airflow configures logging and warnings when it is imported.
    code = (
        "import json, sys; from airflow.cli.cli_parser import get_parser; parser = get_parser(); "
        "[parser.parse_args(command[1:]) for command in json.loads(sys.argv[1])]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"},
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
    """The JSON at an address; None: it does not answer, or Spark has not yet added this page to the others."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            body: dict[str, Any] = json.load(answer)
            return body
    except (OSError, json.JSONDecodeError):
        return None


@pytest.mark.slow
def test_the_spark_cluster_starts_as_written_and_requires_the_secret(tmp_path: Path) -> None:
    ports = {"7077": str(free_port()), "8080": str(free_port()), "8081": str(free_port())}
    here = {**ports, "spark-master": "127.0.0.1", "spark://spark-master:7077": f"spark://127.0.0.1:{ports['7077']}"}

    def command(service: str, *more: str) -> list[str]:
        line = [VARIABLE.sub(lambda variable: variable["rest"], part) for part in SERVICES[service]["command"]]
        line = [here.get(part, part).replace("/tmp/spark-work", str(tmp_path / "work")) for part in line]
        return [str(BIN / line[0]), line[1], *more, *line[2:]]

    def configured(name: str, secret: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        content = (ROOT / "docker/spark-defaults.conf").read_text()
        (folder / "spark-defaults.conf").write_text(f"{content}spark.authenticate.secret {secret}\n")
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
