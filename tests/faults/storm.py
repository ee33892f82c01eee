"""Many processes write to one table and are killed with ``kill -9``.

They are killed from outside at any moment, or kill themselves before a step on the disk. Dead processes are replaced.
Then the ledgers, the log and all readers are compared.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

from lakehouse_lib.log import latest_version
from lakehouse_lib.store import open_store
from lakehouse_lib.table.delta_table import DeltaTable
from tests.commit_ledger import Verdict, judge
from tests.commit_operations import SCHEMA
from tests.faults.processes import context
from tests.faults.writer import work

_PATIENCE = 120.0  # seconds without a new commit, or for the last operations


@dataclass
class Storm:
    """The result of a storm.

    Attributes:
        killed: processes that were killed with ``kill -9`` from outside.
        died: processes that killed themselves before a step.
        verdict: the comparison of the ledgers, the log and the readers.
    """

    killed: int = 0
    died: int = 0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)


class Place(NamedTuple):
    """The location of a table.

    Attributes:
        location: the table's location.
        objects: the local folder in which its objects are files.
        options: storage options; None: a disk.
    """

    location: str
    objects: Path
    options: dict[str, str] | None = None


def storm(
    folder: Path,
    *,
    commits: int,
    kills: int,
    processes: int = 16,
    seed: int = 0,
    versions: int = 5,
    place: Place | None = None,
    sabotage: Callable[[], None] | None = None,
    report: Callable[[int, int], None] = lambda commits, kills: None,
) -> Storm:
    """Write at least so many commits while at least so many processes are killed, then compare.

    Args:
        folder: an empty folder; the table is ``table`` in it, next to the ledgers.
        versions: the number of versions that all readers read in the end.
        place: the table's location, if it is elsewhere.
        sabotage: see ``writer.work``.
        report: called with the progress about every second.

    Raises:
        AssertionError: a writer failed, or there was no progress.
    """
    place = place or Place(str(folder / "table"), folder / "table")
    crew = _Crew(folder, place, random.Random(seed), seed, sabotage)
    begun = time.monotonic()
    DeltaTable.create(place.location, SCHEMA, storage_options=place.options)
    store = open_store(place.location, place.options)
    moved, before, heard = begun, 0, begun
    try:
        for _ in range(processes):
            crew.hire()
        while before < commits or crew.killed + crew.died < kills:
            time.sleep(crew.chance.uniform(0, 0.2))
            crew.replace_dead()
            latest = latest_version(store) or 0
            now = time.monotonic()
            moved, before = (now, latest) if latest > before else (moved, before)
            assert now - moved < _PATIENCE, f"no commit for {_PATIENCE:.0f} s at version {latest}"
            # Spread the kills over the run.
            if crew.killed < kills * min(1.0, (latest + 1) / commits) / 2 or latest >= commits:
                crew.kill_one()
            if now - heard > 1:
                report(latest, crew.killed + crew.died)
                heard = now
        crew.finish()
    finally:
        crew.disband()
    return Storm(
        crew.killed,
        crew.died,
        time.monotonic() - begun,
        judge(place.objects, sorted(folder.glob("*.ledger")), versions=versions, seed=seed),
    )


class _Crew:
    """The processes that write."""

    def __init__(
        self, folder: Path, place: Place, chance: random.Random, seed: int, sabotage: Callable[[], None] | None
    ) -> None:
        self.chance = chance
        self._place = place
        self.killed = self.died = 0
        self._folder = folder
        self._stop = folder / "stop"
        self._seed = seed
        self._sabotage = sabotage
        self._hired = 0
        self._working: list[tuple[ForkServerProcess, bool]] = []

    def hire(self) -> None:
        number = self._hired
        self._hired += 1
        # Every other process kills itself at a step, if its steps can be counted; an append takes about twenty.
        dies_at = self.chance.randrange(10, 150) if number % 2 and self._place.options is None else None
        process = context().Process(
            target=work,
            args=(self._place.location, self._folder / f"{number}.ledger", self._stop, number, self._seed),
            kwargs={"options": self._place.options, "dies_at": dies_at, "sabotage": self._sabotage},
            daemon=True,
        )
        process.start()
        self._working.append((process, dies_at is not None))

    def replace_dead(self) -> None:
        for process, dies in [worker for worker in self._working if worker[0].exitcode is not None]:
            self._working.remove((process, dies))
            self._count(process, dies)
            self.hire()

    def kill_one(self) -> None:
        process, dies = self.chance.choice(self._working)
        process.kill()
        process.join()
        self._working.remove((process, dies))
        self.killed += 1
        self.hire()

    def finish(self) -> None:
        """Let every process finish its operation."""
        self._stop.touch()
        for process, dies in self._working:
            process.join(_PATIENCE)
            assert process.exitcode is not None, f"a writer does not end; {process}"
            self._count(process, dies)
        self._working = []

    def disband(self) -> None:
        for process, _ in self._working:
            process.kill()
            process.join()

    def _count(self, process: ForkServerProcess, dies: bool) -> None:
        if process.exitcode == 0 and self._stop.exists():
            return
        assert process.exitcode == -signal.SIGKILL, f"a writer failed with exit code {process.exitcode}"
        assert dies, "a writer was killed by somebody else"
        self.died += 1
