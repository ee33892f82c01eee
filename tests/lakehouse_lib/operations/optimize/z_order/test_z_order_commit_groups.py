"""A z_order with ``min_commit_interval`` commits finished partitions. Its saved trees do not outlive an erasure."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import ArrowEngine, CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DataFileMissingError, InvalidArgumentError, StoreRefusedError
from lakehouse_lib.operations.optimize.z_order.tags import places_of
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.privacy.purge import purge
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore
from tests.peers import parquet_files, read_by_all

PARTS = 3
BY = ["x", "name"]
ENGINE = ArrowEngine(parallelism=1)
SIZE = 20_000
ERASED = "name 00000"
PREDICATE = f"name = '{ERASED}'"


def rows(part: int) -> pa.Table:
    count = 3_000
    random = np.random.default_rng(part)
    names = [f"name {number:05}" for number in range(count)]
    return pa.table({"part": [part] * count, "x": random.integers(0, 10_000, count), "name": names})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with two files in each of its partitions. Each partition has a row to erase."""
    for _ in range(2):
        write_deltalake(tmp_path, pa.concat_tables(map(rows, range(PARTS))), mode="append", partition_by=["part"])
    return tmp_path


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES", 1)


def trees(root: Path) -> list[Path]:
    folder = root / "_lakehouse/clustering"
    return sorted(folder.iterdir()) if folder.exists() else []


def runs(root: Path) -> set[str]:
    return set(places_of(DeltaTable(root).snapshot.file_columns(["tags"])).names.to_pylist())


@pytest.mark.parametrize(("interval", "commits"), [(None, 1), (3600, 1), (0, PARTS)])
def test_partitions_are_committed_in_groups(table: Path, engine: Engine, interval: int | None, commits: int) -> None:
    expected = read_by_all(table)
    opened = DeltaTable(table, engine=engine)
    metrics = opened.optimize.z_order(BY, target_size=SIZE, min_commit_interval=interval)
    assert opened.version() == 1 + commits
    assert (metrics["numFilesRemoved"], metrics["partitionsOptimized"]) == (2 * PARTS, PARTS)
    assert metrics["numFilesAdded"] == opened.snapshot.file_count > 2 * PARTS
    assert read_by_all(table) == expected
    assert {path.stem for path in trees(table)} == runs(table)
    assert all(ERASED in _values(path, "words1") for path in trees(table))
    assert opened.optimize.z_order(BY, target_size=SIZE, min_commit_interval=interval)["numFilesAdded"] == 0


def test_rows_deleted_during_a_later_group_stay_deleted(table: Path) -> None:
    def other_writer(path: str) -> None:
        if path.endswith("2.json"):  # its first commit follows this one
            DeltaTable(table).delete("part in (0, 2) and x < 5000", rewrite=True)

    store = FaultStore(table, before={"put_if_absent": other_writer})
    result = z_order(load_snapshot(store), ENGINE, BY, target_size=SIZE, min_commit_interval=0)
    assert result.metrics["numRemovedFiles"] == 2  # only of part 1
    left = read_by_all(table)
    assert left.filter(pc.field("part") != 1)["x"].to_numpy().min() >= 5_000
    assert len(left.filter(pc.field("part") == 1)) == 6_000


def test_an_error_keeps_what_is_committed(table: Path) -> None:
    victim = min((table / "part=2").glob("*.parquet"))
    data = victim.read_bytes()

    store = FaultStore(table, before={"put_if_absent": once(lambda path: path.endswith("2.json"), victim.unlink)})
    with pytest.raises(DataFileMissingError):
        z_order(load_snapshot(store), ENGINE, BY, target_size=SIZE, min_commit_interval=0)
    victim.write_bytes(data)
    finished = DeltaTable(table).version() - 1
    assert finished in (1, 2)
    metrics = DeltaTable(table, engine=ENGINE).optimize.z_order(BY, target_size=SIZE)
    assert metrics["numFilesRemoved"] == 2 * (PARTS - finished)
    assert len(read_by_all(table)) == 2 * PARTS * 3_000


