"""The changes of one commit, as files whose rows are the changed rows (PROTOCOL.md, section Change Data Files).

If a commit has change files, these contain all of its changes. Otherwise the changed rows are the rows of added and
removed files with ``dataChange``. If the commit replaced the deletion vector of a file, the changed rows are the rows
that only one of the two vectors hides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.parquet.footer import read_footer
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.replay.file_keys import file_keys
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.store import ObjectStore

#: The kind of change of all rows of a file; None: the file's column ``_change_type`` has the kind of each row.
ChangeType = Literal["insert", "delete"] | None


@dataclass(frozen=True)
class ChangedFiles:
    """Files (FILE_SCHEMA) whose live rows are changed rows of a commit.

    Attributes:
        change: the kind of change of all these rows; None: each row has its own kind.
        has_old_schema: True: the files have the schema before the commit; False: the schema after the commit.
    """

    files: pa.Table
    change: ChangeType
    has_old_schema: bool = False


def changed_files(commit: CommitActions, store: ObjectStore) -> list[ChangedFiles]:
    """The changes of a commit: its change files, or up to four parts.

    The parts are removed files, rows that new deletion vectors hide, rows that they no longer hide, and added files.
    Parts without files are left out. Removed files may lack partition values and size, which ``with_complete_removes``
    adds.

    Raises:
        DeltaError: a deletion vector, or the footer of a file without statistics, cannot be read.
    """
    if len(commit.changes):
        return [ChangedFiles(as_files(commit.changes), None)]
    added, removed = commit.adds, commit.removes
    is_whole_add, is_whole_remove, deletions, restorations = _split_pairs(commit, store)
    parts = [
        ChangedFiles(as_files(removed.filter(is_whole_remove)), "delete", has_old_schema=True),
        ChangedFiles(deletions, "delete"),
        ChangedFiles(restorations, "insert"),
        ChangedFiles(as_files(added.filter(is_whole_add)), "insert"),
    ]
    return [part for part in parts if len(part.files)]


def with_complete_removes(
    removes: ChangedFiles, store: ObjectStore, version: int, is_partitioned: bool
) -> ChangedFiles:
    """Removed files with the size and the partition values, without which their rows cannot be read.

    A remove action may lack these fields. If one of the actions lacks a field, all removed files are replaced by their
    add actions in the version before the commit.

    Args:
        removes: files that the commit removed.
        version: the version of the commit.
        is_partitioned: whether the table has partition columns.

    Raises:
        LogCorruptedError: a removed file was not a file of the table.
        DeltaError: the version before the commit cannot be loaded.
    """
    removed = removes.files
    is_incomplete = pc.is_null(removed["size"])
    if is_partitioned:
        is_incomplete = pc.or_(is_incomplete, pc.is_null(removed["partitionValues"]))
    if not pc.any(is_incomplete, min_count=0).as_py():
        return removes
    earlier = load_snapshot(store, version - 1).files if version else removed.slice(0, 0)
    positions = pc.index_in(file_keys(removed, store), value_set=file_keys(earlier, store))
    unknown = removed.filter(pc.is_null(positions))
    if len(unknown):
        raise LogCorruptedError(
            f"version {version} removed {unknown['path'][0]}, which was not a file of the table",
            table=store.root,
            version=version,
            hint=f"Restore the log from a backup, or read the changes after version {version}",
        )
    return replace(removes, files=earlier.take(positions))


def _split_pairs(commit: CommitActions, store: ObjectStore) -> tuple[pa.Array, pa.Array, pa.Table, pa.Table]:
    """Separate the files whose deletion vector was replaced from the files that were added or removed.

    A commit that replaces the deletion vector of a file has a pair of actions: it removes and adds the same file.

    Returns:
        A mask of the adds that are in no pair and have ``dataChange``; the same mask of the removes; a files table
        whose live rows are the rows that only the new vectors hide; and a files table whose live rows are the rows
        that only the old vectors hide.
    """
    added, removed = commit.adds, commit.removes
    add_paths = file_paths.canonical(added["path"], store)
    remove_paths = file_paths.canonical(removed["path"], store)
    is_unpaired_add = pc.invert(pc.is_in(add_paths, value_set=remove_paths))
    is_unpaired_remove = pc.invert(pc.is_in(remove_paths, value_set=add_paths))
    add_data_change, remove_data_change = (files["dataChange"].combine_chunks() for files in (added, removed))
    deletions: list[dict[str, Any]] = []
    restorations: list[dict[str, Any]] = []
    remove_indexes = {remove_paths[index].as_py(): index for index in _positions(pc.invert(is_unpaired_remove))}
    for index in _positions(pc.invert(is_unpaired_add)):
        remove_index = remove_indexes[add_paths[index].as_py()]
        if not add_data_change[index].as_py() and not remove_data_change[remove_index].as_py():
            continue
        new_file = added.slice(index, 1)
        vectors = [table["deletionVector"][0].as_py() for table in (removed.slice(remove_index, 1), new_file)]
        if vectors[0] == vectors[1]:
            continue
        old_hidden, new_hidden = (deletion_vector.load(store, vector) for vector in vectors)
        row_count = _row_count(new_file, store)
        for changed_rows, entries in ((new_hidden - old_hidden, deletions), (old_hidden - new_hidden, restorations)):
            if len(changed_rows):
                deletion_vector.check_rows(changed_rows, new_file["path"][0].as_py(), row_count, table=store.root)
                # The statistics may describe only the rows that the new vector does not hide.
                values = {"deletionVector": deletion_vector.all_but(changed_rows, row_count), "stats": None}
                entries.append(new_file.to_pylist()[0] | values)
    return (
        pc.and_(is_unpaired_add, add_data_change),
        pc.and_(is_unpaired_remove, remove_data_change),
        pa.Table.from_pylist(deletions, schema=FILE_SCHEMA),
        pa.Table.from_pylist(restorations, schema=FILE_SCHEMA),
    )


def _positions(mask: pa.Array) -> list[int]:
    """The positions at which a mask is true."""
    return [int(index) for index in np.flatnonzero(mask.to_numpy(zero_copy_only=False))]


def _row_count(file: pa.Table, store: ObjectStore) -> int:
    """The number of rows in a file, including deleted rows, from its statistics, else from its footer."""
    row_count = num_records(file)[0].as_py()
    if row_count is not None:
        return int(row_count)
    return int(read_footer(store, file_paths.decode(file["path"][0].as_py(), store)).num_rows)


def as_files(actions: pa.Table) -> pa.Table:
    """File actions as a files table; columns that the actions lack are null."""
    columns = [
        actions[column.name] if column.name in actions.column_names else pa.nulls(len(actions), column.type)
        for column in FILE_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=FILE_SCHEMA)
