"""A snapshot in buckets says what the snapshot of one process says, whatever the log is made of."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.actions import FILE_SCHEMA
from lakehouse_lib.engine import distributed_snapshot, snapshot_tasks
from lakehouse_lib.engine.arrow import ArrowEngine
from lakehouse_lib.engine.distributed_snapshot import distribute
from lakehouse_lib.engine.snapshot_tasks import bucket_numbers
from lakehouse_lib.engine.spark import SparkEngine, spark_failures
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError, StoreError
from lakehouse_lib.log.keys import file_keys
from lakehouse_lib.predicates import parse
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic, put_commit, put_compaction, put_parts, put_sidecar, put_v2
from tests.log_tables import METADATA

FEATURES = ["deletionVectors", "v2Checkpoint"]
PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES, "writerFeatures": FEATURES}
HEAD = [{"protocol": PROTOCOL}, {"metaData": METADATA}]
PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("id", pa.int64())])),
        ("maxValues", pa.struct([("id", pa.int64())])),
        ("nullCount", pa.struct([("id", pa.int64())])),
    ]
)
KINDS = ("none", "classic", "structs", "parts", "v2-json", "v2-parquet")

#: What happens to a file in a commit: nothing, it goes, it gets other deleted rows, it is written again.
STEPS = st.lists(st.lists(st.sampled_from("....ardw"), min_size=9, max_size=9), min_size=1, max_size=6)


def spelled(number: int, time: int) -> str:
    """One of several spellings of a file's path."""
    return (f"f {number}", f"f%20{number}", f"./f%20{number}", f"%66%20{number}")[time % 4].replace("f ", "f%20")


def vector(number: int, time: int) -> dict[str, object]:
    return {
        "storageType": "u",
        "pathOrInlineDv": f"ab{number:018d}",
        "offset": time,
        "sizeInBytes": 40,
        "cardinality": 1 + time,
    }


class Log:
    """A log as it happens, and what is left of it."""

    def __init__(self, root: Path) -> None:
        self.store = LocalStore(str(root), fsync=False)
        self.live: dict[int, dict[str, object]] = {}
        self.gone: dict[tuple[int, int | None], dict[str, object]] = {}
        self.version = 0
        put_commit(self.store, 0, HEAD)

    def commit(self, steps: str | list[str]) -> None:
        self.version += 1
        actions = []
        for number, step in enumerate(steps):
            if step == "." or (number not in self.live and step in "rd"):
                continue
            # A file that is written again just as it is: no commit adds and removes the same.
            again = step == "w" and "deletionVector" not in self.live.get(number, {})
            if number in self.live and step in "rdw" and not again:
                actions.append(self._remove(number))
            if step in "dw" or (step == "a" and number not in self.live):
                actions.append(self._add(number, with_vector=step == "d"))
        put_commit(self.store, self.version, actions or [{"txn": {"appId": "x", "version": self.version}}])

    def checkpoint(self, kind: str) -> None:
        adds = [{"add": body} for body in self.live.values()]
        removes = [{"remove": body} for body in self.gone.values()]
        match kind:
            case "classic":
                put_classic(self.store, self.version, [*HEAD, *adds, *removes], row_group=3)
            case "structs":
                for add in adds:
                    add["add"] = add["add"] | {"stats_parsed": json.loads(str(add["add"]["stats"]))}
                put_classic(self.store, self.version, [*HEAD, *adds, *removes], stats_parsed=PARSED, row_group=4)
            case "parts":
                put_parts(self.store, self.version, [[*HEAD, *adds[::2]], [*adds[1::2], *removes]])
            case "v2-json" | "v2-parquet":
                sidecars = [put_sidecar(self.store, adds[:4]), put_sidecar(self.store, [*removes, *adds[4:]])]
                put_v2(self.store, self.version, kind.removeprefix("v2-"), [*HEAD, *sidecars])

    def _add(self, number: int, *, with_vector: bool) -> dict[str, object]:
        low = number * 10
        stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + 9}, "nullCount": {"id": 0}}
        body: dict[str, object] = {
            "path": spelled(number, self.version),
            "partitionValues": {},
            "size": 100 + number,
            "modificationTime": self.version,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        if with_vector:
            body["deletionVector"] = vector(number, self.version)
        self.live[number] = body
        self.gone.pop((number, self.version if with_vector else None), None)
        return {"add": body}

    def _remove(self, number: int) -> dict[str, object]:
        body = self.live.pop(number)
        removed = {
            "path": spelled(number, self.version + 1),
            "deletionTimestamp": self.version,
            "dataChange": True,
            "size": body["size"],
        }
        known = body.get("deletionVector")
        if known is not None:
            removed["deletionVector"] = known
        self.gone[number, known["offset"] if known is not None else None] = removed
        return {"remove": removed}


def in_order(files: pa.Table) -> list[dict[str, object]]:
    rows = files.to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row["path"], json.dumps(row["deletionVector"])))


