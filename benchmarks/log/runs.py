"""A process that opens a table, answers a question about it, and measures its time.

``python -m benchmarks.log.runs CONTESTANT QUESTION TABLE [CONDITION ...]`` prints two lines of JSON. The first one,
``{"seconds", "cpu", "imports", "opened", "peak_mb"}``, is printed with the first answer, so that the parent process can
stop its clock. The second one is ``{"warm": [...], "count", "digest", ...}``. Seconds are from the interpreter's start,
imports included, without the digest of the answer.
"""

from __future__ import annotations

import time

_START = time.perf_counter()

import hashlib  # noqa: E402 - the clock runs first
import json  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Iterable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Protocol  # noqa: E402

WARM = 5


class Reader(Protocol):
    """A contestant with an open table."""

    def uris(self) -> list[str]: ...

    def files(self) -> Any:
        """The list of files: an Arrow table in this library, strings in delta-rs."""

    def actions(self) -> Any:
        """The add actions with parsed statistics, a row for each file."""

    def prune(self, condition: str) -> list[str]: ...

    def refresh(self) -> None: ...


class LibraryReader:
    def __init__(self, table: str) -> None:
        from lakehouse_lib import DeltaTable

        self.table = DeltaTable(table)

    def uris(self) -> list[str]:
        return self.table.file_uris()

    def files(self) -> Any:
        return self.table.files()

    def actions(self) -> Any:
        return self.table.get_add_actions(flatten=True)

    def prune(self, condition: str) -> list[str]:
        paths: list[str] = self.table.files(condition, columns=["path"])["path"].to_pylist()
        return paths

    def refresh(self) -> None:
        self.table.update_incremental()


class DeltaRs:
    def __init__(self, table: str) -> None:
        from deltalake import DeltaTable

        self.table = DeltaTable(table)

    def uris(self) -> list[str]:
        return self.table.file_uris()

    def files(self) -> Any:
        return self.table.file_uris()

    def actions(self) -> Any:
        return self.table.get_add_actions(flatten=True)

    def prune(self, condition: str) -> list[str]:
        return self.table.file_uris(file_pruning_predicate=condition)

    def refresh(self) -> None:
        self.table.update_incremental()


def contestant(name: str) -> Callable[[str], Reader]:
    """The function that opens a table. Imports the library."""
    if name == "delta-rs":
        from deltalake import DeltaTable

        return DeltaRs
    from lakehouse_lib import DeltaTable  # noqa: F401 - which loads the rest, too

    return LibraryReader


def main(name: str, question: str, table: str, conditions: list[str]) -> None:
    opened = contestant(name)
    imports = time.perf_counter() - _START
    if question == "refresh":
        _refresh(opened, table)
        return

    def ask(reader: Reader | None, condition: str = "") -> Any:
        return getattr(reader, question)(condition) if condition else getattr(reader, question)()

    reader: Reader | None = opened(table)
    open_seconds = time.perf_counter() - _START
    answer = ask(reader, *conditions[:1])
    seconds, cpu = time.perf_counter() - _START, time.process_time()
    _say({"seconds": seconds, "cpu": cpu, "imports": imports, "opened": open_seconds, "peak_mb": peak_mb()})
    if conditions:
        again = [_seconds(lambda: ask(reader, conditions[0])) for _ in range(WARM)]
        others = [_seconds(lambda condition=condition: ask(reader, condition)) for condition in conditions[1:]]
        _say({"warm": again, "others": others, **_summary(question, answer)})
        return
    summary = _summary(question, answer)
    answer = reader = None  # frees a million strings, which would slow the next answer down
    warm = [_seconds(lambda: ask(opened(table))) for _ in range(WARM)]
    _say({"warm": warm, **summary})


def _refresh(opened: Callable[[str], Reader], table: str) -> None:
    """Commit to a copy of the table, and time how an open table follows each new commit."""
    from benchmarks.log import tables

    shape = tables.Shape.of(Path(table).name)
    seconds, prune_seconds = [], []
    with tempfile.TemporaryDirectory(dir=Path(table).parent) as folder:
        own = tables.copy(Path(table), Path(folder, "table"))
        reader = opened(str(own))
        reader.prune(tables.point(shape))
        _say({"seconds": time.perf_counter() - _START, "imports": 0, "peak_mb": peak_mb()})
        for number in range(tables.COMMITS, tables.COMMITS + WARM):
            tables.write_commit(own, shape, number)
            new = tables.point_of_commit(shape, number)
            start = time.perf_counter()
            reader.refresh()
            seconds.append(time.perf_counter() - start)
            answer = reader.prune(new)
            prune_seconds.append(time.perf_counter() - start)
            if len(answer) != 1:
                raise SystemExit(f"{new} finds {len(answer)} files after a refresh; expected 1")
        shutil.rmtree(own)
    _say({"warm": seconds, "others": prune_seconds, "count": len(seconds), "digest": ""})


def peak_mb() -> float:
    """The peak resident memory of this process in megabytes; ``getrusage`` would include its parent before the fork."""
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes on macOS
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def digest(locations: Iterable[str]) -> str:
    """The digest of a list of locations in any order."""
    return hashlib.sha256("\n".join(sorted(locations)).encode()).hexdigest()[:16]


def names(locations: Iterable[str]) -> list[str]:
    """File names without folders, because contestants spell locations differently."""
    return [location.rsplit("/", 1)[-1] for location in locations]


def _summary(question: str, answer: Any) -> dict[str, Any]:
    if question in ("uris", "prune"):
        return {"count": len(answer), "digest": digest(names(answer) if question == "prune" else answer)}
    return {"count": len(answer), "digest": ""}


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    answer = work()
    seconds = time.perf_counter() - start
    del answer
    return seconds


def _say(body: dict[str, Any]) -> None:
    print(json.dumps(body), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
