"""A process that commits to a copy of a table and measures its time; ``benchmarks.log.contest`` starts it.

``python -m benchmarks.commit.runs CONTESTANT QUESTION TABLE NUMBER`` prints a line of JSON: ``seconds`` and ``cpu``
from the interpreter's start to the last commit; ``imports`` and ``opened``, the times when the library was imported
and when the first commit began; ``warm`` and ``more``, seconds of single commits; ``count``, the last version.
``seconds`` and ``cpu`` include the time to make the table and the rows; ``warm`` and ``more`` do not.
"""

from __future__ import annotations

import time

_START = time.perf_counter()

import json  # noqa: E402 - the clock runs first
import shutil  # noqa: E402
import sys  # noqa: E402
import uuid  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from benchmarks.commit.committers import Committer, committer, log_version  # noqa: E402
from benchmarks.log.runs import peak_mb  # noqa: E402

#: The folder of the copies of tables. The command deletes it at its end: for minutes after files were deleted, ext4 can
#: take up to a millisecond to create a file.
COPIES = "copies"


def appends(who: Committer, table: Path, count: int) -> dict[str, Any]:
    """``count`` small appends, each of which opens the table."""
    from benchmarks.commit.batches import batch

    batches = [batch(number) for number in range(1000, 1000 + count)]
    return _all(lambda rows: who.append(str(table), rows), batches)


def opened(who: Committer, table: Path, count: int) -> dict[str, Any]:
    """``count`` small appends to a table that stays open."""
    from benchmarks.commit.batches import batch

    batches = [batch(number) for number in range(1000, 1000 + count)]
    target = who.open(str(table))
    return _all(lambda rows: who.append_to(target, rows), batches)


def size(who: Committer, table: Path, count: int) -> dict[str, Any]:
    """``count`` appends to a table of many files, then an append that loses a race."""
    from benchmarks.commit.batches import batch, write_others

    batches = [batch(number) for number in range(1000, 1000 + count)]
    appended = _all(lambda rows: who.append(str(table), rows), batches)
    target = who.open(str(table))
    kept_open = _all(lambda rows: who.append_to(target, rows), [batch(2000), batch(2001)])["each"]
    version = log_version(table) + 1
    lost = who.behind(str(table), lambda: write_others(table, version, 1)).append(batch(3000))
    # The first append reads the log; the others find it in this process's cache.
    return {
        **appended,
        "warm": appended["each"][1:],
        "more": {"first": appended["each"][0], "open": kept_open[1], "lost": lost},
    }


def conflict_append(who: Committer, table: Path, count: int) -> dict[str, Any]:
    """An append after ``count`` new commits of others."""
    from benchmarks.commit.batches import batch, write_others

    rows = batch(1000)
    start = time.perf_counter() - _START
    seconds = who.behind(str(table), lambda: write_others(table, 1, count)).append(rows)
    return {"opened": start, "each": [seconds]}


def conflict_delete(who: Committer, table: Path, count: int) -> dict[str, Any]:
    """A delete of one row after ``count`` new commits of others, which do not match its condition."""
    from benchmarks.commit.batches import write_others

    start = time.perf_counter() - _START
    seconds = who.behind(str(table), lambda: write_others(table, 1, count)).delete("id = 5")
    return {"opened": start, "each": [seconds]}


QUESTIONS: dict[str, Callable[[Committer, Path, int], dict[str, Any]]] = {
    "appends": appends,
    "opened": opened,
    "size": size,
    "conflict-append": conflict_append,
    "conflict-delete": conflict_delete,
}


def main(name: str, question: str, source: str, count: int) -> None:
    who = committer(name)
    imports = time.perf_counter() - _START
    table = copy(Path(source))
    measured = QUESTIONS[question](who, table, count)
    done = {"seconds": time.perf_counter() - _START, "cpu": time.process_time(), "imports": imports}
    each = measured.pop("each")
    answer = {**done, "warm": each, **measured, "peak_mb": peak_mb(), "count": log_version(table), "digest": ""}
    answer["more"] = {"total": sum(each), **answer.get("more", {})}
    print(json.dumps(answer), flush=True)


def copy(source: Path) -> Path:
    """A copy of the table in ``COPIES`` beside it: hard links to its files, and a copy of the checkpoint hint."""
    target = source.parent / COPIES / uuid.uuid4().hex
    shutil.copytree(source, target, copy_function=_link)
    return target


def _link(source: str, target: str) -> None:
    if Path(source).name == "_last_checkpoint":
        shutil.copy2(source, target)
    else:
        Path(target).hardlink_to(source)


def _all(commit: Callable[[Any], None], batches: list[Any]) -> dict[str, Any]:
    start = time.perf_counter() - _START
    return {"opened": start, "each": [_seconds(lambda rows=rows: commit(rows)) for rows in batches]}


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
