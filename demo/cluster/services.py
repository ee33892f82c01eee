"""The services of docker-compose.yml as processes of this machine: their commands, settings and health checks.

Only addresses, ports and folders are replaced. `EXTRA_SETTINGS` has the settings that a small machine needs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demo import airflow_guard
from demo.airflow_process import HOST, free_port, inherited_environment
from demo.cluster.home import ClusterHome
from demo.home import REPOSITORY
from demo.users import ROLES

COMPOSE = REPOSITORY / "docker-compose.yml"
PROGRAMS = REPOSITORY / ".peers" / "bin"
HADOOP_AWS = REPOSITORY / ".peers" / "ivy" / "jars"
#: How often each service runs, in the order of their start. migrate ends by itself.
COUNTS = {
    "postgres": 1,
    "redis": 1,
    "s3": 1,
    "migrate": 1,
    "api-server": 1,
    "scheduler": 2,
    "dag-processor": 1,
    "triggerer": 1,
    "spark-master": 1,
    "spark-worker": 2,
    "spark-history": 1,
    "worker": 1,
}
PORTS = (
    "postgres",
    "redis",
    "s3",
    "api",
    "health-1",
    "health-2",
    "master",
    "master-ui",
    "worker-1",
    "worker-2",
    "history",
)
FIRST_PORT = 18080
HEALTH_SECONDS = 180.0

#: Hadoop's S3 client, and what it needs of Amazon's SDK.
_S3_JARS = ("org.apache.hadoop_hadoop-aws-", "software.amazon.", "org.wildfly.openssl_")

# Two drivers and four executors share two processors. The JVM's second compiler would take a third of the time.
_SPARK_EXTRA = """\
spark.driver.memory 700m
spark.executor.memory 700m
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.log.level WARN
spark.sql.shuffle.partitions 4
"""
EXTRA_SETTINGS = {
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # On two processors, the API server may not answer a task within the default of five seconds.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "SCARF_ANALYTICS": "false",
    "DO_NOT_TRACK": "1",
}
_VALUES = {
    "AIRFLOW_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
    "AIRFLOW_WORKER_TASKS": "2",
    "LAKEHOUSE_REGISTRY_FILE": "lakehouse.json",
    "SPARK_WORKER_MEMORY": "2g",
}
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<rest>[^}]*))?\}")


@dataclass(frozen=True)
class Service:
    """A process of a service; `name` is that of docker-compose.yml, with a number if the service runs twice."""

    name: str
    command: list[str]
    environment: dict[str, str]
    health: list[str] | None
    folder: Path

    def is_healthy(self) -> bool:
        """Whether the health check of docker-compose.yml passes."""
        assert self.health is not None
        try:
            done = subprocess.run(
                self.health,
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=HEALTH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def choose_ports() -> dict[str, int]:
    """A free port for each name of `PORTS`."""
    ports: dict[str, int] = {}
    following = FIRST_PORT
    for name in PORTS:
        ports[name] = following = free_port(following, tries=200)
        following += 1
    return ports


def services(home: ClusterHome, inherited: Mapping[str, str]) -> list[Service]:
    """The processes in the order of their start, on the ports of this home. `inherited` is the caller's environment."""
    ports: dict[str, int] = json.loads(home.ports.read_text())
    described = yaml.safe_load(COMPOSE.read_text())["services"]
    shared = shared_replacements(home, ports)
    processes = []
    for name, count in COUNTS.items():
        for number in range(1, count + 1):
            label = f"{name}-{number}" if count > 1 else name
            replacements = {**shared, **_own_replacements(name, number, home, ports)}
            processes.append(_service(name, label, described[name], replacements, home, ports, inherited))
    return processes


def shared_replacements(home: ClusterHome, ports: Mapping[str, int]) -> dict[str, str]:
    """What replaces the addresses and folders of the containers, in every text."""
    return {
        "postgres:5432": f"{HOST}:{ports['postgres']}",
        "redis:6379": f"{HOST}:{ports['redis']}",
        "http://s3:7070": f"http://{HOST}:{ports['s3']}",
        "http://api-server:8080": f"http://{HOST}:{ports['api']}",
        "http://localhost:8080": f"http://{HOST}:{ports['api']}",
        "spark-master:7077": f"{HOST}:{ports['master']}",
        "/run/secrets": str(home.secrets),
        "/opt/lakehouse/dags": str(REPOSITORY / "dags"),
        "/opt/lakehouse/registry": str(home.registry.parent),
        "/opt/lakehouse/users": str(home.airflow),
        "file:///spark-events": f"file://{home.root / 'spark-events'}",
    }