def assert_alike(snapshot: Snapshot, engine: ArrowEngine | SparkEngine) -> None:
    whole = load_snapshot(snapshot.store, snapshot.version)
    with distribute(snapshot, engine) as found:
        assert found.file_count == whole.file_count
        assert found.size_in_bytes == sum(whole.files["size"].to_pylist())
        assert found.tombstone_count == len(whole.tombstones)
        assert found.tombstone_bytes == sum(size or 0 for size in whole.tombstones["size"].to_pylist())
        everything = found.prune(None)
        assert everything.schema.equals(FILE_SCHEMA)
        assert in_order(everything) == in_order(whole.files)
        for condition in ("id = 25", "id < 30 OR id >= 70", "id IS NULL"):
            predicate = parse(condition, whole.schema)
            assert in_order(found.prune(predicate)) == in_order(whole.prune(predicate))
        totals = found.totals(2 * 104)
        small = [size for size in whole.files["size"].to_pylist() if size < 104]
        assert (totals.files, totals.bytes) == (found.file_count, found.size_in_bytes)
        assert (totals.small_files, totals.small_bytes) == (len(small), sum(small))
        vectors = whole.files["deletionVector"]
        assert totals.files_with_deletion_vectors == len(vectors) - vectors.null_count


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


def test_a_broken_checkpoint_is_passed_over(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("classic")
    log.commit("r..a")
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(b"PAR1 is not all there is to it")
    assert_alike(load_snapshot(log.store), ArrowEngine())


def test_a_broken_checkpoint_is_passed_over_for_a_good_one_of_the_same_version(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("v2-parquet")
    broken = tmp_path / "_delta_log" / f"{log.version:020}.checkpoint.parquet"  # which is taken first
    broken.write_bytes(b"PAR1 is not all there is to it")
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    log.commit("r..a")
    assert_alike(load_snapshot(log.store), ArrowEngine())


def test_a_log_without_a_checkpoint_that_can_be_read_says_which_cannot(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("classic")
    snapshot = load_snapshot(log.store)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(b"PAR1 is not all there is to it")
    with pytest.raises(LogCorruptedError, match=path.name), distribute(snapshot, ArrowEngine()):
        pass


@pytest.mark.parametrize(("before", "after"), [(100, 3), (3, 100), (3, None)])
def test_a_checkpoint_that_is_replaced_meanwhile_loses_no_file(tmp_path, before, after):
    """Row groups are numbered by the driver, and read by tasks that open the object themselves."""
    log = Log(tmp_path)
    log.commit("a" * 9)
    actions = [*HEAD, *({"add": body} for body in log.live.values())]
    path = tmp_path / put_classic(log.store, log.version, actions, row_group=before)

    class Slow(ArrowEngine):
        def exchange(self, *arguments):
            if after is None:
                path.unlink()
            else:
                put_classic(log.store, log.version, actions, row_group=after)
            return super().exchange(*arguments)

    snapshot = load_snapshot(log.store)
    with pytest.raises(LogCorruptedError, match=r"replaced since.*Open the table again"), distribute(snapshot, Slow(2)):
        pass


def stored_otherwise(path, change):
    """Rewrite a checkpoint, each field of ``add`` changed."""
    table = pq.ParquetFile(path).read()
    adds = table["add"].combine_chunks()
    names = [field.name for field in adds.type]
    fields = [change(name, adds.field(number)) for number, name in enumerate(names)]
    index = table.column_names.index("add")
    pq.write_table(table.set_column(index, "add", pa.StructArray.from_arrays(fields, names, mask=adds.is_null())), path)


def large_strings(_name, column):
    return column.cast(pa.large_string()) if column.type == pa.string() else column


def encoded_paths(name, column):
    return column.dictionary_encode() if name == "path" else column


def members_turned_round(name, column):
    if name != "deletionVector":
        return column
    members = [field.name for field in column.type][::-1]
    return pa.StructArray.from_arrays([column.field(member) for member in members], members, mask=column.is_null())


@pytest.mark.parametrize("change", [large_strings, encoded_paths, members_turned_round])
def test_a_checkpoint_in_other_types_meets_its_commits(tmp_path, change):
    log = Log(tmp_path)
    log.commit("aaaaaaaaa")
    log.commit("ddd......")
    log.checkpoint("classic")
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    stored_otherwise(path, change)
    log.commit("rd.rrd..w")
    assert_alike(load_snapshot(log.store), ArrowEngine(16))


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
