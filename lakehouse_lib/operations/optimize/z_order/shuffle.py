"""The exchange that moves a table's rows into the leaves of a tree.

The tree divides the rows of a partition into files, and the rows of a file into blocks, which are the leaves of the
tree. An exchange (``Engine.exchange``) runs ``scatter`` on all tasks, and then ``gather`` on all groups. ``scatter``
reads about a million rows at a time and sorts them by leaf. It sends the rows of a leaf to the leaf's file as pieces.
``gather`` receives the pieces of one file, block by block. It orders the rows of each block, so that row groups and
pages can be skipped too, and writes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.repeated_text import concat_rows, with_dictionaries, without_dictionaries
from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.engine.base import Piece, WriteTarget
from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.engine.parquet.stored_schema import column_names
from lakehouse_lib.engine.parquet.task_results import result_of
from lakehouse_lib.engine.parquet.writer import DataFileWriter
from lakehouse_lib.engine.parquet.written_files import files_table
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.operations.optimize.z_order.keys import is_text, keys, vocabulary
from lakehouse_lib.operations.optimize.z_order.layout import Layout, assign, split, tree_keys

#: Result column: the number of the written file.
NUMBER = "number"

CHUNK_ROWS = 1_000_000
_CHUNK_BYTES = 256 << 20
_BATCH_ROWS = 1 << 17
_SMALL_BATCH_ROWS = 1024
_PIECE_BYTES = 16 << 20
_BLOCK_ROWS = 2 * CHUNK_ROWS  # rows of a block in memory, at most
_ROW_GROUP_ROWS = 1 << 17
_CELL_ROWS = 8192  # about the number of rows of a cell; the rows of a block are ordered by cell (``_row_groups``)
_CELLS = 256  # the most cells of a block; a cell's number fits a byte, and sorting bytes is cheap
_CELL_SAMPLE = 64  # sampled rows for each cell
_WORDS = 1023


class FilePart(NamedTuple):
    """The ``part``-th of ``parts`` equal ranges of a file's row groups.

    The path, the deletion vector and the row ids are as in the log.
    """

    path: str
    vector: Mapping[str, Any] | None
    ids: FileIds | None = None
    part: int = 0
    parts: int = 1


class Load(NamedTuple):
    """Parts of files of one partition, with the partition's layout."""

    sources: tuple[FilePart, ...]
    layout: Layout


@dataclass(frozen=True)
class ScatterTask:
    """A task of ``scatter``. ``reader`` reads the rows to copy; ``parquet.reader.copy_reader`` makes it."""

    reader: TableReader
    loads: tuple[Load, ...]


@dataclass(frozen=True)
class OutputFile:
    """A group of ``gather``: one file to write.

    Attributes:
        number: index of the file among all files of the operation.
        target: the table.
        values: the file's partition values, as in the log.
        columns: the columns that order the rows inside each block.
    """

    number: int
    target: WriteTarget
    values: Mapping[str, str | None]
    columns: tuple[str, ...]


def scatter(task: ScatterTask) -> Iterator[Piece]:
    """The pieces with the rows of a task, sorted by leaf. The ``order`` of a piece is the number of its block."""
    keys = {name for load in task.loads for name in load.layout.columns}
    return pieces_of(task.loads, partial(_stored, task.reader, keys))


def gather(file: OutputFile, pieces: Iterator[Piece]) -> pa.Table:
    """Write one file from its pieces. The result (RESULT_SCHEMA) holds a files table with the column NUMBER."""
    return result_of(lambda: _write(file, pieces))


def _write(file: OutputFile, pieces: Iterator[Piece]) -> pa.Table:
    """Write one file from its pieces, ordered by block."""
    names = column_names(file.target.layout)
    writer = DataFileWriter(file.target, file.values)
    try:
        for rows in map(without_dictionaries, rows_in_order(pieces, file.columns)):
            writer.write(pa.Table.from_arrays(rows.columns, names=names))
            writer.flush()
        files = files_table(writer.finish(), data_change=file.target.data_change)
    except BaseException:
        writer.abort()
        raise
    return files.append_column(NUMBER, int64s([file.number] * len(files)))


# The place of a row in the written files depends only on the key columns and on the order of the rows. Other columns
# and the size of the rows do not matter. ``deleted_positions`` relies on this: it moves only the keys of the same
# rows through the exchange, and gets the same places.


def pieces_of(loads: Sequence[Load], read: Callable[[FilePart], Iterator[pa.Table]]) -> Iterator[Piece]:
    """The pieces with the rows of all loads.

    Args:
        read: returns the rows of a part of a file in their order, one row group at a time.
    """
    pending: dict[tuple[int, int], list[pa.Table]] = {}
    count = size = 0
    for load in loads:
        for group in (group for source in load.sources for group in read(source)):
            # Use batches that fit the processor's cache.
            for rows in (group.slice(start, _BATCH_ROWS) for start in range(0, len(group), _BATCH_ROWS)):
                for file, block, part in _by_leaf(rows, load.layout):
                    pending.setdefault((file, block), []).append(part)
                count += len(rows)
                size += rows.nbytes
                if count >= CHUNK_ROWS or size >= _CHUNK_BYTES:
                    yield from _pieces(pending)
                    pending, count, size = {}, 0, 0
    yield from _pieces(pending)


