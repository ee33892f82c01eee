"""Manifests: text files that list a table's data files, for programs that read Parquet and not the Delta log.

Each partition has a manifest, such as ``_symlink_format_manifest/day=2026-01-31/manifest``. Each line is the absolute
path of a file. Programs read all rows of the listed files, and take the names of columns from the files. So a table
with deletion vectors or column mapping has no manifests. Names and format are delta-spark's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, literal
from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.protocol.table_properties import SYMLINK_MANIFESTS
from lakehouse_lib.schema import TableLayout
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

FOLDER = "_symlink_format_manifest"

_COLUMNS = ("path", "partitionValues")
#: The maximum number of times that a hook writes its partitions again because other writers have committed.
_MOST_ROUNDS = 10


def write_manifests(snapshot: Snapshot) -> None:
    """Write the manifests of all partitions of a version, and delete those of partitions without files.

    Raises:
        UnsupportedFeatureError: the table has deletion vectors or column mapping; nothing is written.
    """
    contents = _readable_manifests(snapshot)
    store = snapshot.store
    for path, text in contents.items():
        store.put(path, text)
    stored_paths = [meta.path for meta in store.walk(FOLDER) if meta.path.rpartition("/")[2] == "manifest"]
    store.delete_many([path for path in stored_paths if path not in contents])


def refresh_manifests(latest: Snapshot, commit: CommitActions) -> None:
    """Write the manifests of the partitions that a commit changed; all of them if it changed the metadata.

    If another writer commits meanwhile, its hook may have written newer manifests first. So the manifests are written
    again, at most ten times, until no later version exists.

    Args:
        latest: the version of this commit or a later one.

    Raises:
        UnsupportedFeatureError: as ``write_manifests``.
    """
    for _ in range(_MOST_ROUNDS):
        if not SYMLINK_MANIFESTS.is_on(latest.configuration):
            return
        if commit.metadata is not None:
            write_manifests(latest)
        else:
            _write_changed(latest, commit)
        newest = latest.update()
        if newest.version == latest.version:
            return
        latest = newest


def _write_changed(latest: Snapshot, commit: CommitActions) -> None:
    files = pa.concat_tables([commit.adds.select(_COLUMNS), commit.removes.select(_COLUMNS)])
    changed_manifests = manifests(files, latest.layout, latest.store)
    contents = _readable_manifests(latest)
    for path in changed_manifests.keys() & contents.keys():
        latest.store.put(path, contents[path])
    latest.store.delete_many(sorted(changed_manifests.keys() - contents.keys()))


def _readable_manifests(snapshot: Snapshot) -> Mapping[str, bytes]:
    table, version = snapshot.store.root, snapshot.version
    files = snapshot.file_columns([*_COLUMNS, "deletionVector"])
    if files["deletionVector"].null_count < len(files):
        hint = "Rewrite these files with optimize.purge(), and set delta.enableDeletionVectors to false"
        raise _refusal("deletion vectors", hint, table, version)
    if snapshot.layout.mapping != "none":
        raise _refusal("column mapping", "Read the table with an engine that reads Delta", table, version)
    return manifests(files, snapshot.layout, snapshot.store)


def manifests(files: pa.Table, layout: TableLayout, store: ObjectStore) -> dict[str, bytes]:
    """The manifests of files, by store path. A table without partition columns has one manifest, even without files.

    Args:
        files: a files table, with the columns path and partitionValues.

    Raises:
        UnsupportedFeatureError: a path has a line break.
    """
    paths = file_paths.absolute(file_paths.canonical(files["path"], store), store)
    if pc.any(pc.match_substring(paths, "\n"), min_count=0).as_py():
        raise _refusal("paths with line breaks", "Give the table another location", store.root, None)
    keys = layout.partition_keys
    columns = {
        str(number): partition_values.to_strings(
            partition_values.partition_column(files, key, layout.schema.field(name).type),
            layout.schema.field(name).type,
        )
        for number, (name, key) in enumerate(keys.items())
    }
    if not columns:
        ends = pa.array(np.array([0, len(paths)], np.int32))
        lists = pa.ListArray.from_arrays(ends, paths.take(pc.sort_indices(paths)))
        lines = pc.binary_join(lists, literal("\n", pa.string()))[0].as_py()
        return {f"{FOLDER}/manifest": f"{lines}\n".encode() if lines else b""}
    sorted_files = pa.table({**columns, "path": paths}).sort_by("path")
    groups = sorted_files.group_by(list(columns), use_threads=False).aggregate([("path", "list")])
    texts = pc.binary_join(as_array(groups["path_list"]), literal("\n", pa.string()))
    values = zip(*(groups[column].to_pylist() for column in columns), strict=True)
    folders = [partition_values.hive_path(dict(zip(keys, row, strict=True)), list(keys)) for row in values]
    return {
        f"{FOLDER}/{folder}/manifest": f"{text}\n".encode()
        for folder, text in zip(folders, texts.to_pylist(), strict=True)
    }


def _refusal(what: str, hint: str, table: str, version: int | None) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table has {what}, which programs that read manifests do not support",
        table=table,
        version=version,
        hint=hint,
        code="DELTA_MANIFEST_UNSUPPORTED",
    )
