"""The file actions of a checkpoint, add or remove, as columns that are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import as_array, bools, flags_of, int64s
from lakehouse_lib.data_skipping.file_values import FileValues, Needs
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log.checkpoint.block import STATS_STRUCT, Block, bounds_of_block, statistics_of_block
from lakehouse_lib.log.checkpoint.columns import cast_stored
from lakehouse_lib.log.checkpoint.footer.bloom_filter import hashes_of
from lakehouse_lib.log.checkpoint.footer.footer_pruning import values_of_row_group
from lakehouse_lib.log.checkpoint.parallel import map_in_order
from lakehouse_lib.log.checkpoint.part import ParquetPart, Part, unreadable
from lakehouse_lib.log.replay.duplicate_paths import (
    find_repeated_numbers,
    find_repeats,
    fingerprints,
    repeated_numbers,
)
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys, key_paths
from lakehouse_lib.log.replay.row_positions import distinct, drop_rows, null_rows
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import DataType
from lakehouse_lib.statistics import Bounds, ColumnPath, WrittenStatistics, stats_json
from lakehouse_lib.store import ObjectStore

_PRUNING_COLUMNS = ("partitionValues", "stats")

#: Rows of a batch that is not cached: so few that the allocator reuses the same memory for the next batch.
_BATCH = 16_384
#: Of ten thousand absent paths, a Bloom filter rarely reports more than this number as present. If it reports no more,
#: the rows are read.
_MOST_FALSE_POSITIVES = 4


class CheckpointRows:
    """The add or the remove actions of a checkpoint, in the order of its parts. Columns are read on demand.

    Threads may share it. Another thread may drop a cached column at any time, so methods use the result of ``_read``,
    and not the cache.

    Args:
        action: "add" or "remove".
        schema: the schema of the columns: ``FILE_SCHEMA`` or ``TOMBSTONE_SCHEMA``.
    """

    def __init__(self, store: ObjectStore, version: int, parts: Sequence[Part], action: str, schema: pa.Schema) -> None:
        self.schema = schema
        self.version = version
        self._store = store
        self._action = action
        self.parts = parts
        self._columns: dict[tuple[int, str], pa.ChunkedArray] = {}
        self._keys: dict[int, pa.Array] = {}
        self._fingerprints: dict[int, NDArray[np.uint64]] = {}
        self._bounds: dict[tuple[int, ColumnPath, str], Bounds] = {}
        self._partitions: dict[tuple[int, str, str], pa.Array] = {}
        self._repeats: NDArray[np.int64] | None = None

    @cached_property
    def _blocks(self) -> list[Block]:
        blocks = (
            Block(part, self._action, number, part.count(self._action, number))
            for part in self.parts
            for number in range(part.blocks)
        )
        return [block for block in blocks if block.rows]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """The position of the first row of each block, and at the end the number of all rows."""
        return np.cumsum([0, *(block.rows for block in self._blocks)], dtype=np.int64)

    @property
    def num_rows(self) -> int:
        return int(self._starts[-1])

    @property
    def rows_by_part(self) -> dict[str, int]:
        """The number of these actions in each part that has any, by the part's path."""
        counts: dict[str, int] = {}
        for block in self._blocks:
            counts[block.part.path] = counts.get(block.part.path, 0) + block.rows
        return counts

    @property
    def nbytes(self) -> int:
        """Bytes that are in memory now."""
        caches: list[Mapping[Any, Any]] = [
            self._columns,
            self._keys,
            self._fingerprints,
            self._partitions,
            self._bounds,
        ]
        return sum(value.nbytes for cache in caches for value in list(cache.values()))

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Whole columns of the schema, cached."""
        blocks = range(len(self._blocks))
        missing = [block for block in blocks if any((block, name) not in self._columns for name in names)]
        read_tables = dict(zip(missing, map_in_order(lambda block: self._table(block, names), missing), strict=True))
        no_rows = pa.Table.from_batches([], pa.schema([self.schema.field(name) for name in names]))
        tables = (read_tables[b] if b in read_tables else self._table(b, names) for b in blocks)
        return pa.concat_tables([no_rows, *tables])

    def statistics(self, selection: WrittenStatistics) -> pa.Table:
        """The statistics of all rows. The statistics and their columns are not cached."""

        def read_block(number: int) -> pa.Table:
            return statistics_of_block(self._blocks[number], selection, lambda: self._read(number, ["stats"])["stats"])

        no_rows = pa.Table.from_batches([], selection.schema)
        return pa.concat_tables([no_rows, *map_in_order(read_block, range(len(self._blocks)))])

    def bounds(self, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
        """The bounds of columns in all rows. They are parsed once and cached; ``select`` uses the same cache."""
        parts = list(map_in_order(lambda number: self._block_bounds(number, columns), range(len(self._blocks))))
        return {path: Bounds.concat([part[path] for part in parts], kind) for path, kind in columns.items()}

    def find(self, keys: pa.Array) -> NDArray[np.int64]:
        """The positions, ascending, of the rows with one of these ``file_keys``."""
        hashes = self._hashes(keys)

        def find_in_block(number: int) -> NDArray[np.int64]:
            if self._filter(number, hashes) == 0:
                return np.zeros(0, np.int64)
            return self._find(number, keys)

        return np.concatenate([np.zeros(0, np.int64), *map_in_order(find_in_block, range(len(self._blocks)))])

    def find_paths(self, paths: pa.Array) -> NDArray[np.int64]:
        """The positions, ascending, of the rows with one of these canonical paths and any deletion vector."""
        hashes = self._hashes(paths)

        def find_in_block(number: int) -> NDArray[np.int64]:
            if self._filter(number, hashes) == 0:
                return np.zeros(0, np.int64)
            return np.flatnonzero(_are_in(self._paths(number), paths)) + int(self._starts[number])

        return np.concatenate([np.zeros(0, np.int64), *map_in_order(find_in_block, range(len(self._blocks)))])

    @property
    def repeats(self) -> NDArray[np.int64]:
        """The positions, ascending, of rows that share their path with another row; empty if the checkpoint is valid.

        Nothing is read if its writer noted that it has compared all paths (``columns.DISTINCT_PATHS``).
        """
        if self._repeats is None:
            self._repeats = np.zeros(0, np.int64) if self._has_distinct_paths else self.find_all_repeats()
        return self._repeats

    def find_all_repeats(self) -> NDArray[np.int64]:
        """Like ``repeats``, but reads every path, regardless of what the writer noted."""
        blocks = range(len(self._blocks))
        repeats = repeated_numbers(map_in_order(self._sorted_fingerprints, blocks))
        self._fingerprints.clear()
        if not len(repeats):
            return np.zeros(0, np.int64)
        candidates = find_repeated_numbers(map_in_order(lambda number: fingerprints(self._paths(number)), blocks))
        return candidates[find_repeats(canonical(self.take(candidates, ["path"])["path"], self._store))]

    def take(self, positions: NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Some columns of the rows at these positions, ascending. The columns read for them are not cached."""
        tables = [pa.Table.from_batches([], pa.schema([self.schema.field(name) for name in names]))]
        for number in distinct(np.searchsorted(self._starts, positions, side="right") - 1):
            first, last = np.searchsorted(positions, self._starts[number : number + 2])
            columns = self._read(int(number), names)
            rows = pa.Table.from_arrays([columns[name] for name in names], schema=tables[0].schema)
            tables.append(rows.take(int64s(positions[first:last] - self._starts[number])))
        return pa.concat_tables(tables)

    @property
    def has_vectors(self) -> bool:
        """Whether any file may have a deletion vector, by the footers."""
        return any(not block.is_empty("deletionVector") for block in self._blocks)

    def parts_with(self, keys: pa.Array, without: NDArray[np.int64]) -> list[Part]:
        """The parts that have a row with one of these ``file_keys`` or at one of the positions ``without``.

        If a Bloom filter reports many keys, the rows are not read, and the result may have a part without such a row.
        """
        hashes = self._hashes(keys)

        def holds_row(number: int) -> bool:
            first, last = np.searchsorted(without, self._starts[number : number + 2])
            if first < last or not len(keys):
                return bool(first < last)
            by_filter = self._filter(number, hashes)
            if by_filter is None or 0 < by_filter <= _MOST_FALSE_POSITIVES:
                return len(self._find(number, keys)) > 0
            return by_filter > 0

        blocks = range(len(self._blocks))
        parts = {
            id(self._blocks[n].part): self._blocks[n].part
            for n, has in zip(blocks, map_in_order(holds_row, blocks), strict=True)
            if has
        }
        return list(parts.values())

    def pieces(
        self, names: Sequence[str], keys: pa.Array, without: NDArray[np.int64]
    ) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """The remaining rows of each block, and the positions of the rows that were left out.

        Rows with one of these ``file_keys``, or at one of the positions ``without``, are left out. The next blocks are
        read ahead. If ``names`` has the path of add actions, the threads also compute its fingerprints for ``repeats``.
        """
        compares_paths = self._action == "add" and "path" in names and not self._has_distinct_paths

        def remaining_rows(block: int) -> tuple[pa.Table, NDArray[np.int64]]:
            first, last = np.searchsorted(without, self._starts[block : block + 2])
            gone = np.union1d(without[first:last], self._find(block, keys) if len(keys) else without[:0])
            rows = self._table(block, names)
            if compares_paths and self._repeats is None:
                self._sorted_fingerprints(block)
            return drop_rows(rows, gone - self._starts[block]), gone

        yield from map_in_order(remaining_rows, range(len(self._blocks)))

    def stream(
        self, names: Sequence[str], keys: pa.Array, without: NDArray[np.int64], parts: Sequence[Part] | None = None
    ) -> Iterator[pa.Table]:
        """The same rows as ``pieces`` in smaller tables. Only columns of JSON objects are cached.

        Args:
            names: must include ``KEY_COLUMNS``.
            parts: the parts to read; None: all.
        """
        part_ids = None if parts is None else {id(part) for part in parts}
        for number, block in enumerate(self._blocks):
            if part_ids is not None and id(block.part) not in part_ids:
                continue
            start = int(self._starts[number])
            for rows in self._batches(number, names):
                first, last = np.searchsorted(without, [start, start + len(rows)])
                gone = without[first:last] - start
                if len(keys):
                    gone = np.union1d(gone, np.flatnonzero(_are_in(file_keys(rows, self._store), keys)))
                yield drop_rows(rows, gone, _BATCH // 1_000)
                start += len(rows)

    def select(
        self, needs: Needs, decide: Callable[[FileValues], pa.Array], without: NDArray[np.int64], names: Sequence[str]
    ) -> pa.Table:
        """The columns ``names`` of the rows that ``decide`` keeps.

        The partition values and bounds in ``needs`` are parsed once and cached. The columns ``names`` are read only
        from blocks with a row to keep.

        Args:
            without: positions, ascending, of rows to leave out whatever ``decide`` returns.
        """

        def select_in_block(number: int) -> pa.Table:
            block = self._blocks[number]
            part = block.part
            bounds = values_of_row_group(part, block.number, needs) if isinstance(part, ParquetPart) else None
            if bounds is not None and not decide(bounds)[0].as_py():
                return no_rows
            cached_before = {name for name in _PRUNING_COLUMNS if (number, name) in self._columns}
            first, last = np.searchsorted(without, self._starts[number : number + 2])
            gone = without[first:last] - self._starts[number]
            values = FileValues(
                block.rows,
                {key: self._partition(number, key, kind, gone) for key, kind in needs.partitions.items()},
                self._block_bounds(number, needs.bounds),
            )
            keep = flags_of(decide(values))
            keep[gone] = False
            if keep.any():
                return self._table(number, names).filter(bools(keep))
            for name in _PRUNING_COLUMNS:
                if name not in cached_before:
                    self._columns.pop((number, name), None)
            return no_rows

        no_rows = pa.Table.from_batches([], pa.schema([self.schema.field(name) for name in names]))
        return pa.concat_tables([no_rows, *map_in_order(select_in_block, range(len(self._blocks)))])

    def _hashes(self, keys: pa.Array) -> NDArray[np.uint64] | None:
        """The hashes of the paths of keys for Bloom filters; None if no part has filters."""
        has_filter = any(isinstance(block.part, ParquetPart) and block.part.has_plain_paths for block in self._blocks)
        return hashes_of(key_paths(keys)) if has_filter else None

    def _filter(self, number: int, hashes: NDArray[np.uint64] | None) -> int | None:
        """How many of the hashed paths a block may have, by its Bloom filter.

        None: the block has no filter, or its keys are in memory.
        """
        block = self._blocks[number]
        if hashes is None or number in self._keys or not isinstance(block.part, ParquetPart):
            return None
        return block.part.may_have(self._action, block.number, "path", hashes) if block.part.has_plain_paths else None

    @property
    def _has_distinct_paths(self) -> bool:
        return any(isinstance(part, ParquetPart) and part.has_distinct_paths for part in self.parts)

    def _sorted_fingerprints(self, number: int) -> NDArray[np.uint64]:
        """The ascending fingerprints of the paths of a block, cached until they are compared."""
        numbers = self._fingerprints.get(number)
        if numbers is None:
            numbers = self._fingerprints[number] = np.sort(fingerprints(self._paths(number)))
        return numbers

    def _paths(self, number: int) -> pa.Array:
        """The canonical paths of the rows of a block."""
        keys = self._keys.get(number)
        if keys is not None and self._blocks[number].is_empty("deletionVector"):
            return keys
        return canonical(as_array(self._read(number, ["path"])["path"]), self._store)

    def _find(self, block: int, keys: pa.Array) -> NDArray[np.int64]:
        if block not in self._keys:
            key_columns = [name for name in KEY_COLUMNS if not self._blocks[block].is_empty(name)]
            self._keys[block] = file_keys(self._table(block, key_columns), self._store)
        return np.flatnonzero(_are_in(self._keys[block], keys)) + int(self._starts[block])

    def _table(self, block: int, names: Sequence[str]) -> pa.Table:
        columns = self._read(block, names)
        self._columns.update({(block, name): column for name, column in columns.items()})
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_arrays([columns[name] for name in names], schema=schema)

    def _read(self, number: int, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Columns of a block in the schema's types: cached columns, and the others read from the part."""
        block = self._blocks[number]
        looked_up = {name: self._columns.get((number, name)) for name in names}
        cached_columns = {name: column for name, column in looked_up.items() if column is not None}
        missing = [name for name in names if name not in cached_columns and not block.is_empty(name)]
        stored = block.read(missing) if missing else {}
        read = self._typed(block, stored, [name for name in names if name not in cached_columns], block.rows)
        if "stats" in read and read["stats"].null_count and block.has(STATS_STRUCT):
            structs = block.read([STATS_STRUCT])[STATS_STRUCT]
            read["stats"] = stats_json(read["stats"], structs)
        return cached_columns | read

    def _batches(self, number: int, names: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of a block in small tables that are not cached. A block of JSON gives one table, which is cached."""
        block = self._blocks[number]
        if not isinstance(block.part, ParquetPart):
            yield self._table(number, names)
            return
        fields = [name for name in names if not block.is_empty(name)]
        from_structs = (
            "stats" in names and block.has(STATS_STRUCT) and not block.part.is_full(self._action, block.number, "stats")
        )
        schema = pa.schema([self.schema.field(name) for name in names])
        for stored in block.part.batches(self._action, block.number, [*fields, *[STATS_STRUCT] * from_structs], _BATCH):
            rows = len(next(iter(stored.values())))
            columns = self._typed(block, stored, names, rows)
            if from_structs and columns["stats"].null_count:
                columns["stats"] = stats_json(columns["stats"], stored[STATS_STRUCT])
            yield pa.Table.from_arrays([columns[name] for name in names], schema=schema)

    def _typed(
        self, block: Block, stored: Mapping[str, pa.ChunkedArray], names: Sequence[str], rows: int
    ) -> dict[str, pa.ChunkedArray]:
        """Stored columns of a part, cast to the schema's types."""
        try:
            return {name: cast_stored(stored.get(name), self.schema.field(name).type, rows) for name in names}
        except pa.ArrowException as error:
            raise unreadable(self._store, block.part.path, self.version, str(error)) from error

    def _partition(self, number: int, key: str, data_type: DataType, gone: NDArray[np.int64]) -> pa.Array:
        """Partition values of a block; the values of the rows at the positions ``gone`` are undefined."""
        entry = (number, key, repr(data_type))
        if entry not in self._partitions:
            rows = self._table(number, ["partitionValues"])
            try:
                self._partitions[entry] = partition_column(rows, key, data_type)
            except LogCorruptedError:
                # The invalid value may be that of a removed file, from a time when the column had another type.
                return partition_column(null_rows(rows, gone), key, data_type)
        return self._partitions[entry]

    def _block_bounds(self, number: int, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
        missing = {path: kind for path, kind in columns.items() if (number, path, repr(kind)) not in self._bounds}
        if missing:
            parsed = bounds_of_block(self._blocks[number], missing, lambda: self._table(number, ["stats"]))
            for path, bounds in parsed.items():
                self._bounds[number, path, repr(columns[path])] = bounds
        return {path: self._bounds[number, path, repr(kind)] for path, kind in columns.items()}


def _are_in(block_keys: pa.Array, keys: pa.Array) -> NDArray[np.bool_]:
    return flags_of(pc.is_in(block_keys, value_set=keys))
