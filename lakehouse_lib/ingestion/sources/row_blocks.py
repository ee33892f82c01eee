"""Blocks of typed rows, limited by their rows and by their bytes in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

#: The largest number of rows of a block, and of bytes of a block with several rows.
MOST_ROWS = 1 << 16
MOST_BYTES = 8 << 20


def row_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in order: small batches are joined, and large batches are cut.

    If some rows of a batch are much wider than others, its blocks may have more bytes.
    """
    pending: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        for piece, piece_size in _cut(batch):
            if pending and (rows + piece.num_rows > MOST_ROWS or size + piece_size > MOST_BYTES):
                yield _joined(pending)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows += piece.num_rows
            size += piece_size
    if pending:
        yield _joined(pending)


def _cut(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Pieces with the same number of rows, except for the last one, and about the bytes of each."""
    size, count = batch.nbytes, batch.num_rows
    pieces = max(-(-count // MOST_ROWS), -(-size // MOST_BYTES))
    rows = max(1, count // max(1, pieces))
    return ((batch.slice(start, rows), size * rows // count) for start in range(0, count, rows))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
