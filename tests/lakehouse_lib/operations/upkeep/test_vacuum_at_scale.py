"""A vacuum that lists folders in threads and deletes in batches deletes the same as one of a small table."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.log.history import history
from lakehouse_lib.operations.upkeep.unneeded_files import deletion, scan
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, ObjectMeta
from tests.fault_store import FaultStore
from tests.log_builder import edit
from tests.peers import files_delta_rs, parquet_files
from tests.table_builder import longs

LATER = datetime.now(UTC) + timedelta(days=8)


class RemoteStore(LocalStore):
    """A local store that is listed in threads; remembers the folders that are walked."""

    is_remote = True  # type: ignore[assignment]

    def __init__(self, root: str) -> None:
        super().__init__(root, fsync=False)
        self.walked: list[str] = []

    def walk(self, folder: str = "") -> Iterator[ObjectMeta]:
        self.walked.append(folder)
        return super().walk(folder)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A partitioned table with leftovers, another table and Iceberg's metadata in its folders."""
    root = tmp_path / "t"
    rows = pa.table({"p": [f"{number}" for number in range(8)] * 2, "id": list(range(16))})
    for _ in range(2):
        write_deltalake(root, rows, partition_by=["p"], mode="overwrite")
    write_deltalake(root / "inner", rows.slice(0, 1))
    write_deltalake(root / "inner", rows.slice(0, 1), mode="overwrite")
    for name in ("leftover", "p=1/leftover", "p=1/.leftover.crc", "old/leftover", "p=2/metadata/v1.metadata.json"):
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_bytes(b"xyz")
    return root


def all_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file() and "_delta_log" not in path.relative_to(root).parts[:1]}


