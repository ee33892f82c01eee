"""Tables as Arrow IPC streams in memory."""

from __future__ import annotations

import pyarrow as pa


def stream_of(rows: pa.Table) -> pa.Buffer:
    """The rows as an IPC stream."""
    # Compute the size first: a growing stream is copied many times, into memory that the system has to clear.
    counter = pa.MockOutputStream()
    with pa.ipc.new_stream(counter, rows.schema) as stream:
        stream.write_table(rows)
    buffer = pa.allocate_buffer(counter.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), rows.schema) as stream:
        stream.write_table(rows)
    return buffer


def rows_of(stream: pa.Buffer) -> pa.Table:
    """The rows of an IPC stream; they refer to its memory."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