def _own_replacements(name: str, number: int, home: ClusterHome, ports: Mapping[str, int]) -> dict[str, str]:
    own = {
        "redis": {"--port 6379": f"--bind {HOST} --port {ports['redis']}", "-p 6379": f"-p {ports['redis']}"},
        "s3": {
            "0.0.0.0:7070": f"{HOST}:{ports['s3']}",
            "127.0.0.1:7070": f"{HOST}:{ports['s3']}",
            "/buckets": str(home.buckets),
        },
        "api-server": {"0.0.0.0": HOST, "8080": str(ports["api"])},  # noqa: S104 - what is replaced
        "scheduler": {"8974": str(ports.get(f"health-{number}", 0))},
        "spark-master": {"spark-master": HOST, "7077": str(ports["master"]), "8080": str(ports["master-ui"])},
        "spark-worker": {
            "8081": str(ports.get(f"worker-{number}", 0)),
            "/tmp/spark-work": str(home.root / "spark-work" / str(number)),  # noqa: S108 - what is replaced
        },
        "spark-history": {"18080": str(ports["history"])},
    }
    return own.get(name, {})


def _service(
    name: str,
    label: str,
    described: Mapping[str, Any],
    replacements: Mapping[str, str],
    home: ClusterHome,
    ports: Mapping[str, int],
    inherited: Mapping[str, str],
) -> Service:
    def local(text: str) -> str:
        text = _VARIABLE.sub(lambda variable: _VALUES.get(variable["name"], variable["rest"] or ""), text).replace(
            "$$", "$"
        )
        # In one pass, so that no replacement is replaced again.
        pattern = "|".join(re.escape(key) for key in sorted(replacements, key=len, reverse=True))
        return re.sub(pattern, lambda match: replacements[match[0]], text)

    environment = {
        **_machine(label, home, ports, inherited),
        **EXTRA_SETTINGS,
        **{key: local(value) for key, value in described.get("environment", {}).items()},
    }
    if name == "scheduler":
        environment["AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT"] = local("8974")
    command = [local(part) for part in described.get("command", [])]
    if name == "spark-worker":
        command[2:2] = ["--host", HOST]
    health = described.get("healthcheck", {}).get("test")
    check = None
    if health is not None:
        kind, *words = (local(part) for part in health)
        check = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
    folder = home.root / "run" / label
    return Service(label, command, environment, check, folder)


def _machine(label: str, home: ClusterHome, ports: Mapping[str, int], inherited: Mapping[str, str]) -> dict[str, str]:
    """What the image and the container give a service."""
    environment = inherited_environment(inherited)
    folders = (Path(sys.executable).parent, PROGRAMS, environment["PATH"])
    mark = {name: value for name, value in inherited.items() if name == airflow_guard.MARK}
    return environment | {
        **mark,
        "PATH": os.pathsep.join(str(folder) for folder in folders),
        # Each service has its own folder, as in a container. Only the logs of tasks are shared.
        "AIRFLOW_HOME": str(home.root / "run" / label),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home.airflow / "logs"),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(home.root / "spark"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(home.root / "spark-scratch"),
        "PGHOST": HOST,
        "PGPORT": str(ports["postgres"]),
    }


def spark_defaults(home: ClusterHome, text: str) -> str:
    """spark-defaults.conf as docker/secrets.sh wrote it, with this machine's folders, sizes and jars."""
    ports: dict[str, int] = json.loads(home.ports.read_text())
    for container, here in shared_replacements(home, ports).items():
        text = text.replace(container, here)
    jars = ":".join(str(jar) for jar in s3_jars())
    return (
        f"{text}{_SPARK_EXTRA}spark.history.ui.port {ports['history']}\n"
        f"spark.driver.extraClassPath {jars}\nspark.executor.extraClassPath {jars}\n"
    )


def s3_jars() -> list[Path]:
    """The jars of Hadoop's S3 client, which the image has in Spark's folder."""
    return sorted(jar for jar in HADOOP_AWS.glob("*.jar") if jar.name.startswith(_S3_JARS))


def secret_values(home: ClusterHome) -> Iterator[str]:
    """Every secret of the services and every password of a user."""
    for file in home.secrets.iterdir():
        if file.suffix not in (".json", ".conf"):
            yield file.read_text().strip()
    yield from json.loads((home.airflow / "passwords.json").read_text()).values()
