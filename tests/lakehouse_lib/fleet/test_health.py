"""The health of a table from its log, compared with the files on disk and with delta-rs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable as LakehouseTable
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.health import Health, health
from lakehouse_lib.fleet.health.partitions import heavy_partitions
from lakehouse_lib.fleet.health.sizes import BUCKETS
from lakehouse_lib.fleet.health.writes import Writer
from lakehouse_lib.fleet.overlap import _mean_depth
from lakehouse_lib.fleet.planner.candidates import steps_of
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.upkeep import vacuum_step
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, open_store
from tests.log_builder import add, put, statistics
from tests.peers import files_delta_rs

DAY = 86_400.0
PARTS = ("0", "1", "__HIVE_DEFAULT_PARTITION__")


def parts_of(table: Path) -> list[str]:
    return [file.parent.name.removeprefix("part=") for file in files_delta_rs(table)]


def of(table: Path, version: int | None = None, **arguments: object) -> Health:
    return health(load_snapshot(open_store(table), version), **arguments)  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five appends of increasing size, a delete, two partitions and a null partition."""
    root = tmp_path / "t"
    for size in (10, 100, 1000, 10_000, 100_000):
        parts = np.arange(size) % 2
        rows = {
            "part": pa.array(parts.astype(str)),
            "id": np.arange(size),
            "noise": np.random.default_rng(size).random(size),
        }
        write_deltalake(root, pa.table(rows), mode="append", partition_by=["part"])
    write_deltalake(root, pa.table({"part": pa.array([None], pa.string()), "id": [1], "noise": [0.0]}), mode="append")
    DeltaTable(root).delete("part = '0' AND id = 8")
    return root


def test_health_counts_the_files_on_disk(table: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="target_file_size is 0; expected a positive number of bytes"):
        of(table, target_file_size=0)
    report = of(table, target_file_size=20_000)
    sizes = np.array([file.stat().st_size for file in files_delta_rs(table)])
    assert report.version == DeltaTable(table).version()
    assert report.files == len(sizes)
    assert report.bytes == sizes.sum()
    assert report.rows == DeltaTable(table).to_pyarrow_table().num_rows
    assert report.mean_file_size == int(sizes.mean())
    assert report.median_file_size == int(np.median(sizes))
    assert report.p05_file_size == int(np.percentile(sizes, 5))
    assert report.p95_file_size == int(np.percentile(sizes, 95))
    assert report.small_files == (sizes < 10_000).sum()
    assert report.small_file_share == pytest.approx((sizes < 10_000).mean())
    assert report.partitions == 3
    assert report.compactable_files == report.small_files - 1  # the null partition has only one file
    assert report.largest_partition_files == 5
    totals = [sum(size for size, part in zip(sizes, parts_of(table), strict=True) if part == name) for name in PARTS]
    assert (report.largest_partition_bytes, report.median_partition_bytes) == (max(totals), int(np.median(totals)))
    assert report.largest_partition_share == pytest.approx(max(totals) / sizes.sum())
    for bucket, end in zip(report.size_histogram, [*BUCKETS[1:], np.inf], strict=True):
        inside = [size for size in sizes if bucket.start <= size < end]
        assert (bucket.files, bucket.bytes) == (len(inside), sum(inside))
    assert (report.columns, report.partition_columns) == (3, ("part",))
    json.dumps(report.to_dict())


def test_tombstones_and_reclaimable_files(table: Path) -> None:
    fresh, later = of(table), of(table, now=time.time() + 8 * DAY)
    assert fresh.tombstones == later.tombstones > 0
    assert (fresh.reclaimable_files, fresh.reclaimable_bytes) == (0, 0)
    assert later.reclaimable_files == later.tombstones
    assert later.reclaimable_bytes == later.tombstone_bytes > 0


def test_files_that_a_vacuum_has_deleted_are_not_reclaimable(table: Path) -> None:
    moment = time.time() + 8 * DAY
    before = of(table, now=moment)
    step = vacuum_step("t", load_snapshot(open_store(table)), Policy(), int(moment * 1000))
    assert step is not None
    assert step.predicted.files_removed == before.reclaimable_files > 0
    assert step.predicted.bytes_freed == before.reclaimable_bytes
    LakehouseTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert of(table, now=moment).tombstones == before.tombstones
    assert of(table, now=moment).reclaimable_files == 0
    assert vacuum_step("t", load_snapshot(open_store(table)), Policy(), int(moment * 1000)) is None


