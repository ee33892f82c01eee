"""A version of a table whose list of files is too long for one process: it stays in buckets, where planning goes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, strings
from lakehouse_lib.engine import snapshot_tasks
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.engine.snapshot_tasks import Blocks, Bucket, Later, Planned
from lakehouse_lib.engine.spark import reading as spark_reading
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.manifest import scan_listed
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError, StoreError, VersionNotFoundError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.log.checkpoint.read import CheckpointState, read_checkpoint
from lakehouse_lib.log.live_files import PathTwiceError
from lakehouse_lib.log.segment import Commit, Compaction, load_segment
from lakehouse_lib.log.table_identity import replaced
from lakehouse_lib.log.table_state import give_up
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectMeta, ObjectStore, open_store

#: What a bucket is meant to hold: some 200 MB in the worker that replays it.
_FILES_A_BUCKET = 200_000
_MOST_BUCKETS = 1 << 12
#: Of an action in a commit, with its statistics: rather fewer than many, so that there are buckets enough.
_BYTES_AN_ACTION = 300
#: Of commits that are read by one task.
_BYTES_OF_COMMITS = 16 << 20
#: Tasks of a planning job for each that runs at the same time.
_ROUNDS = 2
#: How often a snapshot is planned where cleanups take what the tasks were to read.
_PLANS = 3

_One = TypeVar("_One")


@dataclass(frozen=True)
class Totals:
    """Of all live files; sizes in bytes."""

    files: int
    bytes: int
    small_files: int
    small_bytes: int
    files_with_deletion_vectors: int


@dataclass(frozen=True)
class DistributedSnapshot:
    """One version, complete and unchanging, in buckets that lie in a scratch folder; made by ``distribute``.

    Attributes:
        snapshot: the version as the driver knows it: schema, properties, protocol. Asked for its files, it reads them.
        file_count, size_in_bytes: live files and their bytes.
        tombstone_count, tombstone_bytes: removed files that the log remembers, and their bytes.
    """

    snapshot: Snapshot
    file_count: int
    size_in_bytes: int
    tombstone_count: int
    tombstone_bytes: int
    _engine: ArrowEngine | SparkEngine = field(repr=False)
    _scratch: ObjectStore = field(repr=False)
    _buckets: tuple[str, ...] = field(repr=False)
    _structs_alone: int = field(repr=False)

    def prune(self, predicate: Predicate | None) -> pa.Table:
        """The files that may hold a row for which ``predicate`` is true (``FILE_SCHEMA``), in no order.

        Only these come to this process; None brings them all.
        """
        return pa.concat_tables([pa.Table.from_batches([], FILE_SCHEMA), *self._ask(snapshot_tasks.prune, predicate)])

    def totals(self, target_file_size: int) -> Totals:
        """Sums over all files; a file below half of ``target_file_size`` bytes is small."""
        parts = self._ask(snapshot_tasks.totals, target_file_size)
        sums = [sum(pc.sum(part[name]).as_py() for part in parts) for name in snapshot_tasks.TOTALS.names]
        return Totals(*sums)

    def frame(self) -> Any:
        """The live files as a Spark DataFrame with the columns of ``FILE_SCHEMA``, for whatever else is asked of them.

        It reads the scratch folder, so it lives as long as that. Statistics that the checkpoint has as structs alone
        are written as JSON first, when a frame is asked for.

        Raises:
            InvalidArgumentError: the engine is not Spark, or its session is set to pass over lists of files.
            StoreError: the buckets have gone.
        """
        if not isinstance(self._engine, SparkEngine):
            raise InvalidArgumentError(
                f"a DataFrame of an {self._engine.name} engine's snapshot",
                table=self.snapshot.store.root,
                hint="Distribute it with SparkEngine(spark)",
            )
        spark = self._engine.spark
        if not self._buckets:
            return spark.createDataFrame([], spark_reading.struct_type(Schema.from_arrow(FILE_SCHEMA)))
        version = self.snapshot.version
        metas = [snapshot_tasks.bucket_meta(self._scratch, path, version) for path in self._as_json]
        # Their very list, not their paths: Spark would look for those in its default file system, as patterns.
        listed = pa.table(
            {
                "path": strings([meta.path for meta in metas]),
                "size": int64s([meta.size for meta in metas]),
                "modificationTime": int64s([meta.modified for meta in metas]),
            }
        )
        options = {**spark_reading.OPTIONS, "recursiveFileLookup": "true"}
        stored = Schema([Field("add", Schema.from_arrow(FILE_SCHEMA))])
        rows = scan_listed(spark, stored, listed, self._scratch, options)
        return rows.where("add IS NOT NULL").select("add.*")

    @cached_property
    def _as_json(self) -> tuple[str, ...]:
        """The buckets, each with all of its statistics as JSON."""
        if not self._structs_alone:
            return self._buckets
        return tuple(path for answer in self._ask(snapshot_tasks.with_json) for path in answer["path"].to_pylist())

    def _ask(self, question: Callable[..., pa.Table], *arguments: Any) -> list[pa.Table]:
        """Each task's answers; a task has some of the buckets."""
        wanted = min(len(self._buckets), self._engine.parallelism * _ROUNDS)
        shares = [self._buckets[number::wanted] for number in range(wanted)]
        known = self.snapshot
        tasks = [
            Planned(
                self._scratch,
                known.version,
                known.metadata,
                known.protocol,
                share,
                question,
                arguments,
            )
            for share in shares
        ]
        return [self._engine.run(snapshot_tasks.ask, tasks)] if tasks else []


