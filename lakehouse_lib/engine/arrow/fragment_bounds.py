"""The bounds of the columns of a file as pyarrow expressions, by which a dataset skips files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lakehouse_lib.schema import DataType, PrimitiveType, Schema
from lakehouse_lib.schema.arrow import with_large_offsets
from lakehouse_lib.statistics import Bounds, ColumnPath, bounds_of

#: The maximum number of pairs of a file and a column for which a dataset has bounds. A pair takes 14 microseconds.
MOST_BOUNDS = 200_000
#: The types of columns without bounds in a dataset. The min and max of floating-point numbers do not cover NaN, so
#: pyarrow would skip files for filters that NaN satisfies.
_WITHOUT_BOUNDS = ("float", "double", "binary", "boolean", "void", "variant")


def bounded_columns(
    files: pa.Table, columns: Schema, target: pa.Schema, partition_columns: tuple[str, ...]
) -> list[str]:
    """The columns of a dataset that may have bounds.

    These are columns of primitive types that are not partition columns, and that the dataset reads in the table's type.
    The list is empty if the files have no ``stats``, or if there are too many files and columns (``MOST_BOUNDS``). Then
    only the ``file_pruning_predicate`` of ``DeltaTable.to_pyarrow_dataset`` skips files.

    Args:
        columns: the table's columns.
        target: the columns and types of the dataset.
    """
    names = []
    read_types = dict(zip(target.names, target.types, strict=True))
    for field in columns.fields:
        if not isinstance(field.type, PrimitiveType) or field.type.type in _WITHOUT_BOUNDS:
            continue
        arrow = field.to_arrow().type
        is_partition = field.name in partition_columns
        if not is_partition and read_types.get(field.name) in (arrow, with_large_offsets(arrow)):
            names.append(field.name)
    return names if "stats" in files.column_names and len(files) * len(names) <= MOST_BOUNDS else []


def bounds_expressions(files: pa.Table, columns: Schema, names: list[str]) -> Iterator[list[pads.Expression]]:
    """For each file, expressions that are true for all of its rows.

    Args:
        files: a files table with ``stats``.
        names: the columns with bounds (``bounded_columns``).
    """
    paths: dict[ColumnPath, DataType] = {(name,): columns.field(name).type for name in names}
    bounds = {path[0]: values for path, values in bounds_of(files, paths).items()}
    for index in range(len(files)):
        yield [part for name, values in bounds.items() for part in _of_file(pc.field(name), values, index)]


def _of_file(column: pads.Expression, bounds: Bounds, index: int) -> Iterator[pads.Expression]:
    nulls, rows = bounds.null_count[index].as_py(), bounds.num_records[index].as_py()
    if nulls is not None and nulls == rows:
        yield column.is_null()
        return
    smallest, largest = bounds.min[index], bounds.max[index]
    if nulls == 0:
        yield column.is_valid()
    for bound, condition in ((smallest, column >= smallest), (largest, column <= largest)):
        if bound.is_valid:
            yield condition if nulls == 0 else condition | column.is_null()