def test_the_last_vacuum_of_an_earlier_table_in_the_folder_does_not_count(table: Path) -> None:
    later = time.time() + 8 * DAY
    files = of(table, now=later).reclaimable_files
    hint = {"latestCommitVersionOutsideOfRetentionWindow": 1000}
    (table / "_delta_log" / "_last_vacuum_info").write_text(json.dumps(hint))
    assert of(table, now=later).reclaimable_files == files > 0


def test_the_same_commits_are_due_for_a_checkpoint_as_in_a_plan(tmp_path: Path) -> None:
    """Before, the checkpoint of a large table was due, but never planned, because it did not pay."""
    policy = Policy(("checkpoint",), payback_queries=1e-6)
    for version in range(12):
        put(tmp_path, version, add(f"{version}"))
        snapshot = load_snapshot(open_store(tmp_path))
        report = health(snapshot)
        assert report.replayed_bytes == report.log_bytes > 0
        steps = steps_of("t", snapshot, policy, Corrections([]))
        assert (report.checkpoint_lag >= 1) == bool(steps) == (version >= 9)
        assert all(step.predicted.gain > 0 for step in steps)


def test_writes_by_day_and_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    task = {"operation": "WRITE", "engineInfo": "e/1", "userName": "ann", "airflow": {"dag_id": "load", "run_id": "r"}}
    infos = [{"operation": "DELETE"}, task, task, {"operation": "MERGE"}, {"operation": 5, "airflow": "x"}]
    for version, info in enumerate(infos):
        files = 1_000 if version == 3 else 1  # of a large commit only the beginning is read
        put(tmp_path, version, {"commitInfo": info}, *(add(f"{version}-{number}") for number in range(files)))
    log = tmp_path / "_delta_log"
    os.utime(log / f"{0:020d}.json", (now - 8 * DAY, now - 8 * DAY))
    os.utime(log / f"{1:020d}.json", (now - DAY, now - DAY))
    writes = of(tmp_path, now=now + 5).writes
    assert (writes.commits, writes.commits_read) == (4, 4)
    assert writes.per_day == pytest.approx(4 / 7)
    assert sorted(writes.by_day.values()) == [1, 3]
    assert writes.writers[0] == Writer("WRITE", "e/1", "ann", "load", 2)
    assert set(writes.writers[1:]) == {Writer("MERGE", None, None, None, 1), Writer(None, None, None, None, 1)}
    monkeypatch.setattr("lakehouse_lib.fleet.health.writes.MOST_COMMITS", 2)
    fewer = of(tmp_path, now=now + 5).writes
    assert (fewer.commits, fewer.commits_read, len(fewer.writers)) == (4, 2, 2)


def test_versions_and_the_last_checkpoint(table: Path) -> None:
    before = of(table)
    assert (before.checkpoint_version, before.checkpoint_age) == (None, None)
    assert before.commits_since_checkpoint == before.versions == before.version + 1
    DeltaTable(table).create_checkpoint()
    write_deltalake(table, pa.table({"part": ["0"], "id": [1], "noise": [0.0]}), mode="append")
    after = of(table, now=time.time() + DAY)
    assert after.checkpoint_version == before.version
    assert after.commits_since_checkpoint == 1
    assert after.checkpoint_age == pytest.approx(DAY, abs=60)
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    assert (of(table).oldest_version, of(table).versions) == (1, after.versions - 1)


def test_rows_are_unknown_if_a_file_has_no_row_count(tmp_path: Path) -> None:
    put(tmp_path, 0, add("0", size=1, stats='{"numRecords":3}'), add("1", size=1))
    assert of(tmp_path).rows is None


