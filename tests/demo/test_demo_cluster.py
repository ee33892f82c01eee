"""The demo on a cluster has the services of docker-compose.yml, without an address or folder of a container."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from demo import airflow_guard
from demo.cluster import servers, services
from demo.cluster.home import ClusterHome
from demo.cluster.story import check_prerequisites, program
from demo.errors import DemoError
from demo.lakehouse import registry

#: What exists only in containers: names of hosts, and folders of the image.
ONLY_IN_CONTAINERS = re.compile(
    r"//(?:\S*@)?(?:postgres|redis|s3|api-server|spark-master):|/run/secrets|/opt/lakehouse|(?<!\w)/(?:lakehouse|landing|spark-events)\b"
)


@pytest.fixture
def home(tmp_path: Path) -> ClusterHome:
    home = ClusterHome(tmp_path / "cluster")
    home.lay_out()
    home.registry.parent.mkdir()
    program(home)
    return home


def test_every_service_runs_with_its_command_and_settings(home: ClusterHome) -> None:
    inherited = {"PATH": "/usr/bin", "AIRFLOW__CORE__EXECUTOR": "theirs", airflow_guard.MARK: "the mark"}
    processes = services.services(home, inherited)
    described = services.yaml.safe_load(services.COMPOSE.read_text())["services"]
    assert set(services.COUNTS) == set(described)
    assert len(processes) == sum(services.COUNTS.values()) == 14
    for process in processes:
        assert process.environment[airflow_guard.MARK] == "the mark"
        values = {key: value for key, value in process.environment.items() if key != "PATH"}
        texts = [*process.command, *values.values(), *(process.health or [])]
        assert [text for text in texts if ONLY_IN_CONTAINERS.search(text) or "${" in text] == [], process.name
    by_name = {process.name: process for process in processes}
    assert by_name["worker"].environment["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
    assert not any("DATABASE" in key for key in by_name["worker"].environment)
    assert by_name["scheduler-1"].health != by_name["scheduler-2"].health
    assert by_name["spark-worker-1"].command != by_name["spark-worker-2"].command


def test_settings_that_are_commands_give_the_addresses_of_this_machine(home: ClusterHome) -> None:
    ports = json.loads(home.ports.read_text())
    api = next(process for process in services.services(home, os.environ) if process.name == "api-server")

    def value(name: str) -> str:
        command = shlex.split(api.environment[name])
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    password = (home.secrets / "postgres_password").read_text()
    database = f"postgresql+psycopg2://airflow:{password}@127.0.0.1:{ports['postgres']}/airflow"
    assert value("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD") == database
    queue = (home.secrets / "redis_password").read_text()
    assert value("AIRFLOW__CELERY__BROKER_URL_CMD") == f"redis://:{queue}@127.0.0.1:{ports['redis']}/0"
    connections = json.loads((home.secrets / "worker_connections.json").read_text())
    assert connections["lakehouse_s3"]["extra"]["endpoint_url"] == f"http://127.0.0.1:{ports['s3']}"
    assert connections["spark_default"]["host"] == f"spark://127.0.0.1:{ports['master']}"


def test_no_secret_is_in_an_environment_or_a_command(home: ClusterHome) -> None:
    secrets = set(services.secret_values(home))
    assert len(secrets) == 11
    for process in services.services(home, os.environ):
        text = json.dumps([process.command, process.health, process.environment])
        assert not [secret for secret in secrets if secret in text], process.name
    spark = home.root / "spark" / "spark-defaults.conf"
    assert spark.stat().st_mode & 0o077 == 0
    assert (home.secrets / "spark_secret").read_text() in spark.read_text()


def test_tables_and_landing_files_are_in_s3(home: ClusterHome) -> None:
    tables = registry(home)["tables"]
    assert tables["orders"]["uri"] == "s3://lake/tables/orders"
    assert tables["orders"]["source"]["landing"] == "s3://lake/landing/orders"
    assert home.tables == home.buckets / "lake" / "tables"


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "DEBIAN_POSTGRES", tmp_path)
    with pytest.raises(DemoError, match=r"Postgres is missing.*apt install postgresql"):
        servers.postgres_programs()
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    assert servers.postgres_programs() == tmp_path / "17" / "bin"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "redis-server" else name)
    with pytest.raises(DemoError, match=r"redis-server is missing.*apt install redis-server"):
        check_prerequisites(ClusterHome(tmp_path / "cluster"))


def test_root_needs_a_user_for_postgres_who_reaches_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(servers, "POSTGRES_USER", "nobody")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DemoError, match=r"the user nobody cannot reach .*Clone the repository"):
        servers.postgres_user(closed / "clone" / ".demo")
    monkeypatch.setattr(servers, "POSTGRES_USER", "no such user")
    with pytest.raises(DemoError, match=r"the user no such user does not exist.*as another user"):
        servers.postgres_user(closed)


def test_a_folder_that_settings_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="space or a special character"):
        ClusterHome(tmp_path / "a clone").lay_out()


def test_a_run_that_failed_leaves_its_logs_and_no_secret(home: ClusterHome) -> None:
    secrets = set(services.secret_values(home))
    for file in (home.logs / "worker.log", home.airflow_log):
        file.write_text("a line")
    home.discard_but_logs()
    left = [path for path in home.root.rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"worker.log", "airflow.log"}
    assert not [path for path in left if any(secret in path.read_text() for secret in secrets)]


def test_the_files_of_a_run_are_deleted_and_the_lock_is_kept(home: ClusterHome) -> None:
    with home.locked():
        home.discard()
        assert [path.name for path in home.root.iterdir()] == ["lock"]
