"""Rows that go from data files of a table into others as they are."""

from __future__ import annotations

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.reader import TableReader, select
from lakehouse_lib.engine.parquet.writer import file_schema
from lakehouse_lib.schema.column_mapping import Mode

#: Of a files table, what it takes to copy the rows of its files.
COPIED_COLUMNS = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


def copy_reader(target: WriteTarget, mapping: Mode) -> TableReader:
    """Reads rows as ``DataFileWriter`` writes them to that target: without partition values, with what they keep."""
    names = file_schema(target.schema, target.partition_columns).names
    return TableReader(target.store, select(target.schema, names), (), mapping, target.row_ids)