def test_an_empty_table_is_healthy(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    report = of(tmp_path / "t", clustered_by=["id"])
    assert (report.files, report.bytes, report.rows, report.mean_file_size, report.partitions) == (0, 0, 0, None, 0)


def test_no_data_file_is_opened(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_input = LocalStore.open_input

    def open_log(store: LocalStore, path: str) -> pa.NativeFile:
        assert path.startswith("_delta_log/")
        return open_input(store, path)

    monkeypatch.setattr(LocalStore, "open_input", open_log)
    of(table, clustered_by=["id", "noise"])


def test_overlap_of_a_sorted_and_of_a_shuffled_column(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for start in range(0, 80, 10):
        write_deltalake(root, pa.table({"key": list(range(start, start + 10)), "other": [0, 1] * 5}), mode="append")
    assert of(root, clustered_by=["key", "other"]).clustering == {"key": 1.0, "other": 8.0}
    with pytest.raises(InvalidArgumentError, match="'missing'"):
        of(root, clustered_by=["missing"])


def test_skipping_of_a_sorted_and_of_a_shuffled_column(tmp_path: Path) -> None:
    for start in range(0, 80, 10):
        rows = {"key": list(range(start, start + 10)), "other": [0, 1] * 5, "flag": [True, False] * 5, "p": ["a"] * 10}
        write_deltalake(tmp_path, pa.table(rows), mode="append", partition_by=["p"])
    report = of(tmp_path, clustered_by=["key", "other", "flag", "p"])
    assert report.skipping == {"key": 1 - 1 / 8, "other": 0.0, "flag": 0.0}  # flag has no bounds, and p is not a column


ranges = st.lists(
    st.one_of(st.none(), st.tuples(st.integers(-5, 5), st.integers(0, 4)).map(lambda r: (r[0], r[0] + r[1]))),
    max_size=8,
)


@given(ranges, st.booleans())
def test_overlap_is_what_counting_one_by_one_gives(files: list[tuple[int, int] | None], text: bool) -> None:
    kind = pa.string() if text else pa.int64()

    def value(number: int | None) -> object:
        return None if number is None else f"{number + 10:02d}" if text else number

    low = pa.array([value(f[0] if f else None) for f in files], kind)
    high = pa.array([value(f[1] if f else None) for f in files], kind)
    ranges_of_files = [f for f in files if f]
    points = [point for f in ranges_of_files for point in f]
    expected = [sum(f is None or f[0] <= point <= f[1] for f in files) for point in points]
    depth = _mean_depth(low, high)
    assert depth == (pytest.approx(np.mean(expected)) if points else None)


@given(ranges)
def test_skipped_share_is_what_counting_file_by_file_gives(files: list[tuple[int, int] | None]) -> None:
    with tempfile.TemporaryDirectory() as root:
        adds = [add(f"{n}", **({"stats": statistics(*ends)} if ends else {})) for n, ends in enumerate(files)]
        put(Path(root), 0, *adds)
        report = of(Path(root), clustered_by=["id"])
    shares = []
    for value in [end for ends in files if ends for end in ends]:
        skipped = 0
        for ends in files:
            if ends is not None and not ends[0] <= value <= ends[1]:
                skipped += 1
        shares.append(skipped / len(files))
    assert report.skipping == {"id": pytest.approx(np.mean(shares) if shares else 0.0)}
    assert report.uncounted_files == sum(ends is None for ends in files)


def test_the_heaviest_partitions_are_those_on_disk(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    sizes: dict[str, list[int]] = {part: [] for part in PARTS}
    for file in files_delta_rs(table):
        sizes[file.parent.name.removeprefix("part=")].append(file.stat().st_size)
    target = 2 * max(sizes["1"]) + 1  # all files of partition 1 are small, and one of partition 0 may not be
    heavy = heavy_partitions(snapshot, target, most=2)
    assert heavy is not None
    assert (heavy.columns, heavy.partitions) == (("part",), 3)
    by_bytes = sorted(PARTS, key=lambda part: -sum(sizes[part]))[:2]
    assert [partition.values for partition in heavy.largest] == [(part,) for part in by_bytes]
    assert [(each.files, each.bytes) for each in heavy.largest] == [(len(sizes[p]), sum(sizes[p])) for p in by_bytes]
    assert heavy.fragmented[0].values == ("1",)
    assert heavy.fragmented[0].small_files == len(sizes["1"])
    everything = heavy_partitions(snapshot, 0, most=9)
    assert everything is not None
    assert everything.largest[-1].values == (None,)
    assert everything.fragmented == ()
    write_deltalake(table.with_name("flat"), pa.table({"id": [1]}))
    assert heavy_partitions(load_snapshot(open_store(table.with_name("flat"))), 1, most=2) is None
