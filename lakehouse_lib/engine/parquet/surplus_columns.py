"""Columns of data files that the table does not have, such as dropped columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakehouse_lib.engine.parquet.conform import Members, has_field_ids, members_of
from lakehouse_lib.engine.parquet.footer import read_footer
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, StructType, TableLayout
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests


@dataclass(frozen=True)
class SurplusTask:
    """A task that reads the footers of data files.

    Attributes:
        layout: of the table.
        materialized: the names of the materialized columns of row ids, which are not in the schema.
        paths: log paths of the files.
    """

    store: ObjectStore
    layout: TableLayout
    materialized: frozenset[str]
    paths: pa.ChunkedArray


def find_surplus(task: SurplusTask) -> pa.Table:
    """Run a task; returns the ``path`` of each file with a column, or a member of one, that the table does not have.

    Raises:
        ObjectNotFoundError: a data file does not exist.
        StoreError: it is not a Parquet file, or is damaged.
    """
    paths = task.paths.combine_chunks()
    stored = file_paths.decode_all(task.paths, task.store).to_pylist()
    flags = map_requests(task.store, partial(_has_surplus, task), stored)
    return pa.table({"path": paths.filter(pa.array(flags, pa.bool_()))})


def _has_surplus(task: SurplusTask, path: str) -> bool:
    return has_surplus_columns(
        list(read_footer(task.store, path).schema.to_arrow_schema()), task.layout, task.materialized
    )


def has_surplus_columns(stored: Sequence[pa.Field], layout: TableLayout, materialized: Collection[str]) -> bool:
    """Whether a file has a column, or a member at any depth, that belongs to no column of the table.

    Copies of partition columns belong to the partition columns. Columns are found as the reader finds them.

    Args:
        stored: the columns of the file, with field ids.
        materialized: names of columns that are never surplus.
    """
    columns = [column for column in stored if column.name not in materialized]
    mode = layout.mapping if layout.mapping != "id" or has_field_ids(stored) else "name"
    return _has_surplus_fields(columns, layout.schema.fields, mode)


def _has_surplus_fields(stored: Sequence[pa.Field], fields: Sequence[Field], mode: Mode) -> bool:
    members = Members(stored, mode)
    places = [(place, field.type) for field in fields if (place := members.index(field)) is not None]
    if len({place for place, _ in places}) < len(stored):
        return True
    return any(_has_surplus_members(stored[place], kind, mode) for place, kind in places)


def _has_surplus_members(stored: pa.Field, kind: DataType, mode: Mode) -> bool:
    """Whether a struct in a column has a surplus member. A column of another type than the table's has none."""
    inner = members_of(stored)
    if isinstance(kind, StructType):
        return pa.types.is_struct(stored.type) and _has_surplus_fields(inner, kind.fields, mode)
    if isinstance(kind, ArrayType):
        return len(inner) == 1 and _has_surplus_members(inner[0], kind.element_type, mode)
    if isinstance(kind, MapType) and pa.types.is_map(stored.type):
        key, value = stored.type.key_field, stored.type.item_field
        return _has_surplus_members(key, kind.key_type, mode) or _has_surplus_members(value, kind.value_type, mode)
    return False
