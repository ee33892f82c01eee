"""The demo's acts on the cluster, with checks of what only a cluster has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import boto3
import deltalake
import psutil

from demo import airflow_process, readers
from demo.airflow_process import HOST, Program
from demo.checks import Check
from demo.cluster import services
from demo.cluster.home import BUCKET, ClusterHome
from demo.cluster.servers import START_SECONDS, postgres_programs, postgres_user
from demo.errors import DemoError
from demo.home import REPOSITORY, Home
from demo.lakehouse import COLUMNS
from demo.story import Story

GRACE_SECONDS = 240.0
LOOK_SECONDS = 0.5


def check_prerequisites(home: ClusterHome) -> None:
    """Check that this machine has the programs of the services.

    Raises:
        DemoError: a program is missing; the hint says how to install it.
    """
    postgres_programs()
    home.root.mkdir(parents=True, exist_ok=True)
    postgres_user(home.root)
    for name, package in (
        ("pg_isready", "postgresql-client"),
        ("redis-server", "redis-server"),
        ("redis-cli", "redis-tools"),
        ("curl", "curl"),
    ):
        if shutil.which(name) is None:
            raise DemoError(f"{name} is missing", hint=f"Install it: apt install {package}")
    if not (services.PROGRAMS / "versitygw").exists() or not services.s3_jars():
        raise DemoError("The S3 server or Hadoop's S3 client is missing", hint="Run `make demo-cluster`.")


def program(home: Home) -> Program:
    """The services of docker-compose.yml on free ports, with new secrets."""
    assert isinstance(home, ClusterHome)
    home.ports.write_text(json.dumps(services.choose_ports()))
    ports: dict[str, int] = json.loads(home.ports.read_text())
    subprocess.run(["sh", REPOSITORY / "docker" / "secrets.sh", home.secrets], check=True)
    for name in ("connections.json", "worker_connections.json"):
        text = (home.secrets / name).read_text()
        for container, here in services.shared_replacements(home, ports).items():
            text = text.replace(container, here)
        (home.secrets / name).write_text(text)
    airflow_process.write_private(home.airflow / "passwords.json", json.dumps(airflow_process.new_passwords()))
    for folder in ("spark", "spark-events", "spark-scratch"):
        (home.root / folder).mkdir()
    written = (home.secrets / "spark-defaults.conf").read_text()
    airflow_process.write_private(home.root / "spark" / "spark-defaults.conf", services.spark_defaults(home, written))
    environment = airflow_process.inherited_environment(os.environ) | {"PYTHONPATH": str(REPOSITORY)}
    return Program(
        [sys.executable, "-m", "demo.cluster.servers", str(home.root)],
        environment,
        ports["api"],
        start_seconds=1.5 * START_SECONDS,
        grace_seconds=GRACE_SECONDS,
        is_ready=home.ready.exists,
    )


@dataclass
class ClusterStory(Story):
    """The demo on Postgres, two schedulers, a Celery worker, a Spark cluster and an S3 server."""

    home: ClusterHome
    program_of: ClassVar = staticmethod(program)
    patience: ClassVar[float] = 4.0
    _exposed: set[str] = field(default_factory=set)
    _looks: int = 0

    def run(self) -> bool:
        with self._watched():
            return super().run()

    def _deliver(self) -> None:
        options = self._options()
        client = boto3.client(
            "s3",
            endpoint_url=options["aws_endpoint_url"],
            region_name=options["aws_region"],
            aws_access_key_id=options["aws_access_key_id"],
            aws_secret_access_key=options["aws_secret_access_key"],
        )
        client.create_bucket(Bucket=BUCKET)
        files = sorted(self.home.landing.glob("*/*.csv"))
        for file in files:
            client.upload_file(str(file), BUCKET, f"landing/{file.parent.name}/{file.name}")
        client.close()
        self.progress.line("done", f"uploaded {len(files)} landing files to s3://{BUCKET}/landing")

    def _inspect(self) -> None:
        self.progress.act("5b. Looking at the cluster")
        self._check(self._all_healthy)
        self._check(self._same_rows_in_s3)
        self._check(self._jobs_ran_on_the_cluster)
        self._check(self._no_secret_exposed)

    def _all_healthy(self) -> Check:
        every = [service for service in services.services(self.home, os.environ) if service.health is not None]
        ill = [f"{service.name} does not pass its health check" for service in every if not service.is_healthy()]
        return Check(f"{len(every)} processes pass the health checks of docker-compose.yml", tuple(ill))

    def _same_rows_in_s3(self) -> Check:
        problems = []
        with readers.connect() as connection:
            for table in COLUMNS:
                at_server = deltalake.DeltaTable(self.home.table_location(table), storage_options=self._options())
                rows = readers.of_arrow(connection, at_server.to_pyarrow_table())
                expected = readers.delta_rs(connection, self.home.tables / table, at_server.version())
                if rows != expected:
                    problems.append(f"{table}: {rows.rows:,} rows from the server, {expected.rows:,} in its folder")
        return Check("delta-rs reads the same rows from the S3 server as from the server's folder", tuple(problems))

    def _jobs_ran_on_the_cluster(self) -> Check:
        master = self._answer_of("master-ui", "/json/")
        ended = [app for app in master["completedapps"] if app["state"] == "FINISHED"]
        history = self._answer_of("history", "/api/v1/applications")
        problems = []
        if master["aliveworkers"] != services.COUNTS["spark-worker"]:
            problems.append(f"{master['aliveworkers']} Spark workers are alive")
        if not ended:
            problems.append("no Spark application ended well")
        if missing := {app["id"] for app in ended} - {app["id"] for app in history}:
            problems.append(f"the history server does not list {', '.join(sorted(missing))}")
        return Check(f"{len(ended)} jobs ran on two Spark workers, and the history server lists them", tuple(problems))

    def _no_secret_exposed(self) -> Check:
        return Check(f"no command line had a secret, in {self._looks} looks at all processes", tuple(self._exposed))

    def _answer_of(self, port: str, path: str) -> Any:
        url = f"http://{HOST}:{json.loads(self.home.ports.read_text())[port]}{path}"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
            return json.load(answer)

    def _options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": "lakehouse",
            "aws_secret_access_key": (self.home.secrets / "s3_secret_key").read_text().strip(),
            "aws_endpoint_url": f"http://{HOST}:{json.loads(self.home.ports.read_text())['s3']}",
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
        }

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Look at the command lines of all processes until the block ends."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(LOOK_SECONDS):
            if not self.home.ready.exists():
                continue
            secrets = set(services.secret_values(self.home))
            self._looks += 1
            for process in psutil.process_iter(["name", "cmdline"]):
                line = " ".join(process.info["cmdline"] or ())
                if any(secret in line for secret in secrets):
                    self._exposed.add(f"the command line of {process.info['name']} has a secret")
