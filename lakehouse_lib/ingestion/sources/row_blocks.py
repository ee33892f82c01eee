"""Blocks of typed rows, limited by their rows and by their bytes in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

#: The largest number of rows of a block.
MOST_ROWS = 1 << 16
_LEAST_BYTES, _COLUMN_BYTES, _MOST_BYTES = 8 << 20, 16 << 10, 64 << 20


def most_bytes(columns: int) -> int:
    """The largest size of a block with several rows, in bytes of memory: 8 to 64 MiB.

    A block takes about a millisecond for each column, whatever its rows, so blocks of many columns are larger.
    """
    return min(max(_LEAST_BYTES, columns * _COLUMN_BYTES), _MOST_BYTES)


def row_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in order: small batches are joined, and large batches are cut.

    If some rows of a batch are much wider than others, its blocks may have more bytes.
    """
    pending: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        most = most_bytes(batch.num_columns)
        for piece, piece_size in _cut(batch, most):
            if pending and (rows + piece.num_rows > MOST_ROWS or size + piece_size > most):
                yield _joined(pending)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows += piece.num_rows
            size += piece_size
    if pending:
        yield _joined(pending)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Pieces of about ``most`` bytes, and their bytes. All but the last piece have the same number of rows."""
    size, count = batch.nbytes, batch.num_rows
    pieces = max(-(-count // MOST_ROWS), -(-size // most))
    rows = max(1, count // max(1, pieces))
    return ((batch.slice(start, rows), size * rows // count) for start in range(0, count, rows))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
