"""The check that a commit did not reuse the name of a commit file that a log cleanup had deleted.

A cleanup deletes the commit files below a checkpoint. Between a writer's last listing of the log and its put of version
N, other writers may commit N and later versions, write a checkpoint and clean up. Then the put succeeds although
version N already had a commit. No reader sees the new file, because readers begin at the later checkpoint. This can
happen only if the retention (``delta.logRetentionDuration``) is shorter than the time between listing and put.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import CommitFailedError, DeltaError, StoreError
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.retention.cleanup import may_delete_next_version
from lakehouse_lib.log.segment import Checkpoint, Commit, classify_log_files
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.read_version import cleaned_up_error


def check_name(
    commit: CommitActions, log_read_at: int, configuration: Mapping[str, str], store: ObjectStore
) -> CommitFailedError | DeltaError | None:
    """Check whether a commit that was just put is below a checkpoint that other writers made without it.

    Nothing is read if the retention is longer than the time since ``log_read_at`` plus an hour for clock differences.

    Args:
        commit: the commit that this writer put.
        log_read_at: when this writer last read the log before the put, ms since the epoch.
        configuration: the table's properties at the version before the commit.

    Returns:
        None: the version is this commit. CommitFailedError: the version is another commit, and the file that was put is
        deleted again. Another error: the outcome is unknown. Nothing is raised, because the commit was put and its
        files may be in use.
    """
    if not may_delete_next_version(configuration, log_read_at, clock.now()):
        return None
    try:
        listing = list(store.list_from(file_names.LOG, file_names.first_name(commit.version)))
        checkpoints, commits, _ = classify_log_files(listing)
        if not checkpoints:
            return None  # a cleanup deletes commits only below a checkpoint
        # Check this first. If the answer to the put was lost, the store repeats the put. If other writers committed and
        # cleaned up in between, the second put makes a commit file that is newer than a checkpoint with this commit.
        if _is_visible(commit, store):
            return None
        if _was_before(checkpoints, commits, commit.version):
            with contextlib.suppress(StoreError):  # no reader reads this file, and the caller deletes its data files
                store.delete_many([file_names.commit(commit.version)])
            return cleaned_up_error(store, commit.version)
    except DeltaError as error:
        return error
    return StoreError(
        "other writers made a checkpoint of this version or a later version, and the latest version does not have the "
        "changes of this commit",
        table=store.root,
        version=commit.version,
        hint="Set delta.logRetentionDuration longer than a commit may take",
    )


def _was_before(checkpoints: Sequence[Checkpoint], commits: Sequence[Commit], version: int) -> bool:
    """Whether one of the checkpoints is older than the commit file of ``version``, by the store's clock."""
    put_at = next((commit.modified for commit in commits if commit.version == version), None)
    return put_at is not None and any(checkpoint.modified < put_at for checkpoint in checkpoints)


def _is_visible(commit: CommitActions, store: ObjectStore) -> bool:
    """Whether the latest version shows the commit.

    If the commit added files, the latest version has one of them, or a tombstone of one of them, because other commits
    may have removed these files since. If the commit only removed files, the latest version has one of its tombstones.
    If the commit neither added nor removed files, its other actions are compared.
    """
    latest = load_snapshot(store)
    if not len(commit.adds) and not len(commit.removes):
        return _has_other_actions(latest, commit)
    tombstones = latest.tombstones
    removed_paths = canonical(tombstones["path"], store)
    if len(commit.adds):
        present_paths = pa.concat_arrays([canonical(latest.file_columns(["path"])["path"], store), removed_paths])
        return _any_among(canonical(commit.adds["path"], store), present_paths)
    # Other commits may have removed the same files, but not with the same deletion timestamp.
    times = commit.removes["deletionTimestamp"].combine_chunks()
    at_that_time = pc.is_in(tombstones["deletionTimestamp"], value_set=times)
    return _any_among(canonical(commit.removes["path"], store), removed_paths.filter(at_that_time))


def _has_other_actions(latest: Snapshot, commit: CommitActions) -> bool:
    """Whether a version has an application transaction, a domain, the metadata or, without metadata, the protocol of a
    commit.

    The protocol of a commit with metadata is not compared, because another commit may have added the same features.
    """
    if any(latest.state.transactions.get(each.app_id) == each for each in commit.transactions):
        return True
    if any(latest.domains.get(each.domain) == each for each in commit.domains):
        return True
    if commit.metadata is not None:
        return latest.metadata == commit.metadata
    return commit.protocol is not None and latest.protocol == commit.protocol


def _any_among(paths: pa.Array, present_paths: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(paths, value_set=present_paths), min_count=0).as_py())
