"""Copying rows unchanged from data files of a table into other data files."""

from __future__ import annotations

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.reader import TableReader

#: The columns of a files table that are needed to copy the rows of its files.
COPIED_COLUMNS = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


def copy_reader(target: WriteTarget) -> TableReader:
    """The reader of rows that are copied into files of ``target``.

    It reads the columns of data files, and the row ids if the target's layout has columns for them.
    """
    return TableReader(target.store, target.layout, target.layout.data_columns)
