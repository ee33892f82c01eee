"""Drops of writer features that are interrupted, or that other writers run into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import CommitFailedError, InvalidArgumentError, MetadataChangedError
from lakehouse_lib.features import row_tracking, writer_features
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.operations.alter.features import row_id_removal, traces
from lakehouse_lib.operations.alter.features.drop import drop_feature
from lakehouse_lib.operations.alter.properties import set_table_properties
from lakehouse_lib.protocol.actions import DomainMetadata
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.fault_store import Event, FaultStore
from tests.peers import read_by_all

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "part": ["a", "b"] * 3})
TRACKED = {"delta.enableRowTracking": "true"}
RESUMED = {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "false"}
#: The commits of a drop of row tracking from ``tracked_table``: one suspends it, two remove row ids, one drops it.
COMMITS = 4

Win = Callable[[Path], object]


class KilledError(Exception):
    """The process of a drop is killed."""


@pytest.fixture(autouse=True)
def one_file_in_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = row_id_removal.remove_row_ids
    monkeypatch.setattr(traces, "remove_row_ids", lambda snapshot, properties: remove(snapshot, properties, batch=1))


def tracked_table(root: Path) -> None:
    write_deltalake(root, ROWS, configuration=TRACKED)
    write_deltalake(root, ROWS.slice(0, 1), mode="append")


def snapshot_of(root: Path) -> Snapshot:
    return load_snapshot(LocalStore(str(root)))


def has_feature(root: Path, name: str = "rowTracking") -> bool:
    return name in writer_features(snapshot_of(root).protocol)


def at_version(version: int, act: Callable[[], object]) -> Event:
    """An event that acts once, when the commit file of a version is put."""
    left = [act]
    return lambda path: left.pop()() if path == file_names.commit(version) and left else None


def kill() -> None:
    raise KilledError


def interrupt_drop(root: Path, commits: int, when: str = "before") -> None:
    """Begin a drop of row tracking, which is killed before or after it puts the commit after the first ``commits``."""
    events = {"put_if_absent": at_version(snapshot_of(root).version + 1 + commits, kill)}
    store = FaultStore(root, before=events) if when == "before" else FaultStore(root, after=events)
    with pytest.raises(KilledError):
        drop_feature(load_snapshot(store), "rowTracking", ArrowEngine())


def drop_after(root: Path, name: str, win: Win, commits: int = 0) -> None:
    """Drop a feature; another writer commits just before the commit after the first ``commits``."""
    event = at_version(snapshot_of(root).version + 1 + commits, lambda: win(root))
    drop_feature(load_snapshot(FaultStore(root, before={"put_if_absent": event})), name, ArrowEngine())


def check_dropped(root: Path, rows: int) -> None:
    """No row id, property or domain of row tracking is left, and delta-rs writes the table."""
    snapshot = snapshot_of(root)
    assert writer_features(snapshot.protocol) == {"appendOnly", "invariants", "domainMetadata"}
    assert (dict(snapshot.configuration), dict(snapshot.domains)) == ({}, {})
    assert not row_tracking.have_ids(snapshot.files)
    DeltaTable(root).alter.drop_feature("domainMetadata")
    deltalake.write_deltalake(root, ROWS.slice(0, 1), mode="append")
    assert len(read_by_all(root)) == rows + 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commits", range(COMMITS))
def test_an_interrupted_drop_is_resumed(tmp_path: Path, commits: int, when: str) -> None:
    tracked_table(tmp_path)
    interrupt_drop(tmp_path, commits, when)
    if (commits, when) == (COMMITS - 1, "after"):
        with pytest.raises(InvalidArgumentError, match="does not have the feature 'rowTracking'"):
            DeltaTable(tmp_path).alter.drop_feature("rowTracking")
    else:
        assert has_feature(tmp_path)
        DeltaTable(tmp_path).alter.drop_feature("rowTracking")
    check_dropped(tmp_path, 7)
    assert DeltaTable(tmp_path).version() == 1 + COMMITS + 2


@pytest.mark.parametrize("commits", range(1, COMMITS))
def test_row_tracking_is_resumed_instead_of_dropped(tmp_path: Path, commits: int) -> None:
    """Before, the call gave no ids to files of a suspended table, and never ended."""
    tracked_table(tmp_path)
    interrupt_drop(tmp_path, commits)
    write_deltalake(tmp_path, ROWS.slice(1, 1), mode="append")
    DeltaTable(tmp_path).alter.set_table_properties(RESUMED)
    ids = DeltaTable(tmp_path).scan(["id"], row_ids=True).read_all()["_metadata.row_id"].to_pylist()
    assert len(set(ids)) == len(ids) == 8
    snapshot = snapshot_of(tmp_path)
    assert max(ids) == row_tracking.highest(snapshot.domains.values(), table="", version=0)
    DeltaTable(tmp_path).alter.drop_feature("rowTracking")
    check_dropped(tmp_path, 8)


def test_a_writer_that_resumes_row_tracking_stops_the_drop(tmp_path: Path) -> None:
    """Before, each commit that removed row ids assigned new ids, and the drop never ended."""
    tracked_table(tmp_path)
    resume = at_version(2, lambda: DeltaTable(tmp_path).alter.set_table_properties(RESUMED))
    snapshot = load_snapshot(FaultStore(tmp_path, after={"put_if_absent": resume}))
    with pytest.raises(MetadataChangedError, match="rowTrackingSuspended was set to false"):
        drop_feature(snapshot, "rowTracking", ArrowEngine())
    assert has_feature(tmp_path)
    assert DeltaTable(tmp_path).version() == 3


def test_a_drop_stops_a_writer_that_enables_row_tracking(tmp_path: Path) -> None:
    """Before, its commits assigned no row ids, and it never ended."""
    write_deltalake(tmp_path, ROWS)
    write_deltalake(tmp_path, ROWS, mode="append")
    drop = at_version(2, lambda: DeltaTable(tmp_path).alter.drop_feature("rowTracking"))
    snapshot = load_snapshot(FaultStore(tmp_path, after={"put_if_absent": drop}))
    with pytest.raises(MetadataChangedError, match="suspended or dropped while files got row ids"):
        set_table_properties(snapshot, TRACKED, ArrowEngine())
    check_dropped(tmp_path, 12)


def test_two_drops(tmp_path: Path) -> None:
    for commits in range(1, COMMITS):
        root = tmp_path / str(commits)
        tracked_table(root)
        with pytest.raises((CommitFailedError, InvalidArgumentError)):
            drop_after(root, "rowTracking", lambda root: DeltaTable(root).alter.drop_feature("rowTracking"), commits)
        check_dropped(root, 7)


@pytest.mark.parametrize("commits", range(1, COMMITS))
def test_appends_do_not_stop_the_drop(tmp_path: Path, commits: int) -> None:
    tracked_table(tmp_path)
    drop_after(tmp_path, "rowTracking", lambda root: write_deltalake(root, ROWS, mode="append"), commits)
    check_dropped(tmp_path, 13)


def append_with_ids(root: Path) -> None:
    """An append of a program that ignores the suspension."""
    write_deltalake(root, ROWS, mode="append")
    store = LocalStore(str(root))
    snapshot = load_snapshot(store)
    transaction = OptimisticTransaction(snapshot, store, "WRITE", {})
    adds = read_commit(store, snapshot.version).adds
    for name, value in (("baseRowId", 100), ("defaultRowCommitVersion", snapshot.version)):
        adds = adds.set_column(adds.column_names.index(name), name, pa.array([value] * len(adds), pa.int64()))
    transaction.add(adds)
    assert isinstance(transaction.commit(), Committed)


def test_a_writer_that_ignores_the_suspension(tmp_path: Path) -> None:
    for commits in range(1, COMMITS):
        root = tmp_path / str(commits)
        tracked_table(root)
        if commits == COMMITS - 1:
            with pytest.raises(CommitFailedError, match="uses the feature rowTracking, which this transaction drops"):
                drop_after(root, "rowTracking", append_with_ids, commits)
            assert has_feature(root)
            DeltaTable(root).alter.drop_feature("rowTracking")
        else:
            drop_after(root, "rowTracking", append_with_ids, commits)
        check_dropped(root, 13)


def write_domain(root: Path) -> None:
    snapshot = snapshot_of(root)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET DOMAIN", {})
    transaction.set_domain(DomainMetadata("app.owner", "{}", False))
    assert isinstance(transaction.commit(), Committed)


WINNERS: dict[str, tuple[str, Win]] = {
    "a domain": ("domainMetadata", write_domain),
    "another feature": ("domainMetadata", lambda root: DeltaTable(root).alter.add_feature("clustering")),
    "row tracking": ("domainMetadata", lambda root: DeltaTable(root).alter.set_table_properties(TRACKED)),
    "clustering columns": ("clustering", lambda root: DeltaTable(root).alter.cluster_by(["id"])),
    "timestamps": (
        "inCommitTimestamp",
        lambda root: DeltaTable(root).alter.set_table_properties({"delta.enableInCommitTimestamps": "true"}),
    ),
    "partition columns": (
        "materializePartitionColumns",
        lambda root: DeltaTable(root).alter.set_table_properties(
            {"delta.enableMaterializePartitionColumnsFeature": "true"}
        ),
    ),
    "a default": ("allowColumnDefaults", lambda root: DeltaTable(root).alter.set_column_default("id", "1")),
    "a constraint": ("checkConstraints", lambda root: DeltaTable(root).alter.add_constraint({"small": "id < 10"})),
    "a change data feed": (
        "changeDataFeed",
        lambda root: DeltaTable(root).alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
    ),
}


@pytest.mark.parametrize(("name", "win"), WINNERS.values(), ids=list(WINNERS))
def test_a_feature_that_is_used_meanwhile_stays(tmp_path: Path, name: str, win: Win) -> None:
    write_deltalake(tmp_path, ROWS, configuration={f"delta.feature.{name}": "supported"})
    with pytest.raises(CommitFailedError):
        drop_after(tmp_path, name, win)
    snapshot = snapshot_of(tmp_path)
    assert name in writer_features(snapshot.protocol)
    assert "DROP FEATURE" not in [commit["operation"] for commit in DeltaTable(tmp_path).history()]


@pytest.mark.parametrize("name", sorted({name for name, _ in WINNERS.values()}))
def test_an_append_does_not_stop_the_drop_of_an_unused_feature(tmp_path: Path, name: str) -> None:
    write_deltalake(tmp_path, ROWS, configuration={f"delta.feature.{name}": "supported"})
    drop_after(tmp_path, name, lambda root: write_deltalake(root, ROWS, mode="append"))
    assert not has_feature(tmp_path, name)
    assert len(read_by_all(tmp_path)) == 12