@contextmanager
def distribute(
    snapshot: Snapshot, engine: ArrowEngine | SparkEngine, *, scratch: str | PathLike[str] | None = None
) -> Iterator[DistributedSnapshot]:
    """Replay a version's log on the engine, by hash of the files' paths, and keep it there while the block lasts.

    Objects of the checkpoint and commits are the tasks of a first wave, buckets those of a second, which runs the very
    replay of ``Snapshot``. The driver reads the footers of the checkpoint and the commits after it; a worker holds a
    row group of the checkpoint, or a bucket.

    Args:
        snapshot: a version as ``load_snapshot`` gives it, whose files were not asked for.
        engine: ``SparkEngine(spark)`` for a cluster.
        scratch: a folder that this process and all executors see under the same path, with room for twice the
            checkpoint; default: Spark's own local folder, where all run on one machine. A subfolder that only this
            process' user may enter is made there, and deleted: executors run as the same user.

    Raises:
        InvalidArgumentError: no scratch folder, and the engine runs on other machines; or one that cannot be used.
        LogCorruptedError: an object of the log cannot be read.
        StoreError: the scratch folder is full, or failed.
    """
    folder = _local_folder(engine, snapshot) if scratch is None else scratch
    with _folder_of_its_own(folder, snapshot) as own:
        target = open_store(own)
        try:
            found = _replayed(snapshot, engine, target)
        except OSError as error:
            raise StoreError(
                f"the buckets of the snapshot cannot be written: {error.strerror or error}",
                table=snapshot.store.root,
                version=snapshot.version,
                hint=f"Make room in {folder} and in the system's temporary folder, or give another folder as scratch=",
            ) from error
        if not len(found):  # of whatever schema
            found = pa.Table.from_batches([], snapshot_tasks.SUMMARY)
        sums = [pc.sum(found[name], min_count=0).as_py() for name in snapshot_tasks.SUMMARY.names[1:]]
        objects = tuple(found["path"].to_pylist())
        files, size, tombstones, tombstone_bytes, structs_alone = sums
        yield DistributedSnapshot(
            snapshot, files, size, tombstones, tombstone_bytes, engine, target, objects, structs_alone
        )


