"""One Parquet or JSON object of a checkpoint: its actions, read by column and row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakehouse_lib.arrow.legacy_calendar import HybridCalendar
from lakehouse_lib.arrow.types import without_views
from lakehouse_lib.errors import LogCorruptedError, StoreError
from lakehouse_lib.log.checkpoint.columns import DISTINCT_PATHS, PLAIN_PATHS
from lakehouse_lib.log.checkpoint.footer.bloom_filter import may_hold
from lakehouse_lib.log.checkpoint.footer.parquet_footer import bloom_bitset, chunk_statistics
from lakehouse_lib.log.commits.action_lines import read_actions
from lakehouse_lib.log.commits.file_actions import TornLineError
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: For each action the leaf column that is set in every such action.
KEYS: Mapping[str, str] = {
    "add": "path",
    "remove": "path",
    "metaData": "id",
    "protocol": "minReaderVersion",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}

#: Structs with a leaf for each table column, and the depth at which the column's name begins in the leaf's path.
_TYPED: Mapping[str, int] = {"stats_parsed": 3, "partitionValues_parsed": 2}

#: A field of an action: its name, or the names on the path to a nested field. A name may contain a dot.
FieldPath = str | tuple[str, ...]


#: The memory that a footer takes for each column chunk, in bytes.
_BYTES_A_CHUNK = 1 << 10


class Part(Protocol):
    """An object of a checkpoint. Its ``add`` and ``remove`` actions are counted and read block by block."""

    path: str
    meta: ObjectMeta

    @property
    def nbytes(self) -> int:
        """The bytes of this object that are in memory."""

    @property
    def blocks(self) -> int:
        """The number of blocks (row groups)."""

    def count(self, action: str, block: int, /) -> int:
        """The number of these actions in the block."""

    def has(self, action: str, *field: str) -> bool:
        """Whether the object has this field of the action, or a field below it."""

    def is_empty(self, action: str, block: int, field: str, /) -> bool:
        """Whether the field is known to be null in the whole block, without reading it."""

    def read(self, action: str, block: int, fields: Sequence[FieldPath], /) -> dict[str, pa.ChunkedArray]:
        """These fields of the block's actions, as they are stored.

        For ``("a", "b")`` the result has ``a``, a struct with at least the member ``b``. Missing fields are left out.
        """


def open_part(store: ObjectStore, meta: ObjectMeta, version: int) -> ParquetPart:
    """Open a Parquet object and read its footer.

    Raises:
        UnreadableCheckpointError: the object is missing or cannot be read.
    """
    with unreadable_as_error(store, meta.path, version), store.open_input(meta.path) as source:
        return ParquetPart(store, meta, version, pq.ParquetFile(source))


class ParquetPart:
    """A Parquet object of a checkpoint. Its footer is in memory; columns are read on demand."""

    def __init__(self, store: ObjectStore, meta: ObjectMeta, version: int, file: pq.ParquetFile) -> None:
        self.path = meta.path
        self.meta = meta
        self._store = store
        self._version = version
        self._masks: dict[tuple[str, int], pa.Array | None] = {}
        self._footer = file.metadata
        # The dotted paths of the footer's schema cannot distinguish a struct from a name with a dot.
        self._leaves = {tuple(path): index for index, path in enumerate(file.reader.column_paths)}
        self._statistics = chunk_statistics(self._footer)
        if len(self._leaves) < self._footer.num_columns:
            raise self._broken("it has two columns with the same name")
        if HybridCalendar.of(self._footer.metadata) is not None:
            self._leaves = _without_times(self._leaves, self._footer.schema)
        self._actions = {leaf[0] for leaf in self._leaves}

    @property
    def nbytes(self) -> int:
        masks = sum(mask.nbytes for mask in list(self._masks.values()) if mask is not None)
        return int(self._footer.num_row_groups * self._footer.num_columns * _BYTES_A_CHUNK + masks)

    @property
    def blocks(self) -> int:
        return int(self._footer.num_row_groups)

    def count(self, action: str, block: int) -> int:
        if action not in self._actions:
            return 0
        rows = int(self._footer.row_group(block).num_rows)
        nulls = self._nulls(action, block)
        if nulls is not None:
            return rows - nulls
        mask = self._mask(action, block)
        return rows if mask is None else int(pc.sum(mask, min_count=0).as_py())

    def has(self, action: str, *field: str) -> bool:
        return bool(self._below((action, *field)))

    def is_empty(self, action: str, block: int, field: str) -> bool:
        group = self._footer.row_group(block)
        leaves = [self._leaves[leaf] for leaf in self._below((action, field))]
        if any(self._footer.schema.column(leaf).max_repetition_level for leaf in leaves):
            return False  # an empty map and a null map have the same null in their leaves
        return all(self._statistics[block][leaf].null_count == group.num_rows for leaf in leaves)

    def is_full(self, action: str, block: int, field: str) -> bool:
        """Whether the footer shows that no action of the block has a null in the field."""
        index = self._leaves.get((action, field))
        nulls = self._nulls(action, block)
        return index is not None and nulls is not None and self._statistics[block][index].null_count == nulls

    def read(self, action: str, block: int, fields: Sequence[FieldPath]) -> dict[str, pa.ChunkedArray]:
        leaves = self._leaves_of(action, fields)
        if not leaves:
            return {}
        mask = self._mask(action, block)
        return _members(self._read(block, leaves)[action], fields, mask)

    def batches(
        self, action: str, block: int, fields: Sequence[FieldPath], rows: int
    ) -> Iterator[dict[str, pa.ChunkedArray]]:
        """``read`` in batches of at most ``rows`` rows; batches without an action are left out."""
        leaves = [".".join(leaf) for leaf in self._leaves_of(action, fields)]
        mask = self._mask(action, block)
        with self._reading(), self._opened() as file:
            start = 0
            for batch in file.iter_batches(rows, row_groups=[block], columns=leaves, use_threads=False):
                batch.validate(full=True)
                batch_mask = None if mask is None else mask[start : start + len(batch)]
                start += len(batch)
                if batch_mask is None or pc.any(batch_mask, min_count=0).as_py():
                    yield _members(pa.chunked_array([batch[action]]), fields, batch_mask)

    def bodies(self, actions: Sequence[str], file: pq.ParquetFile) -> dict[str, list[dict[str, Any]]]:
        """Every action of these kinds.

        Args:
            file: the opened object.
        """
        bodies: dict[str, list[dict[str, Any]]] = {action: [] for action in actions}
        stored_actions = [action for action in actions if action in self._actions]
        for block in range(self.blocks):
            rows = self._footer.row_group(block).num_rows
            present_actions = [action for action in stored_actions if self._nulls(action, block) != rows]
            if present_actions:
                table = _read(file, block, [leaf for action in present_actions for leaf in self._below((action,))])
                for action in present_actions:
                    structs = _without_views(table[action])
                    bodies[action] += structs.filter(structs.is_valid()).to_pylist()
        return bodies

    def extremes(self, action: str, block: int, *field: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a leaf in the block, without floating-point NaN.

        None unless the footer shows that every action of the block has a value.
        """
        index = self._leaves.get((action, *field))
        if index is None or not self._statistics[block][index].sound:
            return None
        # A null is an unknown value, which the bounds do not cover. The footer may have no null counts.
        nulls = self._nulls(action, block)
        if nulls is None or self._statistics[block][index].null_count != nulls:
            return None
        statistics = self._footer.row_group(block).column(index).statistics
        try:
            return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None
        except (pa.ArrowException, ValueError, OverflowError):
            return None  # Python has no such value: a year after 9999, or text that was cut inside a character

    def may_have(self, action: str, block: int, field: str, hashes: NDArray[np.uint64]) -> int | None:
        """How many of these hashes (``bloom_filter.hashes_of``) may be hashes of a text in the block; 0 is certain.

        None if the block has no Bloom filter.
        """
        bloom = self._statistics[block][self._leaves[action, field]].bloom
        if bloom is None:
            return None
        offset, length = bloom
        with self._reading(), self._store.open_input(self.path) as source:
            source.seek(offset)
            bitset = bloom_bitset(source.read(length))
        return None if bitset is None else int(may_hold(bitset, hashes).sum())

    @property
    def has_plain_paths(self) -> bool:
        """Whether its writer noted that every path in it is in canonical form (``columns.PLAIN_PATHS``)."""
        return PLAIN_PATHS.items() <= (self._footer.metadata or {}).items()

    @property
    def has_distinct_paths(self) -> bool:
        """Whether its writer noted that no path of the checkpoint occurs twice (``columns.DISTINCT_PATHS``)."""
        return DISTINCT_PATHS.items() <= (self._footer.metadata or {}).items()

    def _below(self, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        if path in self._leaves:
            return [path]
        return [leaf for leaf in self._leaves if leaf[: len(path)] == path]

    def _nulls(self, action: str, block: int) -> int | None:
        """The number of rows in the block that are other actions; None if the footer does not have this number."""
        index = self._leaves.get((action, KEYS[action]))
        if index is None:
            raise self._broken(f"{action} has no {KEYS[action]}")
        return self._statistics[block][index].null_count

    def _mask(self, action: str, block: int) -> pa.Array | None:
        """A mask of the rows of the block that are this action; None: all rows are this action."""
        if self._nulls(action, block) == 0:
            return None
        if (action, block) not in self._masks:
            structs = self._read(block, [(action, KEYS[action])])[action]
            mask = pc.is_valid(structs).combine_chunks()
            has_key = pc.is_valid(pc.struct_field(structs, KEYS[action])).combine_chunks()
            if not mask.equals(has_key):
                raise self._broken(f"it has a file action without {KEYS[action]}")
            self._masks[action, block] = None if pc.all(mask, min_count=0).as_py() else mask
        return self._masks[action, block]

    def _leaves_of(self, action: str, fields: Sequence[FieldPath]) -> list[tuple[str, ...]]:
        return [leaf for path in map(_path, fields) for leaf in self._below((action, *path))]

    def _read(self, block: int, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
        with self._reading(), self._opened() as file:
            return _read(file, block, leaves)

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with self._store.open_input(self.path) as source:
            if self._store.head(self.path) != self.meta:
                raise self._broken("it has been replaced since it was opened")
            yield pq.ParquetFile(source, metadata=self._footer)

    def _reading(self) -> AbstractContextManager[None]:
        return unreadable_as_error(self._store, self.path, self._version)

    def _broken(self, why: str) -> UnreadableCheckpointError:
        return unreadable(self._store, self.path, self._version, why)


@contextmanager
def unreadable_as_error(store: ObjectStore, path: str, version: int) -> Iterator[None]:
    """Turn errors of the object or the store into ``UnreadableCheckpointError`` with the object's path."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: a name in the footer is not valid UTF-8
        raise unreadable(store, path, version, str(error).partition("\n")[0]) from error
    except StoreError as error:
        raise unreadable(store, path, version, error.message) from error


def _read(file: pq.ParquetFile, block: int, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
    rows = file.read_row_group(block, columns=[".".join(leaf) for leaf in leaves], use_threads=False)
    rows.validate(full=True)  # Parquet readers accept text that is not valid UTF-8; using it later would fail
    return rows


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with string views cast to strings, which can be filtered; a file's Arrow schema may ask for views."""
    kind = without_views(column.type)
    return column if kind == column.type else column.cast(kind)


def _path(field: FieldPath) -> tuple[str, ...]:
    return (field,) if isinstance(field, str) else field


def _members(
    structs: pa.ChunkedArray, fields: Sequence[FieldPath], mask: pa.Array | None
) -> dict[str, pa.ChunkedArray]:
    """The members of structs that ``fields`` name, only for the rows of ``mask``.

    If a nested field is named, the whole member is returned.
    """
    members = {_path(field)[0] for field in fields}
    columns = {}
    for index in range(structs.type.num_fields):
        name = structs.type.field(index).name
        if name in members:
            column = _without_views(pc.struct_field(structs, [index]))
            columns[name] = column if mask is None else column.filter(mask)
    return columns


def _without_times(leaves: Mapping[tuple[str, ...], int], schema: pq.ParquetSchema) -> dict[tuple[str, ...], int]:
    """The leaves except those with typed statistics or typed partition values of date and time columns.

    The file uses the legacy calendar, in which the same number is another day. So these values are read from the JSON
    statistics and from ``partitionValues``.
    """

    def column_of(leaf: tuple[str, ...]) -> tuple[str, ...] | None:
        """The table column of a leaf, which is the same for its bounds and its null count."""
        depth = _TYPED.get(leaf[1]) if len(leaf) > 1 else None
        return None if depth is None else (leaf[1], *leaf[depth:])

    times = {column_of(leaf) for leaf, index in leaves.items() if _is_time(schema.column(index))} - {None}
    return {leaf: index for leaf, index in leaves.items() if column_of(leaf) not in times}


def _is_time(column: pq.ColumnSchema) -> bool:
    return column.physical_type == "INT96" or column.logical_type.type in ("DATE", "TIMESTAMP")


class JsonPart:
    """The JSON form of a checkpoint's top object. It is read whole, because its files are usually in sidecars."""

    blocks = 1

    def __init__(self, store: ObjectStore, meta: ObjectMeta, version: int) -> None:
        self.path = meta.path
        self.meta = meta
        try:
            self.actions = read_actions([store.read(meta.path)])
        except TornLineError as error:
            raise unreadable(store, meta.path, version, f"line {error.number} {error.what}") from error
        except StoreError as error:
            raise unreadable(store, meta.path, version, error.message) from error

    @property
    def nbytes(self) -> int:
        return int(self.actions.adds.nbytes + self.actions.removes.nbytes)

    def count(self, action: str, _block: int) -> int:
        return len(self._rows(action))

    def has(self, action: str, *field: str) -> bool:
        return len(field) == 1 and field[0] in self._rows(action).column_names

    def is_empty(self, action: str, _block: int, field: str) -> bool:
        return not self.has(action, field)

    def read(self, action: str, _block: int, fields: Sequence[FieldPath]) -> dict[str, pa.ChunkedArray]:
        rows = self._rows(action)
        return {name: rows[name] for name in fields if isinstance(name, str) and name in rows.column_names}

    def _rows(self, action: str) -> pa.Table:
        return self.actions.adds if action == "add" else self.actions.removes


class UnreadableCheckpointError(LogCorruptedError):
    """A checkpoint cannot be read; another checkpoint or the commits may have the same version."""

    code = "DELTA_CHECKPOINT_CORRUPTED"


def unreadable(store: ObjectStore, path: str, version: int, why: str) -> UnreadableCheckpointError:
    return UnreadableCheckpointError(
        f"the checkpoint {path} cannot be read ({why})",
        table=store.root,
        version=version,
        hint="Try again, because the store may have failed for a moment. If it fails again, delete the checkpoint if "
        "the commits before it still exist, or restore it from a backup",
    )