def test_intervals_that_are_not_valid_are_refused(table: Path) -> None:
    opened = DeltaTable(table)
    with pytest.raises(InvalidArgumentError, match="min_commit_interval is"):
        opened.optimize.z_order(BY, min_commit_interval=-1)
    properties = CommitProperties(app_transactions=[Transaction("job", 1)])
    with pytest.raises(InvalidArgumentError, match="app_transactions"):
        opened.optimize.z_order(BY, min_commit_interval=60, commit_properties=properties)


_KILLED_RUN = """
import os, signal, sys
from lakehouse_lib import ArrowEngine
from lakehouse_lib.operations.optimize import commit_groups
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore

moment, name = sys.argv[2], sys.argv[3]

def die(path):
    if path.endswith(name):
        os.kill(os.getpid(), signal.SIGKILL)

store = FaultStore(sys.argv[1], **{moment: {"put_if_absent": die}})
commit_groups.GROUP_BYTES = 1
z_order(load_snapshot(store), ArrowEngine(parallelism=1), ["x", "name"], target_size=20_000, min_commit_interval=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "name", "commits"),
    [("before", "2.json", 0), ("after", "2.json", 1), ("after", ".arrow", 1), ("before", "3.json", 1)],
)
def test_a_run_after_a_killed_run_clusters_only_the_rest(table: Path, moment: str, name: str, commits: int) -> None:
    expected = read_by_all(table)
    killed = subprocess.run([sys.executable, "-c", _KILLED_RUN, table, moment, name], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert DeltaTable(table).version() == 1 + commits
    finished = set(DeltaTable(table).file_uris()) if commits else set()
    result = z_order(load_snapshot(FaultStore(table)), ENGINE, BY, target_size=SIZE, min_commit_interval=0)
    assert result.metrics["numRemovedFiles"] == 2 * (PARTS - commits)
    stay = finished & set(DeltaTable(table).file_uris())
    assert len(stay) == len(finished) - 2 * (PARTS - commits) if commits else not stay
    assert read_by_all(table) == expected


def erase(root: Path) -> None:
    DeltaTable(root).delete(PREDICATE, rewrite=True)
    purge(str(root), PREDICATE)


def once(condition: Callable[[str], bool], event: Callable[[], object]) -> Callable[[str], None]:
    """An event at the first call with a path for which the condition is true."""
    calls: list[str] = []

    def run(path: str) -> None:
        if not calls and condition(path):
            calls.append(path)
            event()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["commit", "tree"])
@pytest.mark.parametrize("is_partitioned", [True, False])
def test_an_erasure_during_a_run_leaves_no_tree_with_its_values(
    tmp_path: Path, moment: str, is_partitioned: bool
) -> None:
    root = tmp_path / "table"
    data = pa.concat_tables(map(rows, range(2)))
    data = data.filter((pc.field("part") == 0) | (pc.field("name") != ERASED))
    partition_by = ["part"] if is_partitioned else None
    for _ in range(2):
        write_deltalake(root, data, mode="append", partition_by=partition_by)
    event = once(lambda path: path.endswith(".json" if moment == "commit" else ".arrow"), lambda: erase(root))
    store = FaultStore(root, before={"put_if_absent": event})
    z_order(load_snapshot(store), ENGINE, ["name"], target_size=SIZE)
    erase(root) if moment == "commit" and not is_partitioned else None
    words = [name for path in trees(root) for name in _values(path)]
    assert ERASED not in words
    if moment == "tree":  # the files of the run are gone, or their tree was deleted by the erasure
        assert not words
    elif is_partitioned:
        assert words  # the tree of the other partition
    assert len(read_by_all(root)) == 2 * len(data) - 2


def _values(tree: Path, column: str = "words0") -> list[str]:
    stored = pa.ipc.open_file(tree.read_bytes()).read_all()
    return [name for names in stored[column].to_pylist() for name in names]


def test_a_tree_that_cannot_be_written_does_not_fail_the_run(table: Path) -> None:
    def fail(method: Callable[..., bool], path: str, data: bytes) -> bool:
        if path.endswith(".arrow"):
            raise StoreRefusedError("no space")
        return method(path, data)

    store = FaultStore(table, instead={"put_if_absent": fail})
    assert z_order(load_snapshot(store), ENGINE, BY, target_size=SIZE).version == 2
    assert trees(table) == []
    assert len(parquet_files(table)) > 2 * PARTS