def rows_in_order(pieces: Iterator[Piece], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a file in their final order, a row group at a time."""
    for block in _blocks(pieces):
        yield from _row_groups(block, columns)


def row_groups(reader: TableReader, source: FilePart) -> Iterator[tuple[DataFile, int]]:
    """The row groups of a part of a file: the open file and the group's number. The file is closed at the end."""
    with reader.open(source.path, source.vector, source.ids) as file:
        groups = file.num_row_groups
        for index in range(groups * source.part // source.parts, groups * (source.part + 1) // source.parts):
            yield file, index


def _stored(reader: TableReader, key_columns: Collection[str], source: FilePart) -> Iterator[pa.Table]:
    for file, index in row_groups(reader, source):
        yield with_dictionaries(reader.row_group(file, index, {}), except_columns=key_columns)


def _by_leaf(rows: pa.Table, layout: Layout) -> Iterator[tuple[int, int, pa.Table]]:
    """The file, the block and the rows of each leaf that gets rows.

    If a leaf has several files, its rows are divided among these files.
    """
    tree = layout.tree
    columns = tree_keys(
        layout.curve, [keys(rows[name], words) for name, words in zip(layout.columns, layout.words, strict=True)]
    )
    leaves = assign(tree, columns)
    counts = np.bincount(leaves, minlength=sum(tree["blocks"]))
    order = np.argsort(leaves, kind="stable")
    cuts: list[tuple[int, int, int]] = []
    start = leaf = 0
    groups = zip(tree["files"], tree["blocks"], tree["first_files"], tree["first_blocks"], strict=True)
    for files, blocks, first_file, first_block in groups:
        file = layout.first_file + first_file
        sizes = counts[leaf : leaf + blocks].tolist()
        count = sum(sizes)
        if files == 1:
            cuts.extend((file, block, size) for block, size in enumerate(sizes, first_block))
        else:
            # Most rows of this leaf have equal keys. Sort them, so that only its first and last files have other keys.
            leaf_rows = order[start : start + count]
            order[start : start + count] = leaf_rows[np.lexsort([column[leaf_rows] for column in columns])]
            edges = [count * share // files for share in range(files + 1)]
            cuts.extend((file + share, 0, high - low) for share, (low, high) in enumerate(pairwise(edges)))
        start, leaf = start + count, leaf + blocks
    rows = rows.take(int64s(order)) if len(cuts) > 1 else rows
    start = 0
    for file, block, count in cuts:
        if count:
            yield file, block, rows.slice(start, count)
        start += count


def _pieces(pending: Mapping[tuple[int, int], Sequence[pa.Table]]) -> Iterator[Piece]:
    """The rows of each file and block, in pieces of bounded size."""
    for (file, block), parts in pending.items():
        rows = concat_rows(parts)
        if len(rows) < _SMALL_BATCH_ROWS * len(parts):
            rows = rows.combine_chunks()
        count = min(len(rows), max(1, len(rows) * _PIECE_BYTES // max(rows.nbytes, 1)))
        for start in range(0, len(rows), count):
            yield Piece(file, block, rows.slice(start, count))


def _blocks(pieces: Iterator[Piece]) -> Iterator[pa.Table]:
    """The rows of each block, at most ``_BLOCK_ROWS`` at a time; the sizes of the pieces have no effect."""
    for _, block in groupby(pieces, key=lambda piece: piece.order):
        pending: list[pa.Table] = []
        count = 0
        for _, _, rows in block:
            while count + len(rows) >= _BLOCK_ROWS:
                room = _BLOCK_ROWS - count
                yield concat_rows([*pending, rows.slice(0, room)])
                pending, count, rows = [], 0, rows.slice(room)
            if len(rows):
                pending.append(rows)
                count += len(rows)
        if count:
            yield concat_rows(pending)


def _row_groups(rows: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The row groups of a block.

    A separate tree divides the rows of the block into row groups, and each row group into cells of some thousand rows.
    The rows are ordered by cell.
    """
    groups = max(round(len(rows) / _ROW_GROUP_ROWS), 1)
    cells = max(min(len(rows) // _CELL_ROWS, _CELLS) // groups, 1)
    edges = [len(rows)]
    if groups * cells > 1:
        rows = rows.combine_chunks()
        stride = max(len(rows) // (groups * cells * _CELL_SAMPLE), 1)
        sampled = int64s(np.arange(0, len(rows), stride))
        values = []
        for column in (rows[name] for name in columns):
            text = is_text(column.type)
            values.append(keys(column, vocabulary(column.take(sampled).combine_chunks(), _WORDS) if text else None))
        tree = split([column[::stride] for column in values], groups, blocks=cells)
        leaves = assign(tree, values)
        rows = rows.take(int64s(np.argsort(leaves, kind="stable")))
        counts = np.add.reduceat(np.bincount(leaves, minlength=sum(tree["blocks"])), _starts(tree["blocks"]))
        edges = np.cumsum(counts).tolist()
    start = 0
    for end in edges:
        # The tree keeps rows with equal keys together, even if they are too many for one row group. Divide them here.
        for low in range(start, end, 2 * _ROW_GROUP_ROWS):
            yield rows.slice(low, min(2 * _ROW_GROUP_ROWS, end - low))
        start = end


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *counts[:-1]])
