"""Find damage in a table's log and files, and repair the damage that can be repaired without losing a row.

The dry run finds damage and changes nothing. The repair removes missing data files from the log in one commit. It
deletes objects that no version needs: wrong checksums, unreadable checkpoints of versions that can be read without
them, wrong log compactions, a ``_last_checkpoint`` without a checkpoint, and temporary files of killed processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.arrow.values import as_array
from lakehouse_lib.errors import DeltaError, LogCorruptedError, VersionNotFoundError
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.checksum import contradictions, read_checksum
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.commits.log_compaction import difference
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.log.replay.live_files import DuplicatePathError
from lakehouse_lib.log.replay.table_state import is_any_missing, load_state
from lakehouse_lib.log.retention.cleanup import cutoff, plan_temporary, unreadable_because
from lakehouse_lib.log.segment import Commit, classify_log_files
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.operations.missing_files import missing_files, without_object, without_vector
from lakehouse_lib.operations.results import RepairResult
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectMeta, ObjectStore
from lakehouse_lib.store.concurrent import map_requests
from lakehouse_lib.transaction import OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_COLUMNS = ("path", "size", "deletionVector")


def repair(
    snapshot: Snapshot,
    *,
    dry_run: bool = True,
    commit_properties: CommitProperties | None = None,
    before_repair: Callable[[RepairResult], None] | None = None,
    now: datetime | None = None,
) -> RepairResult:
    """Find damage in the whole log and in the latest version's files. Repair it unless ``dry_run``.

    A data file is missing if neither the listing of the table's folder nor a request for its path shows it. Files
    outside the table's folder are checked only if ``allowed_roots`` names their folder. Removing a missing file from
    the log loses no existing row. Older versions still refer to the file, so it can be restored later.

    If the latest version cannot be read, a dry run checks the files of ``snapshot`` instead.

    Args:
        snapshot: any version that can be read.
        commit_properties: the properties of the commit that removes missing files.
        before_repair: a function that is called once with the findings, before anything is changed. If the function
            raises an error, nothing is changed. It is not called in a dry run.
        now: the current time (UTC if it has no zone). Temporary files and incomplete checkpoints that are younger than
            a day are kept. None: this machine's clock, which must not be ahead of the store's clock if temporary files
            or checkpoints are deleted.

    Raises:
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
        DeltaProtocolError: files are missing, and the table is append-only; nothing is repaired.
        CommitFailedError: another writer removed one of the missing files first; nothing is committed.
        LogCorruptedError: the latest version cannot be read; nothing is repaired.
        RetentionError: this machine's clock is ahead of the store's clock; nothing is repaired.
    """
    duplicate_paths: list[str] = []
    try:
        latest = newest(snapshot)
    except LogCorruptedError as error:
        if not dry_run:
            raise
        latest = snapshot
        duplicate_paths += [error.path] if isinstance(error, DuplicatePathError) else []
    latest.check_writable()
    store = latest.store
    moment = clock.now() if now is None else int(moment_of(now, store.root).timestamp() * 1000)
    listing = list(store.list_from(file_names.LOG))
    try:
        files = latest.file_columns(_COLUMNS)
    except DuplicatePathError:
        if not dry_run:
            raise
        files = pa.Table.from_batches([], pa.schema([FILE_SCHEMA.field(name) for name in _COLUMNS]))
        duplicate_paths += sorted(set(latest.query(lambda state: state.files.duplicate_paths())))
    objects = list_objects(store).objects
    # The listing does not show files behind a symbolic link, so each missing file is requested by its path.
    doubtful = [missing_files(files, objects["path"], store), files_of_other_sizes(files, objects, store)]
    missing = without_object(pa.concat_tables(doubtful), store)
    a_day_ago = cutoff(moment, timedelta(days=1))
    unreadable, needed = _checkpoints(store, listing, a_day_ago)
    result = RepairResult(
        store.root,
        latest.version,
        None,
        dry_run,
        files_removed=missing["path"].to_pylist(),
        vectors_missing=without_vector(files, missing, store),
        sizes_wrong=_wrong_sizes(files, objects, store),
        commits_missing=missing_commits(listing) and missing_commits(store.list_from(file_names.LOG)),
        commits_torn=_torn_commits(store, listing),
        compactions_wrong=_wrong_compactions(store, listing),
        paths_live_twice=duplicate_paths,
        checksums_wrong=_wrong_checksums(store, listing),
        last_checkpoint=_wrong_hint(store, listing, unreadable),
        checkpoints_unreadable=unreadable,
        checkpoints_needed=needed,
        temporary=list(plan_temporary([*listing, *store.list_from(file_names.SIDECARS)], a_day_ago)),
    )
    if dry_run:
        return result
    if before_repair is not None:
        before_repair(result)
    if len(missing):
        features.check_removal(latest.metadata, table=store.root, version=latest.version)
    if now is None and (result.temporary or result.checkpoints_unreadable):
        clock.check_by_probe(store)  # a running writer may need objects that are younger than a day
    # Delete before the commit, because post-commit hooks use the last checksum and checkpoint. Delete _last_checkpoint
    # first: delta-rs cannot open a table whose _last_checkpoint points to a missing checkpoint.
    if result.last_checkpoint is not None and _wrong_hint(store, listing, unreadable) is not None:
        store.delete_many([file_names.LAST_CHECKPOINT])
    unneeded = [*result.checksums_wrong, *result.checkpoints_unreadable, *result.compactions_wrong, *result.temporary]
    if unneeded:
        store.delete_many(unneeded)
    if not len(missing):
        return result
    transaction = OptimisticTransaction(latest, store, "FSCK", {})
    transaction.remove(latest.files.filter(pc.is_in(latest.files["path"], value_set=as_array(missing["path"]))))
    transaction.metrics["numRemovedFiles"] = len(missing)
    return replace(result, version=version_of(transaction.commit(commit_properties)))


def files_of_other_sizes(files: pa.Table, objects: pa.Table, store: ObjectStore) -> pa.Table:
    """The rows of ``files`` (with ``path`` and ``size``) whose size differs in ``objects``. Reads nothing."""
    place = pc.index_in(file_paths.canonical(files["path"], store), value_set=objects["path"].combine_chunks())
    return files.filter(pc.not_equal(objects["size"].take(place), files["size"]))


def missing_commits(listing: Iterable[ObjectMeta]) -> list[str]:
    """The gaps between the first and the last commit file of a log, such as "5" or "7 to 9". Reads nothing."""
    names = (file_names.parse(meta.path) for meta in listing)
    versions = sorted(name.version for name in names if name is not None and name.kind == "commit")
    holes = ((before + 1, after - 1) for before, after in pairwise(versions) if after > before + 1)
    return [str(first) if first == last else f"{first} to {last}" for first, last in holes]


def _torn_commits(store: ObjectStore, listing: Iterable[ObjectMeta]) -> dict[str, str]:
    """Path -> reason for each commit file that cannot be read in two attempts."""

    def why(commit: Commit) -> str | None:
        try:
            read_commit(store, commit.version, size=commit.size)
        except LogCorruptedError as error:
            return error.message
        except VersionNotFoundError:  # log cleanup deleted it after it was listed
            return None
        return None

    commits = classify_log_files(list(listing))[1]
    reasons = map_requests(store, lambda commit: why(commit) and why(commit), commits)
    return {commit.path: reason for commit, reason in zip(commits, reasons, strict=True) if reason is not None}


def _wrong_sizes(files: pa.Table, objects: pa.Table, store: ObjectStore) -> dict[str, str]:
    """Log path -> both sizes, for each file whose size differs from the log in the listing and in a second request."""
    differing = files_of_other_sizes(files, objects, store)
    paths = file_paths.canonical(differing["path"], store)
    wrong: dict[str, str] = {}
    for path, logged_size, where in zip(
        *(column.to_pylist() for column in (differing["path"], differing["size"], paths)), strict=True
    ):
        meta = store.head(where)
        if meta is not None and meta.size != logged_size:
            wrong[path] = f"it has {meta.size:,} bytes; expected {logged_size:,} bytes by the log"
    return wrong


def _checkpoints(
    store: ObjectStore, listing: Sequence[ObjectMeta], before: int
) -> tuple[dict[str, str], dict[str, str]]:
    """The unreadable checkpoint files (path -> reason): first the files that no version needs, then the needed files.

    Incomplete checkpoints that were written after ``before`` (ms since the epoch) are left out, because a process may
    be writing them.
    """
    complete, _, _ = classify_log_files(listing)
    complete_paths = {path for checkpoint in complete for path in checkpoint.paths}
    broken: dict[ObjectMeta, str] = {}
    for meta in listing:
        name = file_names.parse(meta.path)
        if name is None or name.kind in ("commit", "compacted") or meta.path in complete_paths:
            continue
        if meta.modified < before and not is_any_missing(store, [meta]):
            broken[meta] = "parts of it are missing" if name.kind == "part" and meta.size else "it is empty"
    for checkpoint in complete:
        # Try twice, because a store may fail once.
        why = unreadable_because(store, checkpoint) and unreadable_because(store, checkpoint)
        # If a part disappeared after the listing, a cleanup is deleting the checkpoint.
        if why is not None and not is_any_missing(store, checkpoint.parts):
            broken.update(dict.fromkeys(checkpoint.parts, why))
    unreadable: dict[str, str] = {}
    needed: dict[str, str] = {}
    for meta, why in broken.items():
        name = file_names.parse(meta.path)
        assert name is not None
        try:
            load_state(store, name.version, without=frozenset(broken)).state.files.check_paths()
            unreadable[meta.path] = why
        except DeltaError:
            needed[meta.path] = why
    return unreadable, needed


def _wrong_compactions(store: ObjectStore, listing: Sequence[ObjectMeta]) -> dict[str, str]:
    """Path -> reason for each log compaction that differs from its commits, if all of them exist."""
    _, listed, compactions = classify_log_files(listing)
    commits = {commit.version: commit for commit in listed}
    wrong: dict[str, str] = {}
    for compaction in compactions:
        covered = [
            commits[version] for version in range(compaction.start, compaction.version + 1) if version in commits
        ]
        if len(covered) <= compaction.version - compaction.start:
            continue
        with contextlib.suppress(LogCorruptedError, VersionNotFoundError):  # reported for the commits
            why = difference(store, compaction, covered)
            if why is not None:
                wrong[compaction.path] = why
    return wrong


def _wrong_checksums(store: ObjectStore, listing: Sequence[ObjectMeta]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for meta in listing:
        version = file_names.checksum_version(meta.path)
        if version is None:
            continue
        try:
            checksum = read_checksum(store, version)
        except LogCorruptedError as error:
            wrong[meta.path] = error.message
            continue
        try:
            state = load_state(store, version).state
            problems = contradictions(checksum, state, counting=True) if checksum is not None else []
        except DeltaError:
            continue  # the version cannot be read, so its checksum cannot be compared
        if problems:
            wrong[meta.path] = "; ".join(problems)
    return wrong


def _wrong_hint(store: ObjectStore, listing: Sequence[ObjectMeta], unreadable: Container[str]) -> str | None:
    """The problem with ``_last_checkpoint``, or None.

    Args:
        unreadable: paths of checkpoints that count as missing.
    """

    def has_checkpoint(version: int, listed: Iterable[ObjectMeta]) -> bool:
        sound = [meta for meta in listed if meta.path not in unreadable]
        return version in {checkpoint.version for checkpoint in classify_log_files(sound)[0]}

    if store.head(file_names.LAST_CHECKPOINT) is None:
        return None
    version = read_hint(store)
    if version is None:
        return "it cannot be read"
    newer = store.list_from(file_names.LOG, file_names.first_name(version))
    if not has_checkpoint(version, listing) and not has_checkpoint(version, newer):
        return f"it points to version {version}, which has no complete checkpoint"
    return None
