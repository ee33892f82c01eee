"""The plan of a vacuum: which stored objects a table no longer needs. Reads nothing.

A file is kept if a version that is kept refers to it, or if its tombstone is younger than the retention. A file without
a log entry is kept while the file itself is younger than the retention, because it may belong to a running writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal, strings
from lakehouse_lib.engine.spark.write import WRITE_KEY
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.log.tombstones import are_expired
from lakehouse_lib.operations.listing import SymbolicLinks
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.store import ObjectStore


def plan_vacuum(
    objects: pa.Table,
    files: pa.Table,
    tombstones: pa.Table,
    cutoff: int,
    *,
    store: ObjectStore,
    full: bool = True,
    change_files: pa.Array | None = None,
    links: SymbolicLinks = SymbolicLinks(),  # noqa: B008 - a value
    spared: pa.ChunkedArray | None = None,
    partition_columns: Sequence[str] = (),
) -> pa.Table:
    """The objects to delete: rows of ``objects``, sorted by path. Reads nothing.

    Args:
        objects: the stored objects (OBJECT_SCHEMA).
        files: the files of the versions that are kept (FILE_SCHEMA): of the current one, and of others.
        tombstones: the removes that the log has (TOMBSTONE_SCHEMA); a remove without a time counts as expired.
        cutoff: ms since the epoch; an object is deleted if it was removed at or before the cutoff, or if it has no
            entry in the log and was written before the cutoff.
        store: gives the log's paths their canonical form.
        full: delete objects without an entry in the log, too.
        change_files: store paths of change files that are deleted, too, if they were written before the cutoff.
        links: the table's symbolic links; a file to which the log refers through a link is kept.
        spared: store paths of files that clones and pins keep; None: no file.
        partition_columns: physical names of the partition columns. Their folders contain data even if the name starts
            with ``_`` or ``.``.
    """
    limit = literal(cutoff, pa.int64())
    expired = are_expired(tombstones, cutoff)
    recent = tombstones.filter(pc.invert(expired))
    kept_by_records = [] if spared is None else spared.chunks
    protected_paths = pa.chunked_array(
        [*referenced_paths(files, store), *referenced_paths(recent, store), *kept_by_records], type=pa.string()
    )
    expired_paths = pa.chunked_array(referenced_paths(tombstones.filter(expired), store), type=pa.string())

    paths = objects["path"]
    unneeded = pc.is_in(paths, value_set=expired_paths)
    is_old = pc.less(objects["modified"], limit)
    if change_files is not None:
        unneeded = pc.or_(pc.and_(is_old, pc.is_in(paths, value_set=change_files)), unneeded)
    unneeded = pc.or_(is_old, unneeded) if full else unneeded
    gone = objects.filter(pc.and_not(unneeded, pc.is_in(paths, value_set=protected_paths)))
    gone = gone.filter(pc.invert(_hidden(gone["path"], partition_columns)))
    gone = gone.filter(pc.invert(file_paths.are_absolute(gone["path"], store)))  # outside the table
    for root in nested_tables(paths):
        gone = gone.filter(pc.invert(pc.starts_with(gone["path"], root + "/")))
    for folder in iceberg_folders(paths):
        gone = gone.filter(pc.invert(pc.starts_with(gone["path"], folder)))
    gone = gone.filter(pc.invert(shares_name(gone["path"], protected_paths)))
    gone = gone.filter(pc.invert(pc.is_in(gone["path"], value_set=links.targets(protected_paths))))

    checksums = pc.replace_substring_regex(gone["path"], r"^(.*/)?([^/]+)$", r"\1.\2.crc")
    companions = objects.filter(pc.is_in(paths, value_set=checksums))
    return pa.concat_tables([gone, companions]).sort_by("path")


def referenced_paths(files: pa.Table, store: ObjectStore) -> list[pa.Array]:
    """Store paths of data files and of their deletion vectors."""
    return [
        file_paths.canonical(files["path"], store),
        deletion_vector.paths_of(store, files["deletionVector"]),
    ]


def shares_name(paths: pa.ChunkedArray, references: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which store paths have the file name of a reference that leads out of the table.

    Such a reference may lead back into the table by another name of its folder (a link, a mount). File names are
    unique, so an equal name means the same file.
    """
    outside = references.filter(pc.match_substring_regex(references, r"^/|^[A-Za-z][A-Za-z0-9+.-]*:"))
    # Some references are decoded and some are not, so a name with a percent sign counts in both forms.
    names = pc.unique(_file_names(outside))
    escaped = names.filter(pc.match_substring(names, "%")).to_pylist()
    value_set = pa.concat_arrays([names, strings([unquote(name) for name in escaped])])
    return pc.is_in(_file_names(paths), value_set=value_set)


def nested_tables(paths: pa.ChunkedArray) -> Iterable[str]:
    """Folders below the root that have a log of their own."""
    inside = paths.filter(pc.match_substring(paths, f"/{LOG}/"))
    roots: list[str] = pc.unique(pc.replace_substring_regex(inside, rf"/{LOG}/.*$", "")).to_pylist()
    return roots


def iceberg_folders(paths: pa.ChunkedArray) -> list[str]:
    """Folders with Iceberg's metadata of the same data files, each with a slash at the end.

    No Delta log refers to these objects, and without them Iceberg could no longer read the table.
    """
    described = paths.filter(pc.match_substring_regex(paths, r"(^|/)metadata/[^/]+\.metadata\.json(\.gz)?$"))
    folders: list[str] = pc.unique(pc.replace_substring_regex(described, "[^/]*$", "")).to_pylist()
    return folders


def _file_names(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(paths, r"^.*/", "")


def are_hidden(paths: pa.ChunkedArray, partition_columns: Sequence[str]) -> pa.ChunkedArray:
    """Which paths have a component that starts with ``_`` or ``.`` and is not the folder of a partition."""
    names = "|".join(re.escape(name) + "=" for name in partition_columns if name[:1] in ("_", "."))
    if names:
        paths = pc.replace_substring_regex(paths, rf"(^|/)(?:{names})", r"\1column=")
    return pc.match_substring_regex(paths, r"(^|/)[_.]")


def _hidden(paths: pa.ChunkedArray, partition_columns: Sequence[str]) -> pa.ChunkedArray:
    """``are_hidden`` without the files of the change data feed, of indexes and of Spark writes.

    Every file in the folder of a Spark write counts as data, so a killed job's files in its ``_temporary`` are deleted.
    """
    paths = pc.replace_substring_regex(paths, r"(^|/)(?:_change_data|_delta_index)/", r"\1folder/")
    return pc.and_not(are_hidden(paths, partition_columns), pc.starts_with(paths, f"{WRITE_KEY}="))
