"""The stored files that commits have removed. They are read from the log, without a listing (VACUUM LITE)."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, UnsupportedFeatureError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.change_files import logged_change_files
from lakehouse_lib.log.checksum import read_checksum
from lakehouse_lib.log.commits.commit_file import read_removes
from lakehouse_lib.log.retention.last_vacuum import read_last_vacuumed
from lakehouse_lib.log.retention.tombstones import retention
from lakehouse_lib.log.segment import Checkpoint, Commit, classify_log_files, list_commits
from lakehouse_lib.operations.listing import SymbolicLinks, object_batches
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds, checksum_paths
from lakehouse_lib.operations.upkeep.unneeded_files.scan import ScannedFolder, scan_batches
from lakehouse_lib.protocol import file_paths
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
    """The remove actions (REMOVE_SCHEMA) of each commit in the log up to the checkpoint of this version.

    Args:
        since: ms since the epoch; commits that were stored before this time are not read.
        first: the first version.
    """
    if latest.checkpoint_version is None or latest.checkpoint_version < first:
        return []

    def removes(commit: Commit) -> pa.Table | None:
        try:
            return read_removes(latest.store, commit.version, commit.size)
        except VersionNotFoundError:  # log cleanup deleted it, so no reader can open its version
            return None

    commits = [
        commit
        for commit in list_commits(latest.store, first)
        if commit.version <= latest.checkpoint_version and commit.object.modified >= since
    ]
    return [table for table in map_requests(latest.store, removes, commits) if table is not None]


def change_file_paths(store: ObjectStore, cutoff: int, first: int) -> pa.Array:
    """The store paths of the change files of commits from the version ``first`` on that were stored before the cutoff.

    The commits are read only if the table has change files.
    """
    if next(store.walk(file_paths.CHANGE_DATA), None) is None:
        return strings([])
    return file_paths.canonical(logged_change_files(store, cutoff, first)["path"], store)


def is_listing_cheaper(needs: FileNeeds) -> bool:
    """Whether a listing of a remote table takes far fewer requests than one request for each removed file.

    The number of requests of a listing (pages of 1,000 objects) is estimated from the log. The folder may have more
    objects than the log names. Therefore the estimate must be less than a tenth of the number of removed files.
    """
    pages = (len(needs.needed) + len(needs.expired)) / _OBJECTS_OF_A_PAGE
    return needs.store.is_remote and len(needs.expired) > 10 * (1 + pages)


def removed_objects(needs: FileNeeds) -> ScannedFolder:
    """The unneeded files among the files of expired tombstones and the change files, without a listing.

    Makes one request for each file that no version needs, and one for each folder of such files.
    """
    store = needs.store
    change_files = strings([]) if needs.change_files is None else needs.change_files
    paths = pc.unique(pa.chunked_array([needs.expired, change_files], pa.string()))
    paths = paths.filter(pc.invert(pc.is_in(paths, value_set=needs.needed)))
    paths = paths.filter(pc.invert(file_paths.are_absolute(paths, store)))
    for folder in nested_tables_below(paths, store):
        paths = paths.filter(pc.invert(pc.starts_with(paths, f"{folder}/")))
    if not store.is_remote:  # Hadoop's file system for a disk writes checksums
        paths = pa.concat_arrays([paths, checksum_paths(paths)])
    stored = [meta for meta in map_requests(store, store.head, paths.to_pylist()) if meta is not None]
    paths = strings([meta.path for meta in stored])
    links = SymbolicLinks.of(store, {} if store.is_remote else links_to(paths, needs.needed, store.root))
    behind = set(paths.filter(links.are_behind(paths)).to_pylist())
    metas = (meta for meta in stored if meta.path not in behind)
    scanned = scan_batches(object_batches(metas, store.root, {}), needs)
    scanned.links = links
    return scanned


def nested_tables_below(paths: pa.Array | pa.ChunkedArray, store: ObjectStore) -> list[str]:
    """The folders of these store paths, without the root, that contain a ``_delta_log``."""
    folders = {
        "/".join(steps[:count])
        for steps in (folder.split("/") for folder in folders_of(paths))
        for count in range(1, len(steps) + 1)
    }

    def table(folder: str) -> str | None:
        return folder if next(store.list_from(f"{folder}/{file_names.LOG}"), None) is not None else None

    return [folder for folder in map_requests(store, table, sorted(folders)) if folder is not None]


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
    folders = pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist()
    return [folder for folder in folders if folder]
