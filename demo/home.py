"""Where the demo keeps everything: one git-ignored folder, and the lock that lets one demo use it at a time."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.errors import DemoError

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Home:
    """The folders and files of one demo, all below `root`."""

    root: Path = REPOSITORY / ".demo"

    @property
    def raw(self) -> Path:
        """The generator's own CSV files, as they were before any fault was put in."""
        return self.root / "raw"

    @property
    def landing(self) -> Path:
        """A folder of landing files a source."""
        return self.root / "landing"

    @property
    def tables(self) -> Path:
        """The Delta tables, the quarantine tables and the report beside them."""
        return self.root / "lakehouse"

    @property
    def ledger(self) -> Path:
        """Plans, decisions and records of erasures; only the tasks write it, and each document has their seal."""
        return self.root / "ledger"

    @property
    def registry(self) -> Path:
        """The registry that the DAGs read, with schemas, suites and the report's SQL beside it."""
        return self.root / "registry" / "lakehouse.json"

    @property
    def faults(self) -> Path:
        """What the injector put where."""
        return self.root / "injected_faults.json"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME of the demo's own Airflow."""
        return self.root / "airflow"

    @property
    def airflow_log(self) -> Path:
        return self.root / "airflow.log"

    @property
    def airflow_state(self) -> Path:
        """Which Airflow runs now: process, port, mark. Absent when none was started."""
        return self.root / "airflow.json"

    @property
    def scratch(self) -> Path:
        """Copies that the checks make."""
        return self.root / "scratch"

    def clear(self) -> None:
        """Removes what the last run left: the names above and nothing else, so a stranger's file here survives."""
        folders = (
            self.raw,
            self.landing,
            self.tables,
            self.ledger,
            self.registry.parent,
            self.airflow,
            self.scratch,
        )
        for folder in folders:
            if folder.is_symlink():
                folder.unlink()
            elif folder.exists():
                shutil.rmtree(folder)
        for file in (self.faults, self.airflow_log, self.airflow_state):
            file.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held while one command works here. The kernel frees it when the process dies, however it dies.

        Raises:
            DemoError: another command holds it.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DemoError(
                    f"Another demo is running in {self.root}", hint="Wait until it ends, or stop it with Ctrl-C there."
                ) from None
            yield
