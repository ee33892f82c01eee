"""The stored files that commits have removed. They are read from the log, without a listing (VACUUM LITE)."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, literal, strings
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, UnsupportedFeatureError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.change_files import logged_change_files
from lakehouse_lib.log.checksum import read_checksum
from lakehouse_lib.log.commits.commit_file import read_removes
from lakehouse_lib.log.retention.last_vacuum import read_last_vacuumed
from lakehouse_lib.log.retention.tombstones import are_expired, drop_expired, retention
from lakehouse_lib.log.segment import Checkpoint, Commit, classify_log_files, list_commits
from lakehouse_lib.operations.listing import OBJECT_SCHEMA, SymbolicLinks, object_batches
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds, checksum_paths
from lakehouse_lib.operations.upkeep.unneeded_files.scan import ScannedFolder, scan_batches
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

_OBJECTS_OF_A_PAGE = 1_000


def first_version_to_read(latest: Snapshot) -> tuple[int, bool]:
    """The first version whose removed files no vacuum has deleted yet, and whether the log has its commit.

    If a log cleanup has deleted that commit, the result is the oldest version of the log, and False. Then only a
    listing finds the files that the missing commits have removed.
    """
    store, since = latest.store, read_last_vacuumed(latest.store, latest.version)
    first = 0 if since is None else since + 1
    commits = list_commits(store, first)
    if commits and commits[0].version > first:
        return commits[0].version, False
    return first, True


def may_lack_tombstones(latest: Snapshot, since: int) -> bool:
    """Whether this version may lack tombstones after ``since`` (ms since the epoch), because a checkpoint dropped them.

    A checkpoint drops the tombstones that have expired by the retention of its version. Later checkpoints lack them,
    too, because they are computed from this checkpoint. The retention is read from the checksum of the version, which
    takes one request, or from the checkpoint if the version has no checksum. True if neither can be read.
    """
    store, last = latest.store, latest.checkpoint_version
    if last is None:
        return False

    def may_lack(checkpoint: Checkpoint) -> bool:
        try:
            checksum = read_checksum(store, checkpoint.version)
            configuration = (
                load_snapshot(store, checkpoint.version).configuration
                if checksum is None
                else checksum.metadata.configuration
            )
            return checkpoint.modified - retention(configuration, store.root) > since
        except (LogCorruptedError, VersionNotFoundError, UnsupportedFeatureError, InvalidArgumentError):
            return True

    checkpoints, _, _ = classify_log_files(list(store.list_from(file_names.LOG, file_names.first_name(0))))
    young = [checkpoint for checkpoint in checkpoints if checkpoint.version <= last and checkpoint.modified > since]
    return any(map_requests(store, may_lack, young))


def removes_below_checkpoint(latest: Snapshot, since: int = 0, first: int = 0) -> list[pa.Table]:
    """The remove actions (TOMBSTONE_SCHEMA) of each commit in the log up to the checkpoint of this version.

    Args:
        since: ms since the epoch; commits that were stored before this time are not read.
        first: the first version.
    """
    last = latest.checkpoint_version
    return [] if last is None or last < first else removes_of_commits(latest.store, last, since, first)


def removes_of_commits(store: ObjectStore, last: int, since: int = 0, first: int = 0) -> list[pa.Table]:
    """The remove actions (TOMBSTONE_SCHEMA) of each commit in the log up to the version ``last``.

    Args:
        since, first: see ``removes_below_checkpoint``.
    """

    def removes(commit: Commit) -> pa.Table | None:
        try:
            return read_removes(store, commit.version, commit.size)
        except VersionNotFoundError:  # log cleanup deleted it, so no reader can open its version
            return None

    commits = [c for c in list_commits(store, first) if c.version <= last and c.object.modified >= since]
    return [table for table in map_requests(store, removes, commits) if table is not None]


def tombstones_since(first: int, latest: Snapshot, cutoff: int, *, is_complete: bool) -> list[pa.Table]:
    """The tombstones for a vacuum without a listing: of all commits from ``first`` on, and all that have not expired.

    If the log lacks some of these commits, the result also has the expired tombstones of the latest checkpoint.

    Args:
        first, is_complete: the results of ``first_version_to_read``.
        cutoff: ms since the epoch; tombstones up to this time have expired.
    """
    if first == 0 or not is_complete:
        return [latest.tombstones, *removes_below_checkpoint(latest, first=first)]
    recent = drop_expired(latest.tombstones, cutoff)
    return [recent, *removes_of_commits(latest.store, latest.version, first=first)]


def old_change_files(store: ObjectStore, cutoff: int, first: int) -> pa.Table:
    """The store path and the size of each change file of commits that were stored before the cutoff.

    The commits are read only if the table has change files.

    Args:
        first: the first version.
    """
    if next(store.walk(file_paths.CHANGE_DATA), None) is None:
        files = pa.Table.from_batches([], CHANGE_FILE_SCHEMA)  # CHANGE_FILE_SCHEMA.empty_table() would import pandas
    else:
        files = logged_change_files(store, cutoff, first)
    return _paths_and_sizes(files, store)


def logged_files(tombstones: pa.Table, change_files: pa.Table, cutoff: int, store: ObjectStore) -> pa.Table:
    """The store path and the size of each file of an expired tombstone and each change file, if the log has its size.

    Args:
        tombstones: TOMBSTONE_SCHEMA.
        change_files: the result of ``old_change_files``.
        cutoff: ms since the epoch; tombstones up to this time have expired.
    """
    expired = tombstones.filter(are_expired(tombstones, cutoff))
    logged = pa.concat_tables([_paths_and_sizes(expired, store), change_files])
    return logged.filter(logged["size"].is_valid())


def is_listing_cheaper(needs: FileNeeds, logged: pa.Table) -> bool:
    """Whether a listing of a remote table takes far fewer requests than ``removed_objects``.

    The number of requests of a listing (pages of 1,000 objects) is estimated from the log. The folder may have more
    objects than the log names. Therefore the estimate must be less than a tenth of the number of the other requests.

    Args:
        logged: see ``removed_objects``.
    """
    pages = (len(needs.needed) + len(needs.expired)) / _OBJECTS_OF_A_PAGE
    return needs.store.is_remote and len(needs.expired) - len(logged) > 10 * (1 + pages)


def removed_objects(needs: FileNeeds, logged: pa.Table) -> ScannedFolder:
    """The unneeded files among the files of expired tombstones and the change files, without a listing.

    Makes one request for each of these files that is not in ``logged``.

    Args:
        logged: the store path and the size of files that are assumed to exist. Their modification time is null in the
            result.
    """
    store = needs.store
    change_files = strings([]) if needs.change_files is None else needs.change_files
    paths = pc.unique(pa.chunked_array([needs.expired, change_files], pa.string()))
    paths = paths.filter(pc.invert(file_paths.are_absolute(paths, store)))
    sizes = as_array(logged["size"]).take(pc.index_in(paths, value_set=logged["path"]))
    objects = pa.table([paths, sizes, pa.nulls(len(paths), pa.int64())], OBJECT_SCHEMA).filter(sizes.is_valid())
    others = paths.filter(sizes.is_null())
    if not store.is_remote:  # Hadoop's file system for a disk writes checksums
        checksums = [path for path in checksum_paths(paths).to_pylist() if os.access(f"{store.root}/{path}", os.F_OK)]
        others = pa.concat_arrays([others, strings(checksums)])
    metas = [meta for meta in map_requests(store, store.head, others.to_pylist()) if meta is not None]
    objects = pa.concat_tables([objects, pa.Table.from_batches(object_batches(metas, store.root, {}), OBJECT_SCHEMA)])
    links = SymbolicLinks.of(store, {} if store.is_remote else links_to(objects["path"], needs.needed, store.root))
    objects = objects.filter(pc.invert(links.are_behind(objects["path"]))).combine_chunks()
    scanned = scan_batches(objects.to_batches(), needs)
    scanned.links = links
    return scanned


def links_to(paths: pa.Array | pa.ChunkedArray, needed: pa.Array, root: str) -> dict[str, str]:
    """The symbolic links among these store paths, their folders and the folders of needed files: link -> real target.

    Args:
        root: the folder of the table.
    """
    real_root = os.path.realpath(root).rstrip("/")
    references = needed.filter(pc.invert(pc.starts_with(needed, "/")))
    folders = {folder: os.path.realpath(f"{root}/{folder}") for folder in {*folders_of(paths), *folders_of(references)}}
    files = [path for path in paths.to_pylist() if os.path.islink(f"{root}/{path}")]  # noqa: PTH114 - a Path is slow
    return {
        **{folder: end for folder, end in folders.items() if end != f"{real_root}/{folder}"},
        **{path: os.path.realpath(f"{root}/{path}") for path in files},
    }


def folders_of(paths: pa.Array | pa.ChunkedArray) -> list[str]:
    """The folders of store paths, without the root."""
    parts = pc.split_pattern(paths, "/", max_splits=1, reverse=True)  # a third of the time of a regular expression
    parts = parts.filter(pc.equal(pc.list_value_length(parts), literal(2, pa.int32())))
    return [folder for folder in pc.unique(pc.list_element(parts, literal(0, pa.int32()))).to_pylist() if folder]


def _paths_and_sizes(files: pa.Table, store: ObjectStore) -> pa.Table:
    return pa.table({"path": file_paths.canonical(files["path"], store), "size": files["size"]})
