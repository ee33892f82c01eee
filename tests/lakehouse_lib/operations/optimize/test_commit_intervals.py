"""A compaction with ``min_commit_interval`` commits finished bins, so that a killed run keeps them."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake as write_delta_rs

from lakehouse_lib import ArrowEngine, CommitProperties, DeltaTable, Transaction
from lakehouse_lib.errors import DataFileMissingError, InvalidArgumentError
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore, each
from tests.peers import parquet_files, read_by_all, read_delta_rs

BINS_A_GROUP = 4
BINS = 3 * BINS_A_GROUP
GROUP = "lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES"
GROUP_BYTES = BINS_A_GROUP * 2 * (4 << 20)  # two files that are opened
ENGINE = ArrowEngine(parallelism=1)
COMMIT = "_delta_log/0"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with two files in each of its partitions."""
    rows = pa.table({"id": range(BINS), "part": range(BINS)})
    for _ in range(2):
        write_delta_rs(tmp_path, rows, mode="append", partition_by=["part"])
    return tmp_path


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GROUP, GROUP_BYTES)


def files_of(path: Path) -> int:
    return len(DeltaRs(path).file_uris())


def test_bins_are_committed_in_groups(table: Path) -> None:
    expected = read_delta_rs(table)
    result = compact(load_snapshot(FaultStore(table)), ENGINE, min_commit_interval=0)
    assert (result.read_version, result.version) == (1, 4)
    assert result.metrics["numRemovedFiles"] == 2 * result.metrics["numAddedFiles"] == 2 * BINS
    assert files_of(table) == BINS
    assert read_by_all(table) == expected
    assert all(commit["operation"] == "OPTIMIZE" for commit in DeltaRs(table).history(3))


@pytest.mark.parametrize(("interval", "commits"), [(None, 1), (3600, 1), (timedelta(hours=1), 1), (timedelta(0), 3)])
def test_an_interval_that_has_not_passed_waits_with_the_commit(
    table: Path, interval: int | timedelta | None, commits: int
) -> None:
    DeltaTable(table, engine=ENGINE).optimize.compact(min_commit_interval=interval)  # type: ignore[arg-type]
    assert DeltaRs(table).version() == 1 + commits
    assert files_of(table) == BINS


def test_a_delete_during_a_later_group_is_not_undone(table: Path) -> None:
    def other_writer(path: str) -> None:
        if path.startswith(COMMIT + "0" * 18 + "2"):  # its own first commit follows this one
            DeltaRs(table).delete("part in (0, 11)")

    store = FaultStore(table, before={"put_if_absent": other_writer})
    result = compact(load_snapshot(store), ENGINE, min_commit_interval=0)
    assert result.metrics["numAddedFiles"] == BINS - 2
    assert sorted(set(read_by_all(table)["id"].to_pylist())) == [*range(1, 11)]
    assert files_of(table) == BINS - 2


def test_a_group_whose_files_were_all_removed_is_left_out(table: Path) -> None:
    writes: list[str] = []

    def other_writer(path: str) -> None:
        if path.endswith("2.json") and not writes:
            writes.append(path)
            DeltaRs(table).delete("part <> 5")

    store = FaultStore(table, before={"put_if_absent": other_writer})
    result = compact(load_snapshot(store), ENGINE, min_commit_interval=0)
    assert result.metrics["numAddedFiles"] == files_of(table) == 1
    assert len(parquet_files(table)) == 2 * BINS + 1
    assert read_by_all(table)["id"].to_pylist() == [5, 5]


def test_a_run_whose_files_were_all_removed_commits_nothing(table: Path) -> None:
    store = FaultStore(table, before={"put_if_absent": each(lambda: DeltaRs(table).delete())})
    assert compact(load_snapshot(store), ENGINE, min_commit_interval=0).version is None
    assert len(parquet_files(table)) == 2 * BINS
    assert read_by_all(table).num_rows == 0


def test_finished_bins_are_deleted_after_an_error(table: Path) -> None:
    victim = min((table / "part=5").glob("*.parquet"))
    victim.unlink()
    before = parquet_files(table)
    with pytest.raises(DataFileMissingError):
        compact(load_snapshot(FaultStore(table)), ENGINE, min_commit_interval=3600)
    assert parquet_files(table) == before
    assert DeltaRs(table).version() == 1


@pytest.mark.parametrize("interval", [-1, True, "10", float("nan"), float("inf")])
def test_an_interval_that_is_not_a_number_of_seconds_is_refused(table: Path, interval: object) -> None:
    with pytest.raises(InvalidArgumentError, match="min_commit_interval is"):
        DeltaTable(table).optimize.compact(min_commit_interval=interval)  # type: ignore[arg-type]


def test_application_transactions_are_refused_with_an_interval(table: Path) -> None:
    properties = CommitProperties(app_transactions=[Transaction("job", 1)])
    with pytest.raises(InvalidArgumentError, match="app_transactions"):
        DeltaTable(table).optimize.compact(min_commit_interval=60, commit_properties=properties)


_KILLED_RUN = """
import os, signal, sys
from lakehouse_lib import ArrowEngine
from lakehouse_lib.operations.optimize import commit_groups, compact
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore

moment, version = sys.argv[2], sys.argv[3]

def die(path):
    if path.startswith("_delta_log/0") and path.endswith(version + ".json"):
        os.kill(os.getpid(), signal.SIGKILL)

store = FaultStore(sys.argv[1], **{moment: {"put_if_absent": die}})
commit_groups.GROUP_BYTES = int(sys.argv[4])
compact.compact(load_snapshot(store), ArrowEngine(parallelism=1), min_commit_interval=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "version", "commits"), [("after", 2, 1), ("before", 3, 1), ("after", 3, 2)])
def test_a_run_after_a_killed_run_merges_only_the_rest(table: Path, moment: str, version: int, commits: int) -> None:
    expected = read_delta_rs(table)
    arguments = [table, moment, str(version), str(GROUP_BYTES)]
    killed = subprocess.run([sys.executable, "-c", _KILLED_RUN, *arguments], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert DeltaRs(table).version() == 1 + commits
    assert read_by_all(table) == expected
    first_files = set(DeltaRs(table).file_uris())
    result = compact(load_snapshot(FaultStore(table)), ENGINE, min_commit_interval=0)
    left = BINS - commits * BINS_A_GROUP
    assert result.metrics["numAddedFiles"] == left
    assert result.metrics["numRemovedFiles"] == 2 * left
    assert len(first_files & set(DeltaRs(table).file_uris())) == commits * BINS_A_GROUP
    assert read_by_all(table) == expected
