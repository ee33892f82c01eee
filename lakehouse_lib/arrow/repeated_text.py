"""Text columns with few distinct values as dictionaries, so that rows are moved fast.

To reorder a text column takes ten times as long as to reorder integers. A dictionary array has an integer for each row,
and each distinct text once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s

_SAMPLE_ROWS, _SAMPLE_TEXTS = 256, 64
_MOST_TEXTS, _MOST_BYTES = 256, 4096


def with_dictionaries(rows: pa.Table, except_columns: Collection[str] = ()) -> pa.Table:
    """The rows, in which the text columns with few distinct values are dictionary arrays.

    Args:
        except_columns: columns that stay as they are.
    """
    for place, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) and field.name not in except_columns and _repeats(rows.column(place)):
            encoded = rows.column(place).dictionary_encode()
            texts = encoded.chunk(0).dictionary
            if len(texts) <= _MOST_TEXTS and texts.nbytes <= _MOST_BYTES:
                rows = rows.set_column(place, field.with_type(encoded.type), encoded)
    return rows


def without_dictionaries(rows: pa.Table, columns: Collection[str] | None = None) -> pa.Table:
    """The rows with text in place of dictionary arrays; ``columns`` None: in all columns."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and (columns is None or field.name in columns):
            plain = field.with_type(field.type.value_type)
            rows = rows.set_column(place, plain, rows.column(place).cast(plain.type))
    return rows


def concat_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables. A column that is text in one of them is text in the result."""
    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables):
        return pa.concat_tables(tables)
    texts = {field.name for table in tables for field in table.schema if pa.types.is_string(field.type)}
    return pa.concat_tables([without_dictionaries(table, texts) for table in tables])


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a sample of the column has few distinct values."""
    if not len(column):
        return False
    sample = column.take(int64s(np.linspace(0, len(column) - 1, _SAMPLE_ROWS).astype(np.int64)))
    count: int = pc.count_distinct(sample, mode="all").as_py()
    return count <= _SAMPLE_TEXTS
