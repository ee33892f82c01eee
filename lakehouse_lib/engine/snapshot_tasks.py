"""A snapshot that no process holds whole: the tasks that replay a log bucket by bucket, and that plan on the buckets.

A bucket has the files whose paths hash to its number, so every action of a file meets in one bucket, where the same
replay as in one process (``log.replay``) decides. What is left is written in the form of a checkpoint's sidecar, one
object a bucket, which a later task opens as a small snapshot. Nothing here imports Spark.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, int64s, strings
from lakehouse_lib.engine.base import Piece, is_small
from lakehouse_lib.errors import LogCorruptedError, StoreError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.log.checkpoint.columns import DISTINCT_PATHS, cast_stored
from lakehouse_lib.log.checkpoint.part import FieldPath, JsonPart, ParquetPart, open_part, unreadable
from lakehouse_lib.log.checkpoint.read import CheckpointState
from lakehouse_lib.log.checkpoint.rows import CheckpointRows
from lakehouse_lib.log.commit_file import CommitActions, read_commit
from lakehouse_lib.log.replay import replay, state_of
from lakehouse_lib.log.row_positions import drop_rows
from lakehouse_lib.log.segment import Commit
from lakehouse_lib.log.table_state import VersionState
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, FILE_SCHEMA, TOMBSTONE_SCHEMA, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.base import ObjectMeta, ObjectStore

_ACTIONS = ("add", "remove")
_SCHEMAS = {"add": FILE_SCHEMA, "remove": TOMBSTONE_SCHEMA}
_FIELDS = {"add": (*FILE_SCHEMA.names, "stats_parsed"), "remove": tuple(TOMBSTONE_SCHEMA.names)}
_ROW_GROUP = 50_000
_HASHED_AT_ONCE = 16_384
_WIRE = pa.ipc.IpcWriteOptions(compression="lz4")

#: What is known of a bucket: where it lies, how many files (tombstones) it has, and their bytes; and how many of its
#: files have statistics as structs alone.
SUMMARY = pa.schema(
    [
        ("path", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("tombstones", pa.int64()),
        ("tombstone_bytes", pa.int64()),
        ("structs_alone", pa.int64()),
    ]
)

#: Sums over the files of a bucket; see ``distributed_snapshot.Totals``.
TOTALS = pa.schema(
    [(name, pa.int64()) for name in ("files", "bytes", "small_files", "small_bytes", "files_with_deletion_vectors")]
)


@dataclass(frozen=True)
class Blocks:
    """Wave 1: row groups of one object of the checkpoint, which is ``meta`` still."""

    store: ObjectStore
    meta: ObjectMeta
    version: int
    blocks: tuple[int, ...]
    buckets: int


@dataclass(frozen=True)
class Later:
    """Wave 1: some commits, with their numbers after the checkpoint, from 1."""

    store: ObjectStore
    commits: tuple[tuple[int, Commit], ...]
    buckets: int


@dataclass(frozen=True)
class Bucket:
    """Wave 2: what becomes one object of ``scratch``."""

    store: ObjectStore
    scratch: ObjectStore
    version: int


@dataclass(frozen=True)
class Planned:
    """Some buckets of a snapshot, and what is asked of each: ``question(bucket's snapshot, *arguments)``."""

    scratch: ObjectStore
    version: int
    metadata: Metadata
    protocol: Protocol
    buckets: tuple[str, ...]
    question: Callable[..., pa.Table]
    arguments: tuple[Any, ...] = field(default=())


def scatter(task: Blocks | Later) -> Iterator[Piece]:
    """Send each action to its file's bucket. The order of a piece tells the commit (0: the checkpoint) and the kind."""
    if isinstance(task, Later):
        for number, commit in task.commits:
            actions = read_commit(task.store, commit.version, size=commit.size)
            for kind, table in enumerate((actions.adds, actions.removes)):
                yield from _cut(table, task.store, task.buckets, 2 * number + kind)
        return
    part = _part(task)
    for block in task.blocks:
        for kind, action in enumerate(_ACTIONS):
            if part.count(action, block):
                yield from _cut(_as_schema(task, part, action, block), task.store, task.buckets, kind)


def _part(task: Blocks) -> JsonPart | ParquetPart:
    """The object whose row groups the driver has numbered. Another one in its place has others, or as many of other
    rows: before it is opened it may be broken besides, and after it may have come just before."""
    opened = JsonPart if task.meta.path.endswith(".json") else open_part
    _check_unchanged(task)
    part = opened(task.store, task.meta, task.version)
    _check_unchanged(task)
    return part


def _as_schema(task: Blocks, part: JsonPart | ParquetPart, action: str, block: int) -> pa.Table:
    """Actions in the types that those of commits have: parts may differ, and equal paths must have equal bytes."""
    schema = _SCHEMAS[action]
    columns = part.read(action, block, _FIELDS[action])
    try:
        for name in columns.keys() & set(schema.names):
            columns[name] = cast_stored(columns[name], schema.field(name).type, len(columns[name]))
    except pa.ArrowException as error:
        raise unreadable(task.store, task.meta.path, task.version, str(error)) from error
    return pa.table(columns)


def _check_unchanged(task: Blocks) -> None:
    if task.store.head(task.meta.path) != task.meta:
        raise LogCorruptedError(
            f"the checkpoint's object {task.meta.path} has gone, or has been replaced since it was opened",
            table=task.store.root,
            version=task.version,
            hint="Open the table again: a newer checkpoint may have taken its place",
        )


def gather(bucket: Bucket, pieces: Iterator[Piece]) -> pa.Table:
    """Replay a bucket and write what is left of it; a row of SUMMARY."""
    found: dict[int, list[pa.Table]] = defaultdict(list)
    for piece in pieces:
        found[piece.order].append(pa.ipc.open_stream(piece.data).read_all())
    base = {action: _together(found.pop(kind, [])) for kind, action in enumerate(_ACTIONS)}
    commits = [
        CommitActions(
            number,
            pa.concat_tables([_none(FILE_SCHEMA), *found.get(2 * number, [])]),
            pa.concat_tables([_none(TOMBSTONE_SCHEMA), *found.get(2 * number + 1, [])]),
            _none(CHANGE_FILE_SCHEMA),
        )
        for number in sorted({order // 2 for order in found})
    ]
    part = _Gathered({action: table for action, table in base.items() if table is not None})
    files, tombstones = (CheckpointRows(bucket.store, bucket.version, [part], a, _SCHEMAS[a]) for a in _ACTIONS)
    state = replay(
        state_of(CheckpointState(files, tombstones, None, None, {}, {}), bucket.store), commits, bucket.store
    )
    state.files.check_paths()
    left = {"add": _left(base["add"], state.files), "remove": _left(base["remove"], state.tombstones)}
    path = f"{uuid.uuid4().hex}.parquet"
    _write(bucket.scratch, path, left)
    numbers = [one for action in _ACTIONS for one in (len(left[action]), _size(left[action]))]
    numbers.append(_structs_alone(left["add"]))
    return pa.Table.from_arrays([strings([path]), *(int64s([number]) for number in numbers)], schema=SUMMARY)


def ask(task: Planned) -> pa.Table:
    """The answers of the task's buckets, one after the other."""
    return pa.concat_tables([task.question(_opened(task, path), *task.arguments) for path in task.buckets])


def prune(snapshot: Snapshot, predicate: Predicate | None) -> pa.Table:
    """A question: the files that may match."""
    return snapshot.prune(predicate)


def totals(snapshot: Snapshot, target_file_size: int) -> pa.Table:
    """A question: a row of TOTALS."""
    files = snapshot.file_columns(["size", "deletionVector"])
    sizes = files["size"]
    small = sizes.filter(bools(is_small(sizes.to_numpy(), target_file_size)))
    numbers = [len(files), _sum(sizes), len(small), _sum(small), len(files) - files["deletionVector"].null_count]
    return pa.Table.from_arrays([int64s([number]) for number in numbers], schema=TOTALS)


def with_json(snapshot: Snapshot) -> pa.Table:
    """A question: the path of a bucket beside the asked one, of the same files, whose statistics are all JSON."""
    path = f"{uuid.uuid4().hex}.parquet"
    _write(snapshot.store, path, {"add": snapshot.files})
    return pa.Table.from_arrays([strings([path])], ["path"])


def bucket_numbers(paths: pa.Array, buckets: int) -> NDArray[np.uint16]:
    """A number below ``buckets`` (at most 65,536) for each path, the same in every process."""
    numbers = [np.zeros(0, np.uint16)]
    for chunk in paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]:
        for start in range(0, len(chunk), _HASHED_AT_ONCE):
            hashes = _hashes(chunk.slice(start, _HASHED_AT_ONCE))
            numbers.append((hashes % np.uint64(buckets)).astype(np.uint16))
    return np.concatenate(numbers)


def _hashes(texts: pa.Array) -> NDArray[np.uint64]:
    """Byte times a weight of its place, summed up, then mixed."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.zeros(0, np.uint8)
    ends -= ends[0]
    places = np.arange(len(letters)) - np.repeat(ends[:-1], np.diff(ends))
    weighed = (letters.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[places % len(_WEIGHTS)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)])
    hashes = sums[ends[1:]] - sums[ends[:-1]]
    return np.asarray((hashes ^ (hashes >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20))


_WEIGHTS = np.random.default_rng(20).integers(0, 1 << 63, 1 << 10, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


class _Gathered:
    """Actions in memory as an object of a checkpoint: one block, its fields as columns."""

    path = "a bucket"
    meta = ObjectMeta(path, 0, 0)
    blocks = 1

    def __init__(self, actions: Mapping[str, pa.Table]) -> None:
        self._actions = actions

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._actions.values())

    def count(self, action: str, _block: int, /) -> int:
        return self._actions[action].num_rows if action in self._actions else 0

    def has(self, action: str, *field: str) -> bool:
        return action in self._actions and len(field) == 1 and field[0] in self._actions[action].column_names

    def is_empty(self, action: str, _block: int, field: str, /) -> bool:
        return not self.has(action, field) or self._actions[action][field].null_count == len(self._actions[action])

    def read(self, action: str, _block: int, fields: Sequence[FieldPath], /) -> dict[str, pa.ChunkedArray]:
        return {
            name: self._actions[action][name] for name in fields if isinstance(name, str) and self.has(action, name)
        }

    def bodies(self, action: str) -> list[dict[str, Any]]:  # noqa: ARG002 - files only
        return []


def _cut(table: pa.Table, store: ObjectStore, buckets: int, order: int) -> Iterator[Piece]:
    if not len(table):
        return
    numbers = bucket_numbers(file_paths.canonical(table["path"], store), buckets)
    by_number = np.argsort(numbers, kind="stable")
    ordered = table.combine_chunks().take(int64s(by_number))
    ends = np.searchsorted(numbers[by_number], np.arange(buckets + 1))
    for number in np.flatnonzero(np.diff(ends)):
        some = ordered.slice(ends[number], ends[number + 1] - ends[number])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, some.schema, options=_WIRE) as writer:
            writer.write_table(some)
        yield Piece(int(number), order, sink.getvalue())


def bucket_meta(scratch: ObjectStore, path: str, version: int) -> ObjectMeta:
    """Size and time of a bucket, which is there."""
    meta = scratch.head(path)
    if meta is None:
        raise StoreError(
            f"the bucket {path} of a distributed snapshot is gone",
            table=scratch.root,
            version=version,
            hint="Ask it inside the block of distribute(), in a scratch folder that all executors see",
        )
    return meta


def _none(schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([], schema)


def _together(tables: Sequence[pa.Table]) -> pa.Table | None:
    """Objects of one checkpoint may differ in what they leave out."""
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks() if tables else None


def _left(base: pa.Table | None, files: Any) -> pa.Table:
    """As they are stored: rows of the base that no commit changed, and what commits brought."""
    if base is None:
        return files.added
    base = drop_rows(base, files.gone)
    return pa.concat_tables([base, files.added], promote_options="permissive") if len(files.added) else base


def _write(scratch: ObjectStore, path: str, left: Mapping[str, pa.Table]) -> None:
    """One object in the form of a sidecar: rows of ``add``, then rows of ``remove``."""
    structs = {action: _structs(table) for action, table in left.items()}
    schema = pa.schema([(action, one.type) for action, one in structs.items()])
    with (
        scratch.open_output(path) as sink,
        # Paths and statistics hardly repeat, and a dictionary of them costs more than it saves.
        pq.ParquetWriter(sink, schema, compression="snappy", use_dictionary=False) as writer,
    ):
        writer.add_key_value_metadata(DISTINCT_PATHS)
        for action, one in structs.items():
            if not len(one):
                continue
            columns = [
                one if name == action else pa.chunked_array([pa.nulls(len(one), schema.field(name).type)])
                for name in schema.names
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=_ROW_GROUP)


def _structs(table: pa.Table) -> pa.ChunkedArray:
    """A struct a row, in as many chunks as the columns have: strings of 2 GiB and more never fit into one."""
    # Nullable throughout: where a row holds the other action, the fields of this one are null with it.
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    return pa.Table.from_arrays(table.columns, schema=schema).to_struct_array()


def _size(table: pa.Table) -> int:
    return _sum(table["size"]) if "size" in table.column_names else 0


def _structs_alone(files: pa.Table) -> int:
    if "stats_parsed" not in files.column_names:
        return 0
    told = pc.is_valid(files["stats_parsed"])
    return _sum(pc.and_(told, pc.is_null(files["stats"])) if "stats" in files.column_names else told)


def _sum(sizes: pa.ChunkedArray) -> int:
    return int(pc.sum(sizes, min_count=0).as_py())


def _opened(task: Planned, path: str) -> Snapshot:
    """A bucket as a snapshot. Its store is the scratch folder: a bucket that cannot be read has no log to fall back to,
    least of all the table's, which has all files."""
    part = open_part(task.scratch, bucket_meta(task.scratch, path, task.version), task.version)
    files, tombstones = (CheckpointRows(task.scratch, task.version, [part], a, _SCHEMAS[a]) for a in _ACTIONS)
    checkpoint = CheckpointState(files, tombstones, task.metadata, task.protocol, {}, {})
    return Snapshot(task.scratch, VersionState(task.version, 0, None, state_of(checkpoint, task.scratch)))
