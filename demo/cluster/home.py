"""The folder of the demo on a cluster: the server's buckets, Postgres's data, and the secrets."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from demo.errors import DemoError
from demo.home import REPOSITORY, Home

BUCKET = "lake"


@dataclass(frozen=True)
class ClusterHome(Home):
    """The folders of a demo whose tables and landing folders are in S3.

    The server keeps each object as a file, so the demo's checks read the tables without this server.
    """

    root: Path = REPOSITORY / ".demo" / "cluster"

    @property
    def buckets(self) -> Path:
        """The folder of the S3 server."""
        return self.root / "buckets"

    @property
    def tables(self) -> Path:
        return self.buckets / BUCKET / "tables"

    @property
    def secrets(self) -> Path:
        """The files that docker/secrets.sh writes."""
        return self.root / "secrets"

    @property
    def postgres(self) -> Path:
        """The data of Postgres, and its configuration."""
        return self.root / "postgres"

    @property
    def ports(self) -> Path:
        """The port of each service."""
        return self.root / "ports.json"

    @property
    def ready(self) -> Path:
        """Exists when all services pass their health checks."""
        return self.root / "ready"

    @property
    def logs(self) -> Path:
        """The output of each service."""
        return self.root / "logs"

    def table_location(self, table: str) -> str:
        return f"s3://{BUCKET}/tables/{table}"

    def landing_location(self, table: str) -> str:
        return f"s3://{BUCKET}/landing/{table}"

    def lay_out(self) -> None:
        """Make the empty folders of a run. The bucket is made by the server.

        Raises:
            DemoError: the path has a character that the settings of the services cannot have.
        """
        if not str(self.root).isascii() or any(character in str(self.root) for character in " \"'|&;:%$\\"):
            raise DemoError(
                f"The folder {self.root} has a space or a special character",
                hint="Clone the repository into a folder without them.",
            )
        self.discard()
        for folder in (self.root, self.buckets, self.logs, self.airflow):
            folder.mkdir(parents=True, exist_ok=True)

    def discard(self) -> None:
        """Delete everything but the lock, which this process holds."""
        self._delete_except({"lock"})

    def discard_but_logs(self) -> None:
        """Delete the data and the secrets, and keep the logs of services and tasks."""
        self._delete_except({"lock", self.logs.name, self.airflow_log.name, self.airflow.name})
        (self.airflow / "passwords.json").unlink(missing_ok=True)

    def _delete_except(self, names: set[str]) -> None:
        for path in self.root.glob("*"):
            if path.name not in names:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
