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
        before: True: the files have the schema before the commit; False: the schema after the commit.
    """

    files: pa.Table
    change: ChangeType
    before: bool = False


def changed_files(commit: CommitActions, store: ObjectStore) -> list[ChangedFiles]:
    """The changes of a commit, in up to four parts. Parts without files are left out.

    Removed files may lack partition values and size; ``with_fields_of_adds`` adds them.
    """
    if len(commit.changes):
        return [ChangedFiles(as_files(commit.changes), None)]
    added, removed = commit.adds, commit.removes
    kept_added, kept_removed, deleted, restored = _pair(commit, store)
    parts = [
        ChangedFiles(as_files(removed.filter(kept_removed)), "delete", before=True),
        ChangedFiles(deleted, "delete"),
        ChangedFiles(restored, "insert"),
        ChangedFiles(as_files(added.filter(kept_added)), "insert"),
    ]
    return [part for part in parts if len(part.files)]


def with_fields_of_adds(changed: ChangedFiles, store: ObjectStore, version: int, partitioned: bool) -> ChangedFiles:
    """If a remove action of a commit lacks fields, replace all removed files by their add actions.

    A remove action may lack the size and the partition values of the file, but rows cannot be read without them.

    Raises:
        LogCorruptedError: a removed file was not a file of the table.
        DeltaError: as ``load_snapshot`` of the version before.
    """
    removed = changed.files
    is_incomplete = pc.is_null(removed["size"])
    if partitioned:
        is_incomplete = pc.or_(is_incomplete, pc.is_null(removed["partitionValues"]))
    if not pc.any(is_incomplete, min_count=0).as_py():
        return changed
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
    return replace(changed, files=earlier.take(positions))


def _pair(commit: CommitActions, store: ObjectStore) -> tuple[pa.Array, pa.Array, pa.Table, pa.Table]:
    """Pair the add and the remove of the same file: the commit has replaced the file's deletion vector.

    Returns:
        Four values. Two masks: the adds, and the removes, that have ``dataChange`` and are in no pair. Two files
        tables: their live rows are the rows that the new vectors delete, and the rows that the new vectors restore.
    """
    added, removed = commit.adds, commit.removes
    add_paths = file_paths.canonical(added["path"], store)
    remove_paths = file_paths.canonical(removed["path"], store)
    is_unpaired_add = pc.invert(pc.is_in(add_paths, value_set=remove_paths))
    is_unpaired_remove = pc.invert(pc.is_in(remove_paths, value_set=add_paths))
    changes_added, changes_removed = (files["dataChange"].combine_chunks() for files in (added, removed))
    deleted: list[dict[str, Any]] = []
    restored: list[dict[str, Any]] = []
    remove_indexes = {remove_paths[index].as_py(): index for index in _positions(pc.invert(is_unpaired_remove))}
    for index in _positions(pc.invert(is_unpaired_add)):
        remove_index = remove_indexes[add_paths[index].as_py()]
        if not changes_added[index].as_py() and not changes_removed[remove_index].as_py():
            continue
        new = added.slice(index, 1)
        vectors = [table["deletionVector"][0].as_py() for table in (removed.slice(remove_index, 1), new)]
        if vectors[0] == vectors[1]:
            continue
        old_hidden, new_hidden = (deletion_vector.load(store, vector) for vector in vectors)
        rows = _rows(new, store)
        for changed_rows, entries in ((new_hidden - old_hidden, deleted), (old_hidden - new_hidden, restored)):
            if len(changed_rows):
                deletion_vector.check_rows(changed_rows, new["path"][0].as_py(), rows, table=store.root)
                # The statistics may describe only the rows that the new vector does not hide.
                values = {"deletionVector": deletion_vector.all_but(changed_rows, rows), "stats": None}
                entries.append(new.to_pylist()[0] | values)
    return (
        pc.and_(is_unpaired_add, changes_added),
        pc.and_(is_unpaired_remove, changes_removed),
        pa.Table.from_pylist(deleted, schema=FILE_SCHEMA),
        pa.Table.from_pylist(restored, schema=FILE_SCHEMA),
    )


def _positions(mask: pa.Array) -> list[int]:
    """The positions at which a mask is true."""
    return [int(index) for index in np.flatnonzero(mask.to_numpy(zero_copy_only=False))]


def _rows(file: pa.Table, store: ObjectStore) -> int:
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
