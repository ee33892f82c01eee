"""The folder of the demo, which git ignores, and the lock that permits one command at a time to use it."""

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
        """The generator's CSV files, without faults."""
        return self.root / "raw"

    @property
    def landing(self) -> Path:
        """The landing folders, one for each source."""
        return self.root / "landing"

    @property
    def tables(self) -> Path:
        """The Delta tables, the quarantine tables and the report."""
        return self.root / "lakehouse"

    @property
    def ledger(self) -> Path:
        """Plans, decisions and records of erasures, which only tasks write, with a seal on each document."""
        return self.root / "ledger"

    @property
    def records(self) -> Path:
        """The platform's own tables: the record of maintenance runs."""
        return self.root / "records"

    @property
    def registry(self) -> Path:
        """The registry's file, in a folder with schemas, suites and the report's SQL."""
        return self.root / "registry" / "lakehouse.json"

    @property
    def faults(self) -> Path:
        """The list of injected faults."""
        return self.root / "injected_faults.json"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME of the demo's Airflow."""
        return self.root / "airflow"

    @property
    def airflow_log(self) -> Path:
        return self.root / "airflow.log"

    @property
    def airflow_state(self) -> Path:
        """The running Airflow's process, port and mark; missing if none was started."""
        return self.root / "airflow.json"

    @property
    def scratch(self) -> Path:
        """Copies of tables, which the checks make."""
        return self.root / "scratch"

    def table_location(self, table: str) -> str:
        """The table's location in the registry."""
        return str(self.tables / table)

    def landing_location(self, table: str) -> str:
        """The location of the table's landing folder in the registry."""
        return str(self.landing / table)

    def lay_out(self) -> None:
        """Delete the files of the last run, and make the empty folders of the next one."""
        self.clear()
        self.tables.mkdir(parents=True)

    def clear(self) -> None:
        """Delete the files of the last run, by the names above only; other files in the folder stay."""
        folders = (
            self.raw,
            self.landing,
            self.tables,
            self.ledger,
            self.records,
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
        """Hold the lock during the block. The kernel releases it when the process ends, even if it is killed.

        Raises:
            DemoError: another command holds the lock.
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
