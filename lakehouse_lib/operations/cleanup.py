"""Forget versions that the table's log need not keep any longer."""

from __future__ import annotations

from datetime import datetime

from lakehouse_lib.log import clock
from lakehouse_lib.log.cleanup import clean_up
from lakehouse_lib.operations.results import CleanupResult
from lakehouse_lib.snapshot import Snapshot


def cleanup(
    snapshot: Snapshot,
    *,
    dry_run: bool = True,
    enforce_retention_duration: bool = True,
    now: datetime | None = None,
) -> CleanupResult:
    """Delete what of the log is older than ``delta.logRetentionDuration`` (default 30 days) and no later version needs.

    The time counts back to a midnight (UTC), and everything stays from the newest checkpoint on that is not newer than
    the last commit before it; without such a checkpoint nothing goes. Commits, checkpoints, compactions and checksums
    go, sidecars no checkpoint refers to, and temporary files of killed processes, both when older than a day. Data
    files stay: they are ``vacuum``'s. Nothing goes while ``delta.enableExpiredLogCleanup`` is false.

    Args:
        snapshot: the latest version.
        dry_run: only say what would go.
        enforce_retention_duration: refuse a log retention shorter than the one of deleted files.
        now: the moment to count back from; None: the clock, which must not be ahead of the store's when something is
            to be deleted.

    Raises:
        RetentionError: ``delta.logRetentionDuration`` is shorter than ``delta.deletedFileRetentionDuration``, or this
            machine's clock is ahead of the store's by more than ten minutes (``log.clock.MOST_AHEAD``).
        UnsupportedFeatureError: a writer feature this library does not have; it may have files in the log we do not
            know.
        InvalidArgumentError: a table property that cannot be read.
    """
    snapshot.check_writable()
    if now is not None:
        moment = int(now.timestamp() * 1000)
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
