"""Rows that go from data files of a table into others as they are."""

from __future__ import annotations

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.reader import TableReader

#: Of a files table, what it takes to copy the rows of its files.
COPIED_COLUMNS = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


def copy_reader(target: WriteTarget) -> TableReader:
    """The reader of rows as ``DataFileWriter`` writes them to that target: without partition values, with their ids."""
    return TableReader(target.store, target.layout, target.layout.data_columns)
