"""A snapshot in buckets says what the snapshot of one process says, whatever the log is made of."""

from __future__ import annotations

import errno
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.engine import distributed_snapshot, snapshot_tasks
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.distributed_snapshot import distribute
from lakehouse_lib.engine.snapshot_tasks import bucket_numbers
from lakehouse_lib.engine.spark.engine import SparkEngine, spark_failures
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError, StoreError
from lakehouse_lib.expressions import parse
from lakehouse_lib.log.file_keys import file_keys
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic, put_compaction
from tests.replayed_log import HEAD, PARSED, Log, assert_alike, in_order, spelled

KINDS = ("none", "classic", "structs", "parts", "v2-json", "v2-parquet")

#: What happens to a file in a commit: nothing, it goes, it gets other deleted rows, it is written again.
STEPS = st.lists(st.lists(st.sampled_from("....ardw"), min_size=9, max_size=9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, at=st.integers(0, 5), kind=st.sampled_from(KINDS), buckets=st.integers(1, 5))
def test_any_log_says_the_same_in_buckets(steps, at, kind, buckets, tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    log = Log(root)
    for number, some in enumerate(steps):
        log.commit(some)
        if number == at:
            log.checkpoint(kind)
    assert_alike(load_snapshot(log.store), ArrowEngine(buckets))
    shutil.rmtree(root)


@pytest.mark.parametrize(("kind", "on_one_machine"), [("structs", True), ("v2-json", False)])
def test_on_spark(kind, on_one_machine, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(SparkEngine, "shares_disk", on_one_machine)  # else through Spark's shuffle
    log = Log(tmp_path)
    for some in ("aaaaaaaaa", "rd.w.....", "...d.r..a"):
        log.commit(some)
    log.checkpoint(kind)
    for some in ("ar.d....w", "......rrr", ".w....a.."):
        log.commit(some)
    snapshot = load_snapshot(log.store)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with distribute(snapshot, SparkEngine(spark), scratch=None if on_one_machine else scratch) as found:
        assert in_order(found.prune(None)) == in_order(snapshot.files)
        predicate = parse("id = 25", snapshot.schema)
        assert in_order(found.prune(predicate)) == in_order(snapshot.prune(predicate))
        frame = found.frame()
        assert frame.columns == FILE_SCHEMA.names
        rows = frame.select("path", "size", "deletionVector.cardinality").collect()
        assert {row["path"]: row["size"] for row in rows} == dict(
            zip(*(snapshot.files[name].to_pylist() for name in ("path", "size")), strict=True)
        )
        assert sum(row["cardinality"] is not None for row in rows) == found.totals(1).files_with_deletion_vectors
    assert list(scratch.iterdir()) == []


def test_a_frame_has_statistics_that_are_structs_alone(tmp_path, spark):
    """And reads the scratch folder as it is spelled, whatever the session is set to."""
    log = Log(tmp_path / "t")
    log.commit("aaaaaaaaa")
    adds = [{"add": body | {"stats_parsed": json.loads(str(body["stats"]))}} for body in log.live.values()]
    put_classic(log.store, log.version, [*HEAD, *adds], stats_parsed=PARSED, without=["add.stats"])
    log.commit("r........")
    snapshot = load_snapshot(log.store)
    scratch = tmp_path / "day=1" / "50% of {a,b} *"
    scratch.mkdir(parents=True)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with distribute(snapshot, SparkEngine(spark), scratch=scratch) as found:
            frame = found.frame()
            assert frame.columns == FILE_SCHEMA.names
            rows = {row["path"]: json.loads(row["stats"]) for row in frame.select("path", "stats").collect()}
            told = {
                row["path"]: json.loads(row["stats"]) for row in snapshot.files.select(["path", "stats"]).to_pylist()
            }
            assert rows == told
            assert len(rows) == 8
            for bucket in scratch.rglob("*.parquet"):
                bucket.unlink()
            with pytest.raises(StoreError, match="FILE_NOT_EXIST"), spark_failures():
                frame.count()
            with pytest.raises(StoreError, match="is gone"):
                found.frame()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_commits_are_replayed_rather_than_their_compactions(tmp_path):
    log = Log(tmp_path)
    for some in ("aaaaaaaaa", "r.w......", "d..r....."):
        log.commit(some)
    expected = in_order(load_snapshot(log.store).files)
    left = [{"add": body} for body in log.live.values()] + [{"remove": body} for body in log.gone.values()]
    put_compaction(log.store, 1, 3, left)
    assert_alike(load_snapshot(log.store), ArrowEngine())
    with distribute(load_snapshot(log.store), ArrowEngine()) as found:
        assert in_order(found.prune(None)) == expected


def test_an_empty_table_has_no_buckets(tmp_path, spark):
    snapshot = load_snapshot(Log(tmp_path).store)
    with distribute(snapshot, ArrowEngine()) as found:
        assert found.file_count == found.totals(1).files == found.prune(None).num_rows == 0
    with distribute(snapshot, SparkEngine(spark)) as found:
        assert found.frame().count() == 0


@pytest.fixture
def bucket_sizes(monkeypatch):
    """Files and tombstones of each bucket, of which about 30 are meant to share one."""
    monkeypatch.setattr(distributed_snapshot, "_FILES_A_BUCKET", 30)
    sizes = []
    gather = snapshot_tasks.gather

    def watched(bucket, pieces):
        found = gather(bucket, pieces)
        sizes.append(found["files"][0].as_py() + found["tombstones"][0].as_py())
        return found

    monkeypatch.setattr(snapshot_tasks, "gather", watched)
    return sizes


def test_no_task_holds_the_table(tmp_path, bucket_sizes):
    """The driver reads no file action of the checkpoint, a worker a row group or a bucket of it."""
    log = Log(tmp_path)
    log.commit("a" * 300)
    log.checkpoint("classic")  # row groups of three
    snapshot = load_snapshot(log.store)
    with distribute(snapshot, ArrowEngine(2)) as found:
        assert found.file_count == 300
        predicate = parse("id = 1005", snapshot.schema)
        assert found.prune(predicate)["size"].to_pylist() == [200]
    assert snapshot.state.files.base.nbytes == 0
    assert sum(bucket_sizes) == 300
    assert 20 < max(bucket_sizes) < 60


@pytest.mark.parametrize("kind", ["none", "classic"])
def test_buckets_are_made_for_tombstones_and_commits_too(tmp_path, bucket_sizes, kind):
    """A table whose files are almost all removed, or none of them in a checkpoint."""
    log = Log(tmp_path)
    log.commit("a" * 300)
    log.commit("r" * 290)
    log.checkpoint(kind)
    with distribute(load_snapshot(log.store), ArrowEngine(2)) as found:
        assert (found.file_count, found.tombstone_count) == (10, 290)
    assert sum(bucket_sizes) == 300
    assert max(bucket_sizes) < 60


def test_a_question_after_the_block_is_refused(tmp_path):
    log = Log(tmp_path)
    log.commit("aaa")
    with distribute(load_snapshot(log.store), ArrowEngine()) as found:
        pass
    with pytest.raises(StoreError, match=r"is gone.*inside the block"):
        found.totals(1)


def test_a_spoiled_bucket_is_an_error_and_never_the_whole_table(tmp_path):
    log = Log(tmp_path / "t")
    log.commit("aaaaaa")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with distribute(load_snapshot(log.store), ArrowEngine(2), scratch=scratch) as found:
        first = next(scratch.rglob("*.parquet"))
        first.write_bytes(first.read_bytes()[:-10])
        with pytest.raises(LogCorruptedError, match=first.name):
            found.prune(None)


@pytest.mark.parametrize("folder", ["missing", "a file"])
def test_a_scratch_folder_that_is_none_is_refused(tmp_path, folder):
    (tmp_path / "a file").touch()
    snapshot = load_snapshot(Log(tmp_path / "t").store)
    with (
        pytest.raises(InvalidArgumentError, match=rf"scratch folder .*{folder}.*folder that exists"),
        distribute(snapshot, ArrowEngine(), scratch=tmp_path / folder),
    ):
        pass


def test_a_full_disk_is_told_and_nothing_stays(tmp_path, monkeypatch):
    log = Log(tmp_path / "t")
    log.commit("aaa")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with (
        pytest.raises(StoreError, match=r"No space left on device.*Make room in"),
        distribute(load_snapshot(log.store), ArrowEngine(), scratch=scratch),
    ):
        pass
    assert list(scratch.iterdir()) == []


def test_a_cluster_needs_a_folder_that_all_see(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(SparkEngine, "shares_disk", False)
    snapshot = load_snapshot(Log(tmp_path).store)
    with pytest.raises(InvalidArgumentError, match="scratch="), distribute(snapshot, SparkEngine(spark)):
        pass


def test_only_spark_has_frames(tmp_path):
    with (
        distribute(load_snapshot(Log(tmp_path).store), ArrowEngine()) as found,
        pytest.raises(DeltaError, match=r"SparkEngine\(spark\)"),
    ):
        found.frame()


def test_spellings_of_a_path_share_a_bucket():
    store = LocalStore("/t", fsync=False)
    paths = [spelled(number, time) for number in range(50) for time in range(4)]
    table = pa.table({"path": paths, "deletionVector": pa.nulls(len(paths), FILE_SCHEMA.field("deletionVector").type)})
    numbers = bucket_numbers(file_keys(table, store), 7).reshape(50, 4)
    assert (numbers == numbers[:, :1]).all()
    assert len(np.unique(numbers)) == 7


@given(st.lists(st.text(max_size=40)), st.integers(1, 300))
def test_a_bucket_is_the_text_s_own(texts, buckets):
    together = bucket_numbers(pa.array(texts, pa.string()), buckets)
    alone = [bucket_numbers(pa.array([text]), buckets)[0] for text in texts]
    assert together.tolist() == [int(one) for one in alone]
    assert all(one < buckets for one in alone)


def test_buckets_are_about_even():
    paths = pa.array([f"part-{n % 200:05d}-{n:08x}-0000-4000-8000-c000.snappy.parquet" for n in range(100_000)])
    counts = np.bincount(bucket_numbers(paths, 50), minlength=50)
    assert counts.min() > 1800
    assert counts.max() < 2200
