"""The progress of verbs: the calls of observers, on both engines, and what the log and the terminal show."""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib import progress as progress_module
from lakehouse_lib.catalogue import COMPACT, VACUUM, Z_ORDER
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.upkeep.unneeded_files import deletion
from lakehouse_lib.progress import Counter, Progress, log_observer


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five partitions with four files each, of different sizes."""
    for number in range(4):
        parts = [part for part in range(5) for _ in range(10 ** (part % 3 + 1))]
        rows = pa.table({"p": parts, "id": np.arange(len(parts)) * 7919 % 1009, "file": [number] * len(parts)})
        write_deltalake(tmp_path / "t", rows, partition_by=["p"], mode="append")
    return tmp_path / "t"


def check(calls: list[Progress]) -> Progress:
    """Check that the numbers only grow up to the total; returns the last."""
    first, last = calls[0], calls[-1]
    assert (first.done, first.bytes_done) == (0, 0)
    for before, after in pairwise(calls):
        assert (before.total, before.bytes_total) == (after.total, after.bytes_total)
        assert before.done < after.done or before == replace(after, seconds=before.seconds)
        assert before.bytes_done <= after.bytes_done
        assert before.seconds <= after.seconds
    assert (last.done, last.bytes_done) == (last.total, last.bytes_total)
    return last


@pytest.mark.parametrize("verb", ["compact", "z_order"])
def test_rewrites_report_each_task(engine: Engine, table: Path, verb: str) -> None:
    calls: list[Progress] = []
    snapshot = DeltaTable(table).snapshot
    operation, arguments = (COMPACT, {}) if verb == "compact" else (Z_ORDER, {"columns": ["id"]})
    result = operation.run(snapshot, engine, **arguments, on_progress=calls.append)
    last = check(calls)
    assert len(calls) > last.done > 4  # a call for each task, and those of the beginning and the end
    read = result.metrics["numRemovedBytes"]
    if verb == "compact":
        assert (last.items, last.total, last.bytes_total) == ("tasks", 5, read)
    else:
        assert last.items == "tasks"
        assert last.bytes_total == pytest.approx(2 * read, rel=0.01)  # read, and written


def test_several_commits_have_one_progress(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES", 1)
    calls: list[Progress] = []
    compact(DeltaTable(table).snapshot, ArrowEngine(1), min_commit_interval=0, on_progress=calls.append)
    assert DeltaTable(table).version() > 4
    assert check(calls).total == 5


def test_vacuum_reports_listed_objects_and_deletions(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "DELETED_AT_ONCE", 8)
    DeltaTable(table).optimize.compact()
    arguments: dict[str, Any] = {"retention_hours": 0, "enforce_retention_duration": False}
    calls: list[Progress] = []
    VACUUM.run(DeltaTable(table).snapshot, **arguments, dry_run=True, on_progress=calls.append)
    assert {progress.items for progress in calls} == {"listed objects"}
    assert calls[-1].done >= 25
    calls.clear()
    result = VACUUM.run(DeltaTable(table).snapshot, **arguments, dry_run=False, on_progress=calls.append)
    deletions = [progress for progress in calls if progress.items == "deleted files"]
    assert [progress.done for progress in deletions] == [8, 16, 20]
    assert deletions[-1].bytes_done == result.metrics["sizeOfDataToDelete"]
    assert all(progress.seconds_left is None for progress in calls)


def test_a_failing_observer_does_not_fail_the_verb(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Progress] = []

    def fail(progress: Progress) -> None:
        calls.append(progress)
        raise ValueError("no terminal")

    result = compact(DeltaTable(table).snapshot, ArrowEngine(), on_progress=fail)
    assert result.metrics["numAddedFiles"] == 5
    assert len(calls) == 1
    assert "the observer of the progress has failed" in caplog.text


def test_a_repeated_task_counts_once() -> None:
    calls: list[Progress] = []
    counter = Counter("tasks", calls.append, np.array([5, 6, 7]))
    for number in (1, 1, 0):
        counter.end(number)
    assert (calls[-1].done, calls[-1].bytes_done) == (2, 11)
    counter.finish()
    assert (calls[-1].done, calls[-1].bytes_done) == (3, 18)


def test_the_log_has_a_line_every_thirty_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    caplog.set_level(logging.INFO, progress_module.__name__)
    counter = Counter("tasks", log_observer("compact of t"), np.full(100, 3 << 20))
    for number in range(100):
        now += 2
        counter.end(number)
    assert [record.getMessage() for record in caplog.records][:2] == [
        "compact of t: 15 of 100 tasks, 45 of 300 MiB, 170 s left",
        "compact of t: 30 of 100 tasks, 90 of 300 MiB, 140 s left",
    ]
    assert len(caplog.records) == 6


def test_the_bar_shows_the_verb_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehouse_lib.cli.progress import progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", screen)
    with progress("tables") as bar:
        bar.expect(2)
        on_progress = bar.observer("lake/or\x1bders")
        assert on_progress is not None
        on_progress(Progress("tasks", 3, 9, 30 << 20, 90 << 20, 1.0))
    text = screen.getvalue()
    assert "0 of 2 tables" in text
    assert "lake/or\\x1bders: 3 of 9 tasks, 30 of 90 MiB" in text
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress("tables") as bar:
        assert bar.observer("lake/orders") is None
