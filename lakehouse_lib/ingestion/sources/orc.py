"""Read ORC files as blocks of typed columns; a row's line is its number in the file, from 1.

A stripe is in memory as a whole. A time without a zone is a ``timestamp_ntz``, because ORC does not say its zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.blocks import TypedBlock, refusal
from lakehouse_lib.ingestion.sources.row_blocks import row_blocks
from lakehouse_lib.ingestion.sources.stored_columns import plain_values, refusals, type_mismatches, typed_block


def orc_head(source_file: LandedFile) -> tuple[pa.Schema, int]:
    """The columns of a file and its number of rows; raises SourceRefusedError if it is not complete."""
    from pyarrow import orc  # loads a library of its own

    with refusals(source_file, "ORC"), source_file.open() as source:
        file = orc.ORCFile(source)
        return file.schema, file.nrows


def read_orc(
    source_file: LandedFile, schema: pa.Schema, *, may_lack: bool = False
) -> Iterator[Callable[[], TypedBlock]]:
    """Functions that convert the blocks of a file, in order. They can run in other threads.

    Args:
        may_lack: whether the file may lack nullable columns, which are NULL.

    Raises:
        SourceRefusedError: the columns or their types do not fit the schema, the file is not complete, or it has a time
            outside the years 1678 to 2261, which pyarrow cannot read. The functions raise it, too.
    """
    from pyarrow import orc  # loads a library of its own

    with refusals(source_file, "ORC"), source_file.open() as source:
        file = orc.ORCFile(source)
        stored = file.schema
        mismatches = type_mismatches(schema, stored, may_lack=may_lack)
        if mismatches:
            raise refusal(source_file.name, mismatches)
        names = [name for name in schema.names if name in stored.names]
        for number in range(file.nstripes):
            if not source_file.has_chunk(number, file.nstripes):
                continue
            stripe = file.read_stripe(number, columns=names)
            for rows in row_blocks([stripe]):
                yield partial(_converted, rows, stored, source_file, schema)


def _converted(rows: pa.RecordBatch, stored: pa.Schema, source_file: LandedFile, schema: pa.Schema) -> TypedBlock:
    with refusals(source_file, "ORC"):
        columns = {name: plain_values(rows.column(name)) for name in rows.schema.names}
        return typed_block(columns, stored, schema, rows.num_rows)
