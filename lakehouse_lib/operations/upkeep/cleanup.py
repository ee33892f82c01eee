"""Delete expired objects of a table's log."""

from __future__ import annotations

from datetime import datetime

from lakehouse_lib.log import clock
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.retention.cleanup import clean_up
from lakehouse_lib.operations.results import CleanupResult
from lakehouse_lib.snapshot import Snapshot


def cleanup(
    snapshot: Snapshot,
    *,
    dry_run: bool = True,
    enforce_retention_duration: bool = True,
    now: datetime | None = None,
) -> CleanupResult:
    """Delete log objects older than ``delta.logRetentionDuration`` (default 30 days) that no remaining version needs.

    The cutoff is rounded down to midnight (UTC). The newest checkpoint before the cutoff and all later objects are
    kept, also a pinned version and all later versions. Older commits, checkpoints, log compactions and checksums are
    deleted. Sidecars that no checkpoint refers to and temporary files of killed processes are deleted if they are older
    than a day, even if no checkpoint is before the cutoff. Data files are left to ``vacuum``. Nothing is deleted
    while ``delta.enableExpiredLogCleanup`` is false.

    Args:
        snapshot: the latest version.
        dry_run: only return the paths that would be deleted.
        enforce_retention_duration: refuse a log retention shorter than the retention of deleted files.
        now: the moment from which the retention is counted back (UTC if it has no zone); None: this machine's clock,
            which must not be ahead of the store's clock unless it is a dry run.

    Raises:
        RetentionError: ``delta.logRetentionDuration`` is shorter than ``delta.deletedFileRetentionDuration``, or this
            machine's clock is ahead of the store's by more than ten minutes (``log.clock.MOST_AHEAD``).
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the feature may have
            files in the log that this library does not know.
        InvalidArgumentError: a table property is not valid.
    """
    snapshot.check_writable()
    if now is not None:
        moment = int(moment_of(now, snapshot.store.root).timestamp() * 1000)
    else:
        moment = clock.now() if dry_run else clock.check_by_probe(snapshot.store)
    files = clean_up(
        snapshot.store,
        snapshot.metadata,
        snapshot.protocol,
        now=moment,
        dry_run=dry_run,
        enforce_retention_duration=enforce_retention_duration,
    )
    return CleanupResult(snapshot.store.root, snapshot.version, None, dry_run, tuple(files))
