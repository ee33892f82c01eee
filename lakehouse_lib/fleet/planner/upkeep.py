"""Steps that keep the log short and delete files: ``checkpoint``, ``vacuum``, ``cleanup``. They read no data file."""

from __future__ import annotations

from lakehouse_lib.fleet.log_upkeep import checkpoint_lag, reclaimable_files, replayed_commits
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import OPEN_BYTES, Effect, Step
from lakehouse_lib.log import file_names
from lakehouse_lib.log.retention import cleanup as log_cleanup
from lakehouse_lib.log.retention.last_vacuum import last_vacuum_time
from lakehouse_lib.log.retention.tombstones import retention
from lakehouse_lib.log.segment import classify_log_files
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.protocol.table_properties import CHECKPOINT_INTERVAL
from lakehouse_lib.snapshot import Snapshot

_HOUR = 3_600_000
#: A checkpoint takes the bytes of the commits divided by this number. Measured: 2.1 to 2.4 for appends.
_COMMIT_RATIO = 2
#: In ms. If removed files expired this long ago, a vacuum is planned even if it does not pay, because the files may
#: contain personal data.
_OVERDUE = 7 * 24 * _HOUR
#: In ms. A table with commits is listed after this time, because only a listing shows the files of killed writers.
_LISTED_EVERY = 30 * 24 * _HOUR
#: The objects in a page of a listing, and in a request that deletes them.
_PAGE = 1_000


def checkpoint_step(table: str, snapshot: Snapshot) -> Step | None:
    """The step that writes a checkpoint, or None if readers replay few commits. It is planned even if it does not pay.

    A checkpoint is due if ``delta.checkpointInterval`` commits, or commits of 64 MiB, follow the last checkpoint. It
    replaces the last checkpoint: a reader reads the actions of the commits as Parquet, and opens no commit.
    """
    since = snapshot.checkpoint_version
    listing = snapshot.store.list_from(file_names.LOG, file_names.first_name(since or 0))
    checkpoints, listed_commits, _ = classify_log_files(list(listing))
    commits = replayed_commits(snapshot, listed_commits)
    log_bytes = sum(commit.size for commit in commits)
    if checkpoint_lag(commits, CHECKPOINT_INTERVAL.of(snapshot.configuration, snapshot.store.root)) < 1:
        return None
    added_bytes = log_bytes // _COMMIT_RATIO
    replaced = next((checkpoint for checkpoint in checkpoints if checkpoint.version == since), None)
    replaced_bytes = 0 if replaced is None else sum(part.size for part in replaced.parts)
    opened = len(commits) if since is not None else len(commits) - 1
    return Step(
        table,
        "checkpoint",
        snapshot.version,
        {},
        f"readers replay {len(commits)} commits with {log_bytes} bytes since "
        + (f"the checkpoint of version {since}" if since is not None else "the start of the log"),
        Effect(
            files_added=1,
            bytes_written=replaced_bytes + added_bytes,
            query_bytes=log_bytes - added_bytes + opened * OPEN_BYTES,
        ),
        requests=1,
        is_overdue=True,
    )


def vacuum_step(table: str, snapshot: Snapshot, policy: Policy, now: int) -> Step | None:
    """The step that deletes removed files past the retention, or None.

    The prediction comes from ``reclaimable_files``. Files that no commit refers to are not predicted, because only the
    vacuum itself finds them. For these files, a full vacuum is planned every 30 days, even if no file was removed.

    Args:
        now: ms since the epoch.
    """
    store = snapshot.store
    own = retention(snapshot.configuration, store.root)
    retention_ms = own if policy.retention_hours is None else int(policy.retention_hours * _HOUR)
    reclaimable = reclaimable_files(snapshot, retention_ms, now)
    removed = reclaimable.files
    overdue_since = now - retention_ms - _OVERDUE
    is_listing_due = policy.full_vacuum and _is_listing_due(snapshot, reclaimable.first_commit, overdue_since, now)
    if reclaimable.since is None and not is_listing_due:
        return None
    size = total_size(removed)
    listed = snapshot.file_count + len(snapshot.tombstones) + len(removed) if policy.full_vacuum else 0
    at_least = "at least " if reclaimable.is_partial else ""
    return Step(
        table,
        "vacuum",
        snapshot.version,
        {
            "retention_hours": policy.retention_hours,
            "enforce_retention_duration": policy.enforce_retention,
            "full": policy.full_vacuum,
            "files_per_second": policy.files_per_second,
        },
        f"{at_least}{len(removed)} files with {size} bytes were removed longer ago than {retention_ms / _HOUR:g} hours"
        + ("; a listing for files of killed writers is due" if is_listing_due else ""),
        Effect(files_removed=len(removed), bytes_freed=size),
        requests=_pages(listed) + _pages(len(removed)),
        is_overdue=is_listing_due or (reclaimable.since is not None and reclaimable.since <= overdue_since),
    )


def _is_listing_due(snapshot: Snapshot, first_commit: int | None, overdue_since: int, now: int) -> bool:
    """Whether a full vacuum is due, because only a listing shows the files of killed writers.

    It is due if the table has commits since the last vacuum, and this vacuum was 30 days ago. A table that was never
    vacuumed is due if its first commit has been past the retention for a week.

    Args:
        first_commit: ``Reclaimable.first_commit``.
        overdue_since: the time of a commit that has been past the retention for a week, ms since the epoch.
    """
    if first_commit is None:
        return False
    vacuumed = last_vacuum_time(snapshot.store)
    if vacuumed is None:
        return first_commit <= overdue_since
    return vacuumed <= now - _LISTED_EVERY and vacuumed < snapshot.modified


def cleanup_step(table: str, snapshot: Snapshot, policy: Policy, now: int) -> Step | None:
    """The step that deletes expired files of the log, or None. It is always planned, because it reads no data.

    Args:
        now: ms since the epoch.
    """
    store = snapshot.store
    if not log_cleanup.is_due(store, snapshot.metadata, now=now):
        return None
    paths = set(
        log_cleanup.clean_up(
            store,
            snapshot.metadata,
            snapshot.protocol,
            now=now,
            dry_run=True,
            enforce_retention_duration=policy.enforce_retention,
        )
    )
    if not paths:
        return None
    size = sum(meta.size for meta in store.list_from(file_names.LOG) if meta.path in paths)
    return Step(
        table,
        "cleanup",
        snapshot.version,
        {"enforce_retention_duration": policy.enforce_retention},
        f"{len(paths)} files of the log with {size} bytes are older than the log's retention",
        Effect(files_removed=len(paths), bytes_freed=size),
        requests=_pages(len(paths)),
        is_overdue=True,
    )


def _pages(objects: int) -> int:
    return -(-objects // _PAGE)
