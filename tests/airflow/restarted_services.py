"""Run Airflow's services, and start each again when it ends or is not healthy, as Kubernetes does.

With the LocalExecutor, a scheduler that an error has stopped may wait forever for one of its worker processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
_START_SECONDS = 60.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Service:
    """A running service; it is the leader of a process group."""

    name: str
    process: subprocess.Popen[bytes] = field(init=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        print(f"starting {self.name}", flush=True)
        self.process = subprocess.Popen(["airflow", self.name], start_new_session=True)
        self.started = time.monotonic()

    def restart_if_ill(self, health: dict[str, Any]) -> None:
        """Start the service again if it has ended, or if Airflow says that it is not healthy."""
        state = health.get(self.name.replace("-", "_"), {}).get("status")
        is_ill = state == "unhealthy" and time.monotonic() - self.started > _START_SECONDS
        if is_ill:
            os.killpg(self.process.pid, signal.SIGKILL)
        if is_ill or self.process.poll() is not None:
            self.process.wait()
            self.start()


def health() -> dict[str, Any]:
    """The state of each service; empty if the API server or the database does not answer."""
    with suppress(OSError, ValueError):
        url = f"{os.environ['AIRFLOW__API__BASE_URL']}/api/v2/monitor/health"
        with _OPENER.open(url, timeout=10) as answer:
            states: dict[str, Any] = json.load(answer)
            return states if states["metadatabase"]["status"] == "healthy" else {}
    return {}


def main() -> None:
    subprocess.run(["airflow", "db", "migrate"], check=True)
    services = [Service(name) for name in SERVICES]
    while True:
        states = health()
        for service in services:
            service.restart_if_ill(states)
        time.sleep(1)


if __name__ == "__main__":
    main()