def test_folders_in_threads_and_batches(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(table, tmp_path / "copy")
    expected = vacuum(load_snapshot(LocalStore(str(tmp_path / "copy"))), now=LATER, dry_run=False)
    assert {"leftover", "p=1/leftover", "p=1/.leftover.crc", "old/leftover"} < set(expected.files)
    monkeypatch.setattr(scan, "_FILES_A_FOLDER", 0)
    monkeypatch.setattr(deletion, "DELETED_AT_ONCE", 3)
    store, batches = RemoteStore(str(table)), list[pa.Table]()
    assert set(vacuum(load_snapshot(store), now=LATER).files) == set(expected.files)
    result = vacuum(load_snapshot(store), now=LATER, dry_run=False, before_deletion=batches.append)
    assert set(store.walked) >= {"p=1", "p=7", "old", "inner"}
    assert not {"", "_delta_log"} & set(store.walked)
    assert set(result.files) == set(expected.files)
    for name in ("numFilesToDelete", "sizeOfDataToDelete", "numDeletedFiles"):
        assert result.metrics[name] == expected.metrics[name]
    assert {len(batch) for batch in batches} <= {1, 2, 3}
    assert {path for batch in batches for path in batch["path"].to_pylist()} == set(expected.files)
    assert all_files(table) == {table / path.relative_to(tmp_path / "copy") for path in all_files(tmp_path / "copy")}
    assert files_delta_rs(table) <= parquet_files(table)
    end, start = history(store, 2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert end["operationMetrics"]["numDeletedFiles"] == str(len(expected.files))
    assert (
        end["operationMetrics"]["numVacuumedDirectories"]
        == history(LocalStore(str(tmp_path / "copy")), 1)[0]["operationMetrics"]["numVacuumedDirectories"]
    )


def test_small_folders_are_listed_at_once(table: Path) -> None:
    store = RemoteStore(str(table))
    vacuum(load_snapshot(store), now=LATER)
    assert "" in store.walked
    assert "p=1" not in store.walked


@pytest.mark.parametrize("rewrites", [0, 2], ids=["requests for files", "listing"])
def test_a_lite_vacuum_of_a_remote_table_lists_it_if_that_takes_fewer_requests(
    table: Path, tmp_path: Path, rewrites: int
) -> None:
    rows = pa.table({"p": [f"{number}" for number in range(8)], "id": list(range(8))})
    for _ in range(rewrites):
        write_deltalake(table, rows, mode="overwrite")
    for version in range(1, 2 + rewrites):
        edit(table, version, lambda action: action.get("remove", {}).pop("size", None))
    shutil.copytree(table, tmp_path / "copy")
    expected = vacuum(load_snapshot(LocalStore(str(tmp_path / "copy"))), full=False, now=LATER, dry_run=False)
    assert len(expected.files) == 8 + 8 * rewrites
    store = RemoteStore(str(table))
    result = vacuum(load_snapshot(store), full=False, now=LATER, dry_run=False)
    assert ("" in store.walked) == bool(rewrites)
    assert (set(result.files), result.metrics["numDeletedFiles"]) == (set(expected.files), len(expected.files))
    assert all_files(table) == {table / path.relative_to(tmp_path / "copy") for path in all_files(tmp_path / "copy")}
    assert (table / "leftover").exists()


def test_a_restore_of_delta_rs_between_two_batches_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "DELETED_AT_ONCE", 1)
    for number in range(4):
        write_deltalake(tmp_path, longs(id=[number]), mode="overwrite")
    first_commit = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (add,) = [action["add"] for line in first_commit if "add" in (action := json.loads(line))]
    (tmp_path / add["path"]).rename(tmp_path / "z.parquet")  # deleted last
    for version in range(2):
        commit = tmp_path / "_delta_log" / f"{version:020}.json"
        commit.write_text(commit.read_text().replace(add["path"], "z.parquet"))
        (tmp_path / "_delta_log" / f"{version:020}.crc").unlink(missing_ok=True)
    deleted: list[str] = []

    def restore(batch: pa.Table) -> None:
        deleted.extend(batch["path"].to_pylist())
        if len(deleted) == 1:
            deltalake.DeltaTable(tmp_path).restore(0)

    vacuum(load_snapshot(LocalStore(str(tmp_path))), now=LATER, dry_run=False, before_deletion=restore)
    assert len(deleted) == 2
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [0]


def test_a_restore_that_a_stale_listing_lacks_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The restore is committed before VACUUM START, and a listing shows VACUUM START late."""
    for number in range(3):
        write_deltalake(tmp_path, longs(id=[number]), mode="overwrite")
    hidden: list[str] = []
    pauses: list[float] = []

    def restore_first(path: str) -> None:
        if path.endswith("3.json") and DeltaTable(tmp_path).version() == 2:
            DeltaTable(tmp_path).restore(0)

    def hide(path: str) -> None:
        if path.endswith("4.json"):
            hidden.append(path)

    def listed(method: Callable[..., Iterator[ObjectMeta]], *arguments: str) -> Iterator[ObjectMeta]:
        return (meta for meta in method(*arguments) if pauses or meta.path not in hidden)

    monkeypatch.setattr(deletion, "time", SimpleNamespace(sleep=pauses.append))
    store = FaultStore(
        tmp_path,
        before={"put_if_absent": restore_first},
        after={"put_if_absent": hide},
        instead={"list_from": listed},
    )
    assert len(vacuum(load_snapshot(store), now=LATER, dry_run=False).files) == 1
    assert pauses
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [0]


def test_the_rate_limits_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path, longs(id=[1]))
    for number in range(25):
        (tmp_path / f"{number}.parquet").touch()
    pauses: list[float] = []
    # Not ``time.sleep`` itself, which threads of libraries call, too.
    monkeypatch.setattr(deletion, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic))
    snapshot = load_snapshot(LocalStore(str(tmp_path)))
    vacuum(snapshot, now=LATER, dry_run=False, files_per_second=10)
    assert len(pauses) == 3
    assert 1.5 < sum(pauses) <= 2.5
    with pytest.raises(InvalidArgumentError, match="expected a number above 0"):
        vacuum(snapshot, files_per_second=0)


def inventory_of(root: Path, folder: Path, kind: str) -> str | pa.RecordBatchReader:
    """A list of all files of a table, and of others that are none of its business, written a month ago."""
    name, _, suffix = kind.partition(".")
    paths = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    others = ["/elsewhere/x.parquet", "../t2/x.parquet", "file:///elsewhere/x.parquet", "gone.parquet", "dir/"]
    if name == "path":
        starts = [f"{root}/", f"file://{root}/", f"file:{root}/", ""]
        paths = [starts[number % 4] + path for number, path in enumerate(paths)]
    elif suffix == "csv":
        paths = [quote(path) for path in paths]
    count = len(paths) + len(others)
    zone = None if kind == "reader" else "UTC"
    written = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=30)
    table = pa.table(
        {
            "bucket" if name == "key" else "Owner": ["b"] * count,
            "key" if name == "key" else "PATH": paths + others,
            "size": [3] * count,
            "last_modified_date": pa.array([written] * count, pa.timestamp("ms", zone)),
            "is_latest": [True] * count,
        }
    )
    if kind == "reader":
        return table.to_reader(max_chunksize=3)
    target = folder / f"inventory.{suffix}"
    if suffix == "csv":
        pa.csv.write_csv(table, target)
    else:
        pa.parquet.write_table(table, target)
    return str(target)


@pytest.mark.parametrize("kind", ["key.csv", "path.csv", "key.parquet", "path.parquet", "reader"])
def test_an_inventory_in_place_of_a_listing(table: Path, tmp_path: Path, kind: str) -> None:
    (table / "p=3" / "linked.parquet").symlink_to(tmp_path / "outside.parquet")
    (tmp_path / "outside.parquet").touch()
    snapshot = load_snapshot(LocalStore(str(table)))
    expected = set(vacuum(snapshot, now=LATER).files)
    assert vacuum(snapshot, inventory=inventory_of(table, tmp_path, kind)).files == ()  # written again since
    for path in table.rglob("*leftover*"):
        os.utime(path, (0, 0))
    old = vacuum(snapshot, inventory=inventory_of(table, tmp_path, kind))
    assert set(old.files) == {path for path in expected if "leftover" in path}
    result = vacuum(snapshot, inventory=inventory_of(table, tmp_path, kind), now=LATER, dry_run=False)
    assert set(result.files) == expected
    others = {*(table / "inner").rglob("*.parquet"), table / "p=3" / "linked.parquet"}
    assert len(others) == 3
    assert parquet_files(table) == files_delta_rs(table) | others
    assert (table / "p=2/metadata/v1.metadata.json").exists()
    assert not (table / "_delta_log" / "_last_vacuum_info").exists()


def test_an_inventory_lists_no_logs_of_inner_tables(table: Path, tmp_path: Path) -> None:
    paths = [str(path.relative_to(table)) for path in table.rglob("*.parquet")]
    rows = {"path": paths, "size": [1] * len(paths), "modificationTime": [0] * len(paths)}
    reader = pa.table(rows).to_reader()
    vacuum(load_snapshot(LocalStore(str(table))), inventory=reader, now=LATER, dry_run=False)
    assert len(list((table / "inner").glob("*.parquet"))) == 2
    assert parquet_files(table) == files_delta_rs(table) | set((table / "inner").glob("*.parquet"))


def test_an_invalid_inventory_is_refused(table: Path, tmp_path: Path) -> None:
    snapshot = load_snapshot(LocalStore(str(table)))
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "headless.csv").write_text("b,p=1/x.parquet,3\n")
    for name in ("torn.parquet", "headless.csv", "missing.csv", "list.txt"):
        with pytest.raises(InvalidArgumentError) as refused:
            vacuum(snapshot, inventory=str(tmp_path / name))
        assert refused.value.code == "DELTA_INVALID_INVENTORY"
    with pytest.raises(InvalidArgumentError, match="only one of them"):
        vacuum(snapshot, inventory="x.csv", full=False)


def started_at(root: Path, version: int) -> int:
    """When a version was made, by its commit file and its tombstones, in ms since the epoch."""
    commit = root / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    removed = [action["remove"]["deletionTimestamp"] for action in actions if "remove" in action]
    return min([commit.stat().st_mtime_ns // 1_000_000, *removed])


STEPS = ("append", "overwrite", "delete", "compact", "full", "lite", "inventory", "checkpoint")


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(STEPS), max_size=12),
    st.sampled_from(["interval 1 week", "interval 0 hours"]),
    st.randoms(use_true_random=False),
)
def test_every_version_within_the_retention_is_readable(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], retention: str, chance: random.Random
) -> None:
    root = tmp_path_factory.mktemp("t")
    write_deltalake(root, longs(id=[0]), configuration={"delta.deletedFileRetentionDuration": retention})
    ids, oldest, number = {0: [0]}, 0, 1
    for step in steps:
        table = DeltaTable(root)
        current = ids[max(ids)]
        if step in ("append", "overwrite"):
            write_deltalake(table, longs(id=[number]), mode=step)  # type: ignore[arg-type]
            current = [*current, number] if step == "append" else [number]
            number += 1
        elif step == "delete" and current:
            table.delete(f"id = {current[0]}")
            current = current[1:]
        elif step == "compact":
            table.optimize.compact()
        elif step == "checkpoint":
            table.create_checkpoint()
        elif step in ("full", "lite", "inventory"):
            (root / f"leftover-{number}.parquet").touch()
            number += 1
            reader = chance.randint(oldest, table.version())
            moment = int(datetime.now(UTC).timestamp() * 1000) + 5
            cutoff = moment if reader == table.version() else started_at(root, reader + 1) - 1
            vacuum(
                table.snapshot,
                full=step != "lite",
                inventory=inventory_of(root, root, "reader") if step == "inventory" else None,
                retention_hours=(moment - cutoff + 0.5) / 3_600_000,
                enforce_retention_duration=False,
                dry_run=False,
                now=datetime.fromtimestamp(moment / 1000, UTC),
            )
            oldest = reader
        for version in range(max(ids) + 1, DeltaTable(root).version() + 1):
            ids[version] = current
        for version in range(oldest, max(ids) + 1):
            read = deltalake.DeltaTable(root, version=version).to_pyarrow_table()
            assert sorted(read["id"].to_pylist()) == sorted(ids[version])
