"""Delete the older versions that need a feature, before the feature is dropped (DROP FEATURE ... TRUNCATE HISTORY).

Only versions that are older than ``delta.dropFeatureTruncateHistory.retentionDuration`` are deleted. A cleanup of the
log deletes only versions before a checkpoint. So a checkpoint after the last version that needs the feature must also
be older than this duration.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakehouse_lib.errors import RetentionError
from lakehouse_lib.features import FEATURES
from lakehouse_lib.features.checkpoints import checkpoint_protection, v2_checkpoint
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.checkpoint.top import open_top
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.history import commit_times
from lakehouse_lib.log.retention.cleanup import clean_up
from lakehouse_lib.log.retention.pins import list_pins
from lakehouse_lib.log.segment import Checkpoint, classify_log_files, list_commits, oldest_version
from lakehouse_lib.operations.alter.features.traces import TRACES
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.protocol.table_properties import TRUNCATED_RETENTION
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests_ahead
from lakehouse_lib.transaction.commit_properties import CommitProperties


def truncate_history(snapshot: Snapshot, name: str, properties: CommitProperties | None) -> Snapshot:
    """Delete the versions that need a feature, and return the latest version.

    If no checkpoint is newer than these versions, a commit without actions and its checkpoint are written first.

    Args:
        snapshot: the latest version, which does not need the feature.

    Raises:
        RetentionError: a version within the retention, or a pinned version, needs the feature. The hint has the time
            after which the feature can be dropped.
    """
    version_with_feature = newest_version_with(snapshot, name)
    if version_with_feature is None:
        return snapshot
    base = _oldest_checkpoint_after(snapshot, version_with_feature)
    if base is None:
        commit_change(snapshot, "Empty Commit", {}, commit_properties=properties)
        snapshot = snapshot.update()
        checkpoint(snapshot)
        base = snapshot.version
    retention = TRUNCATED_RETENTION.of(snapshot.configuration, snapshot.store.root)
    clean_up(
        snapshot.store,
        snapshot.metadata,
        snapshot.protocol,
        now=clock.check_by_probe(snapshot.store),
        enforce_retention_duration=False,
        retention=retention,
    )
    version_with_feature = newest_version_with(snapshot, name)
    if version_with_feature is not None:
        raise _too_early(snapshot, name, version_with_feature, base, retention)
    return snapshot.update()


def newest_version_with(snapshot: Snapshot, name: str) -> int | None:
    """The newest version in the log that needs a feature; None: no version needs it.

    Reads all commits that are still in the log.

    Args:
        snapshot: the latest version.
    """
    store = snapshot.store
    known_checkpoints, commits, _ = classify_log_files(list(store.list_from(file_names.LOG)))
    if name == checkpoint_protection.FEATURE.name:
        protected = checkpoint_protection.protected_below(snapshot.protocol, snapshot.metadata)
        versions = [item.version for item in known_checkpoints] + [commit.version for commit in commits]
        return max((version for version in versions if version < protected), default=None)
    oldest = oldest_version(store)
    assert oldest is not None
    base = load_snapshot(store, oldest)
    newest = oldest if TRACES[name].are_in_files(base) else None
    metadata = base.metadata
    commits = [commit for commit in commits if commit.version <= snapshot.version]
    for actions in map_requests_ahead(
        store, lambda commit: read_commit(store, commit.version, size=commit.size), commits
    ):
        metadata = actions.metadata or metadata
        is_used = FEATURES[name].is_used(metadata, Schema.from_json(metadata.schema_string))
        if is_used or TRACES[name].are_in_commit(actions):
            newest = actions.version
    if name == v2_checkpoint.FEATURE.name:
        v2_versions = [item.version for item in known_checkpoints if _is_v2(store, item)]
        return max([*v2_versions, *([] if newest is None else [newest])], default=None)
    return newest


def _is_v2(store: ObjectStore, checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint follows the V2 spec; it may have a classic name."""
    top = checkpoint.parts[0]
    name = file_names.parse(top.path)
    is_uuid = name is not None and name.kind.startswith("uuid")
    return is_uuid or (len(checkpoint.parts) == 1 and bool(open_top(store, top, checkpoint.version).sidecars))


def _oldest_checkpoint_after(snapshot: Snapshot, version: int) -> int | None:
    """The oldest checkpoint after a version; a cleanup can delete all versions before it. None: no such checkpoint."""
    known_checkpoints, commits, _ = classify_log_files(list(snapshot.store.list_from(file_names.LOG)))
    versions = {commit.version for commit in commits}
    later = [item.version for item in known_checkpoints if item.version > version and item.version in versions]
    return min(later, default=None)


def _too_early(
    snapshot: Snapshot, name: str, version_with_feature: int, base: int, retention: timedelta
) -> RetentionError:
    pin = next((pin for pin in list_pins(snapshot.store) if pin.version <= version_with_feature), None)
    commits = [commit for commit in list_commits(snapshot.store, base) if commit.version == base]
    committed = commit_times(snapshot.store, commits)[base]
    # The cleanup rounds down to the minute.
    moment = datetime.fromtimestamp(committed / 1000, UTC) + retention + timedelta(minutes=1)
    when = f"Drop it again after {moment:%Y-%m-%d %H:%M} UTC, when {TRUNCATED_RETENTION.key} ({retention}) has passed"
    return RetentionError(
        f"the feature {name} cannot be dropped yet: version {version_with_feature} needs it",
        table=snapshot.store.root,
        version=snapshot.version,
        hint=when if pin is None else f"Release the pin {pin.name!r}, which keeps version {pin.version}. {when}",
        code="DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
    )