def _replayed(snapshot: Snapshot, engine: ArrowEngine | SparkEngine, target: ObjectStore) -> pa.Table:
    """One row for each bucket (``SUMMARY``). Tasks are planned again where a cleanup has deleted what they read; a
    checkpoint with a path that is live twice is skipped."""
    tasks: list[Blocks | Later] | None = None
    failed: DeltaError | None = None
    unusable: frozenset[ObjectMeta] = frozenset()
    for _ in range(_PLANS):
        try:
            checkpoint, commits = _log(snapshot, unusable)
        except (LogCorruptedError, VersionNotFoundError) as error:
            give_up(snapshot.store, error, failed, unusable)
        expected = sum(one.size for one in commits) // _BYTES_AN_ACTION
        if checkpoint is not None:
            expected += checkpoint.files.num_rows + checkpoint.tombstones.num_rows
        buckets = min(_MOST_BUCKETS, max(engine.parallelism, math.ceil(expected / _FILES_A_BUCKET)))
        before, tasks = tasks, _tasks(snapshot, checkpoint, commits, buckets)
        if tasks == before:
            break
        groups = [Bucket(snapshot.store, target, snapshot.version)] * buckets
        try:
            return engine.exchange(snapshot_tasks.scatter, snapshot_tasks.gather, tasks, groups)
        except PathTwiceError as error:
            failed = error
            if checkpoint is None:
                raise
            unusable |= frozenset(part.meta for part in checkpoint.files.parts)
        except (LogCorruptedError, VersionNotFoundError) as error:
            failed = error
        if load_snapshot(snapshot.store, snapshot.version).metadata.id != snapshot.metadata.id:
            raise replaced(snapshot.store, snapshot.version) from failed
    assert failed is not None
    raise failed


@contextmanager
def _folder_of_its_own(folder: str | PathLike[str], snapshot: Snapshot) -> Iterator[str]:
    own = ExitStack()
    try:
        path = own.enter_context(scratch_folder(folder))
    except OSError as error:
        raise InvalidArgumentError(
            f"the scratch folder {folder}: {error.strerror or error}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Give as scratch= a folder that exists and can be written to",
        ) from error
    with own:
        yield path


def _local_folder(engine: ArrowEngine | SparkEngine, snapshot: Snapshot) -> str:
    if isinstance(engine, ArrowEngine):
        return tempfile.gettempdir()
    if not engine.shares_disk:
        raise InvalidArgumentError(
            "no scratch folder for a snapshot on a cluster",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Give scratch=, a folder that this process and all executors see under the same path",
        )
    return engine.local_folder


def _log(
    snapshot: Snapshot, unusable: frozenset[ObjectMeta] = frozenset()
) -> tuple[CheckpointState | None, list[Commit]]:
    """The checkpoint, read no further than its footers, and the commits after it; ``unusable`` objects are passed
    over."""
    first_error: LogCorruptedError | None = None
    while True:
        try:
            segment = load_segment(snapshot.store, snapshot.version, without=unusable)
        except (LogCorruptedError, VersionNotFoundError) as error:
            give_up(snapshot.store, error, first_error, unusable)
        compactions = [one.object for one in segment.deltas if isinstance(one, Compaction)]
        if compactions:  # hold nothing that the commits don't, which are smaller tasks
            unusable |= frozenset(compactions)
            continue
        commits = [one for one in segment.deltas if isinstance(one, Commit)]
        if segment.checkpoint is None:
            return None, commits
        try:
            return read_checkpoint(snapshot.store, segment.checkpoint), commits
        except LogCorruptedError as error:  # another one of the same version may be fine
            first_error = first_error or error
            unusable |= frozenset(segment.checkpoint.parts)


def _tasks(
    snapshot: Snapshot, checkpoint: CheckpointState | None, commits: Sequence[Commit], buckets: int
) -> list[Blocks | Later]:
    store, version = snapshot.store, snapshot.version
    tasks: list[Blocks | Later] = []
    for part in checkpoint.files.parts if checkpoint is not None else ():
        rows = [(block, sum(part.count(action, block) for action in ("add", "remove"))) for block in range(part.blocks)]
        held = [(block, count) for block, count in rows if count]
        tasks += [Blocks(store, part.meta, version, blocks, buckets) for blocks in _together(held, _FILES_A_BUCKET)]
    sizes = [((number, commit), commit.size) for number, commit in enumerate(commits, start=1)]
    tasks += [Later(store, some, buckets) for some in _together(sizes, _BYTES_OF_COMMITS)]
    return tasks


def _together(sizes: Iterable[tuple[_One, int]], most: int) -> Iterator[tuple[_One, ...]]:
    """Neighbours up to this size; a larger one alone."""
    some: list[_One] = []
    total = 0
    for one, size in sizes:
        if some and total + size > most:
            yield tuple(some)
            some, total = [], 0
        some.append(one)
        total += size
    if some:
        yield tuple(some)
