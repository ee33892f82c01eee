"""Writers of several libraries, one process each, write to one table at random; then the log is compared with them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib.log import latest_version
from lakehouse_lib.store import open_store
from lakehouse_lib.table.delta_table import DeltaTable
from tests.commit_ledger import Reader, Records, Verdict, judge, read_ledgers
from tests.commit_operations import SCHEMA
from tests.faults.processes import context
from tests.faults.writer import work as our_work
from tests.interop.commits.writers import work as delta_rs
from tests.peers import read_delta_rs
from tests.s3.server import Versity

PEER = Path(__file__).resolve().parents[3] / ".peers" / "delta-spark" / "bin" / "python"
_PATIENCE = 600.0  # seconds; on a busy machine a Spark session takes minutes to start

#: How many seconds, at most, the other writers wait between operations if delta-spark writes too. Its commits take a
#: second, theirs some hundredths, so it would lose every race.
_PAUSE = 2.0

#: The first number of each library's writers.
_FIRST = {"ours": 0, "delta-rs": 100, "delta-spark": 200}
#: delta-spark's writers. On a local disk a commit of delta-spark looks for the file of its version and then calls
#: rename, which replaces a file that another writer has put meanwhile.
_REPLACING = range(200, 300)
_WORK: dict[str, Callable[..., None]] = {"ours": our_work, "delta-rs": delta_rs}


@dataclass
class Interleaved:
    """The result of a run.

    Attributes:
        commits: the number of commits of each library that its writers have recorded.
        records: the ledgers of all writers.
    """

    commits: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    records: Records = field(default_factory=Records)
    verdict: Verdict = field(default_factory=Verdict)


def interleave(
    folder: Path,
    writers: dict[str, int],
    *,
    commits: int,
    seconds: float = 600.0,
    seed: int = 0,
    versions: int = 5,
    server: Versity | None = None,
) -> Interleaved:
    """Write until there are so many commits or the ``seconds`` are over.

    Each library makes at least a tenth of the commits, with delta-spark a fiftieth. If delta-spark has written, it is
    one of the readers.

    Args:
        folder: an empty folder for the ledgers. The table is ``table`` in it, or a folder of the same name on the
            server.
        writers: number of processes of each library.
        versions: number of versions that all readers read in the end.
        server: the server whose bucket "bucket" has the table; None: the local disk.

    Raises:
        AssertionError: a writer failed.
    """
    stop = folder / "stop"
    table: Path | str = folder / "table" if server is None else f"s3://bucket/{folder.name}"
    options = None if server is None else server.options
    DeltaTable.create(table, SCHEMA, storage_options=options)
    store = open_store(table, options)
    beside_spark = "delta-spark" in writers
    pause = _PAUSE if beside_spark else 0.0
    least = commits // (50 if beside_spark else 10)
    crew = {
        number: _start(library, table, folder / f"{number}.ledger", stop, number, seed, options, pause)
        for library, count in writers.items()
        for number in range(_FIRST[library], _FIRST[library] + count)
    }
    begun = time.monotonic()
    try:
        # A Spark session starts slowly, so the clock starts when every writer has begun.
        while any(not (folder / f"{number}.ledger").exists() for number in crew):
            assert time.monotonic() - begun < _PATIENCE, "a writer does not begin"
            time.sleep(0.05)
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            if (latest_version(store) or 0) >= commits and min(_shares(folder, writers).values()) >= least:
                break
            for number, process in crew.items():
                assert process.running(), f"writer {number} ended before its time"
            time.sleep(0.05 if server is None else 0.5)
        took = time.monotonic() - begun
        stop.touch()
        for number, process in crew.items():
            assert process.ended(_PATIENCE) == 0, f"writer {number} failed"
    finally:
        for process in crew.values():
            process.kill()
    ledgers = sorted(folder.glob("*.ledger"))
    stored = folder / "table" if server is None else server.objects / "bucket" / folder.name
    with _delta_spark(stored, folder / "reader.log") if beside_spark else nullcontext({}) as readers:
        if options is not None:
            readers = _through_the_server(str(table), options)
        verdict = judge(stored, ledgers, versions=versions, seed=seed, readers=readers, replacing=_REPLACING)
    return Interleaved(_shares(folder, writers), took, read_ledgers(ledgers), verdict)


def _through_the_server(location: str, options: dict[str, str]) -> dict[str, Reader]:
    """Readers that use the server. The others, DuckDB among them, read the folder of its objects."""
    return {
        "in S3 we read": lambda version: DeltaTable(location, version, options).to_pyarrow_table(),
        "in S3 delta-rs reads": lambda version: read_delta_rs(location, version, options),
    }


@contextmanager
def _delta_spark(table: Path, log: Path) -> Iterator[dict[str, Reader]]:
    """delta-spark in a separate process."""
    script = Path(__file__).with_name("delta_spark_reader.py")
    with (
        log.open("wb") as noise,
        subprocess.Popen(
            [str(PEER), str(script), str(table)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def read(version: int) -> pa.Table:
            process.stdin.write(f"{version}\n")
            process.stdin.flush()
            # Spark prints messages about its jars to the same stream.
            answer = next((line for line in process.stdout if line.startswith('{"version"')), None)
            assert answer is not None, f"delta-spark ended; {log} says why"
            rows = json.loads(answer)["rows"]
            return pa.table({"id": [row[0] for row in rows], "slot": [row[1] for row in rows]})

        try:
            yield {"delta-spark reads": read}
            process.stdin.close()
        finally:
            process.kill()


def _shares(folder: Path, writers: dict[str, int]) -> dict[str, int]:
    """The number of commits that the writers of each library have recorded."""
    return {
        library: sum(
            (folder / f"{number}.ledger").read_bytes().count(b'{"done"')
            for number in range(_FIRST[library], _FIRST[library] + count)
        )
        for library, count in writers.items()
    }


class _Writer:
    """A process of a writer of any library."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def running(self) -> bool:
        return self._code() is None

    def ended(self, seconds: float) -> int | None:
        if isinstance(self._process, subprocess.Popen):
            return self._process.wait(seconds)
        self._process.join(seconds)
        return self._code()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait() if isinstance(self._process, subprocess.Popen) else self._process.join()

    def _code(self) -> int | None:
        return self._process.poll() if isinstance(self._process, subprocess.Popen) else self._process.exitcode


def _start(
    library: str,
    table: Path | str,
    ledger: Path,
    stop: Path,
    number: int,
    seed: int,
    options: dict[str, str] | None,
    pause: float,
) -> _Writer:
    if library == "delta-spark":
        script = Path(__file__).with_name("delta_spark_writer.py")
        arguments = [str(argument) for argument in (table, ledger, stop, number, seed)]
        with ledger.with_suffix(".log").open("wb") as log:
            return _Writer(subprocess.Popen([str(PEER), str(script), *arguments], stdout=log, stderr=log))
    process = context().Process(
        target=_WORK[library],
        args=(table, ledger, stop, number, seed),
        kwargs={"options": options, "pause": pause},
        daemon=True,
    )
    process.start()
    return _Writer(process)
