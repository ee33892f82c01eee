"""The log cleanup: deletes expired log files (PROTOCOL.md, section Metadata Cleanup).

One checkpoint is the *base* of a cleanup, and all log files from its version on are kept. The base is the newest
checkpoint that is not newer than the last commit before the cutoff (the midnight before the retention begins), the
version in ``_last_checkpoint`` and the oldest pinned version. ``plan_cleanup`` is a pure function. The files are
deleted in steps. Wherever a cleanup stops, every version from the base on can be read as before, and every older
version is either complete or does not exist.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import unquote

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, RetentionError, VersionNotFoundError
from lakehouse_lib.features.checkpoints.checkpoint_protection import protected_below
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.checkpoint.read import forget_checkpoint, read_checkpoint
from lakehouse_lib.log.checkpoint.top import open_top
from lakehouse_lib.log.history import newest_at
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.log.retention.pins import oldest_pinned
from lakehouse_lib.log.segment import Checkpoint, classify_log_files
from lakehouse_lib.protocol.actions import FILE_SCHEMA, TOMBSTONE_SCHEMA, Metadata, Protocol
from lakehouse_lib.protocol.table_properties import (
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    SET_BY,
    log_retention,
)
from lakehouse_lib.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_CHECKPOINTS = ("classic", "part", "uuid-json", "uuid-parquet")
#: On file systems without checksums of their own, Hadoop keeps a file's checksum in a file beside it.
_COMPANION = re.compile(r"\.(.+)\.crc")
#: Temporary files of the local store, which a killed process leaves behind.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


@dataclass(frozen=True)
class CleanupPlan:
    """The files that a cleanup deletes.

    Attributes:
        base: the checkpoint from whose version on all files are kept; None: nothing is deleted.
        steps: paths. A step is complete before the next step begins. Paths of one step are deleted in any order.
    """

    base: Checkpoint | None
    steps: tuple[tuple[str, ...], ...] = ()

    @property
    def paths(self) -> list[str]:
        """All paths, in the order of the steps."""
        return [path for step in self.steps for path in step]


def clean_up(
    store: ObjectStore,
    metadata: Metadata,
    protocol: Protocol,
    *,
    now: int | None = None,
    dry_run: bool = False,
    enforce_retention_duration: bool = True,
    retention: timedelta | None = None,
) -> list[str]:
    """Delete expired log files.

    These are expired commits, checkpoints, compactions and checksums. Sidecars that no checkpoint refers to, and
    temporary files of the local store, are deleted if they are older than a day. Versions from the oldest pinned
    version on are kept. With ``delta.enableExpiredLogCleanup = false`` nothing is deleted, unless a retention is given.

    Args:
        metadata, protocol: of the latest version.
        now: the time from which the retention counts back, ms since the epoch; None: the clock.
        dry_run: delete nothing, only return the paths.
        enforce_retention_duration: refuse a ``delta.logRetentionDuration`` that is shorter than the table's
            ``delta.deletedFileRetentionDuration``.
        retention: how long versions are kept; the cutoff is a full minute. None: ``delta.logRetentionDuration``, and
            the cutoff is a midnight.

    Returns:
        The paths, in the order of their deletion. Empty if another cleanup is running, or a version was pinned or
        released meanwhile: then nothing is deleted.

    Raises:
        RetentionError: the log retention is shorter than the retention of deleted files.
        InvalidArgumentError: a property is not valid.
        StoreError: the store failed; some of the files may be deleted.
    """
    precision = _MINUTE
    if retention is None:
        retention, precision = log_retention(metadata.configuration, store.root), _DAY
        if retention is None:
            return []
    file_retention = DELETED_FILE_RETENTION.of(metadata.configuration, store.root)
    if enforce_retention_duration and retention < file_retention:
        raise RetentionError(
            f"{LOG_RETENTION.key} ({retention}) is shorter than {DELETED_FILE_RETENTION.key} "
            f"({file_retention}): versions would be lost whose data files are still kept",
            table=store.root,
            hint="Pass enforce_retention_duration=False if these versions are not needed, or set the first property to "
            f"at least the second by {SET_BY}",
        )
    moment = clock.now() if now is None else now
    a_day_ago = cutoff(moment, timedelta(days=1))
    # List the sidecars before the checkpoints that may refer to them.
    sidecars = list(store.list_from(file_names.SIDECARS))
    listing = list(store.list_from(file_names.LOG))
    commits = classify_log_files(listing)[1]
    try:
        properties = effective_properties(metadata.configuration, protocol)
        expired = newest_at(store, commits, cutoff(moment, retention, precision), properties)
    except VersionNotFoundError:
        return []  # another cleanup is running; the next cleanup deletes what it leaves
    pinned = oldest_pinned(store)
    plan = _plan(store, listing, expired, pinned, protected_below(protocol, metadata))
    steps = (
        *plan.steps,
        _unreferenced_sidecars(store, listing, plan, sidecars, a_day_ago),
        plan_temporary([*listing, *sidecars], a_day_ago),
    )
    if not dry_run:
        if oldest_pinned(store) != pinned:
            return []  # a version was pinned or released meanwhile; the next cleanup decides again
        for step in steps:
            if step:
                store.delete_many(step)
    return [path for step in steps for path in step]


def oldest_unexpired(store: ObjectStore, metadata: Metadata, protocol: Protocol, *, now: int) -> int | None:
    """The oldest version that a cleanup at this time would keep if no version were pinned; None: it deletes no version.

    Earlier cleanups, which may still be running, keep this version, too. Reads no checkpoint.
    """
    retention = log_retention(metadata.configuration, store.root)
    if retention is None:
        return None
    listing = list(store.list_from(file_names.LOG))
    properties = effective_properties(metadata.configuration, protocol)
    expired = newest_at(store, classify_log_files(listing)[1], cutoff(now, retention), properties)
    protected = protected_below(protocol, metadata)
    base = plan_cleanup(listing, expired, pointed_to=read_hint(store), protected_below=protected).base
    return None if base is None else base.version


def is_due(store: ObjectStore, metadata: Metadata, *, now: int | None = None) -> bool:
    """Whether ``clean_up`` may find files older than its base.

    Lists the log from its start to the first commit that has not expired or is pinned. Reads no file except pins.
    """
    retention = log_retention(metadata.configuration)
    if retention is None:
        return False
    pinned = oldest_pinned(store)
    before = cutoff(clock.now() if now is None else now, retention)
    oldest: int | None = None
    checkpointed: set[int] = set()
    for meta in store.list_from(file_names.LOG, file_names.first_name(0)):
        name = file_names.parse(meta.path)
        if name is None or name.kind == "compacted":
            continue
        if pinned is not None and name.version > pinned:
            return False
        oldest = name.version if oldest is None else oldest
        if name.kind != "commit":
            checkpointed.add(name.version)
        elif meta.modified > before:
            return False
        elif name.version > oldest and name.version in checkpointed:
            return True
    return False


def may_delete_next_version(configuration: Mapping[str, str], committed: int, now: int) -> bool:
    """Whether a cleanup may have deleted the version after the one committed at ``committed``, ms since the epoch.

    True once ``committed`` is older than the retention minus an hour, because clocks may differ. The retention is not
    rounded to midnight, because other engines (delta-rs) do not round it either.
    """
    try:
        return committed <= now + _HOUR - int(LOG_RETENTION.of(configuration) / timedelta(milliseconds=1))
    except InvalidArgumentError:  # the engine that cleans up may accept the value
        return True


def cutoff(now: int, retention: timedelta, precision: int = _DAY) -> int:
    """The last midnight (UTC) before the retention began; ``now`` and the result are ms since the epoch.

    Args:
        precision: the result is a multiple of this number of ms. Default: a day, and so a midnight.
    """
    since = now - int(retention / timedelta(milliseconds=1))
    return since - since % precision


def plan_cleanup(
    listing: Sequence[ObjectMeta],
    expired: int | None,
    *,
    pointed_to: int | None = None,
    pinned: int | None = None,
    protected_below: int = 0,
    unreadable: Collection[int] = (),
) -> CleanupPlan:
    """Decide which files of the log folder a cleanup deletes. Reads nothing.

    Args:
        listing: of ``_delta_log``.
        expired: the newest version that was committed at or before the cutoff; None: no version is that old.
        pointed_to: the version in ``_last_checkpoint``. Its checkpoint is kept, because readers begin there.
        pinned: the oldest version that is pinned; it and all later versions are kept. None: no version is pinned.
        protected_below: versions below this are deleted together or not at all (the feature checkpointProtection).
        unreadable: versions whose checkpoints cannot be the base.
    """
    checkpoints, commits, _ = classify_log_files(listing)
    if expired is None or not commits:
        return CleanupPlan(None)
    commit_versions = {commit.version for commit in commits}
    checkpoint_versions = {checkpoint.version for checkpoint in checkpoints}
    last = expired if pointed_to not in checkpoint_versions or pointed_to is None else min(expired, pointed_to)
    last = last if pinned is None else min(last, pinned)
    # ``max`` returns the first checkpoint of the version, the cheapest to read. The commit of the base is kept, because
    # its commitInfo and change files are not in the checkpoint.
    base = max(
        (
            checkpoint
            for checkpoint in checkpoints
            if checkpoint.version <= last
            and checkpoint.version in commit_versions
            and checkpoint.version not in unreadable
        ),
        key=lambda checkpoint: checkpoint.version,
        default=None,
    )
    if base is None or base.version < protected_below:
        return CleanupPlan(None)
    if not commit_versions.issuperset(range(base.version, max(commit_versions) + 1)):
        return CleanupPlan(None)  # a commit is missing: older files may be needed to restore it
    expired_files = sorted((version, path, kind) for path, version, kind in _before(listing, base.version))
    first_commits = [path for version, path, kind in expired_files if version == 0 and kind in ("commit", "compacted")]
    old_checkpoints = [path for _, path, kind in expired_files if kind in _CHECKPOINTS]
    deleted_first = {*first_commits, *old_checkpoints}
    # A version before the base is read from commit 0 or from a checkpoint, and from the commits after it. If only some
    # of these commits were deleted, the version would be corrupt. So commit 0 and its compactions are deleted first,
    # then the checkpoints, and the other commits last.
    steps = (
        tuple(first_commits),
        tuple(old_checkpoints),
        tuple(path for _, path, _ in expired_files if path not in deleted_first),
    )
    return CleanupPlan(base, tuple(step for step in steps if step))


def plan_sidecars(sidecars: Iterable[ObjectMeta], referenced: Collection[str], before: int) -> tuple[str, ...]:
    """The sidecars to delete: written before ``before`` (ms since the epoch) and not among the names ``referenced``."""
    return tuple(
        sidecar.path
        for sidecar in sidecars
        if sidecar.modified < before
        and _name(sidecar.path).endswith(".parquet")
        and not _COMPANION.fullmatch(_name(sidecar.path))
        and _name(sidecar.path) not in referenced
    )


def plan_temporary(listing: Iterable[ObjectMeta], before: int) -> tuple[str, ...]:
    """Temporary files that killed processes left before ``before`` (ms since the epoch)."""
    return tuple(meta.path for meta in listing if meta.modified < before and _TEMPORARY.fullmatch(_name(meta.path)))


def referenced_sidecars(store: ObjectStore, listing: Iterable[ObjectMeta]) -> set[str]:
    """The names of the sidecars that the checkpoints in a listing refer to.

    Raises:
        LogCorruptedError: a checkpoint cannot be read, so its sidecars are unknown.
    """
    sidecar_names = set()
    for meta in listing:
        name = file_names.parse(meta.path)
        if name is not None and name.kind in _CHECKPOINTS and name.kind != "part" and meta.size:
            sidecar_names |= {
                _name(unquote(str(body.get("path")))) for body in open_top(store, meta, name.version).sidecars
            }
    return sidecar_names


def _plan(
    store: ObjectStore,
    listing: Sequence[ObjectMeta],
    expired: int | None,
    pinned: int | None,
    protected_below: int,
) -> CleanupPlan:
    """The plan with the newest base that can be read completely.

    After the cleanup, the log has no other objects from which the base's version can be read.
    """
    unreadable: set[int] = set()
    hint = read_hint(store)
    while True:
        plan = plan_cleanup(
            listing,
            expired,
            pointed_to=hint,
            pinned=pinned,
            protected_below=protected_below,
            unreadable=unreadable,
        )
        defect = unreadable_because(store, plan.base) if plan.base is not None and plan.paths else None
        if plan.base is None or defect is None:
            return plan
        logger.warning(
            "%s: the checkpoint of version %d cannot be the base of a cleanup: %s",
            store.root,
            plan.base.version,
            defect,
        )
        unreadable.add(plan.base.version)


def unreadable_because(store: ObjectStore, checkpoint: Checkpoint) -> str | None:
    """The reason why a checkpoint cannot be the base; None if it can be.

    It cannot be the base if it cannot be read completely, or has a live path twice. Its rows are not kept in memory.
    """
    forget_checkpoint(store, checkpoint)  # the cached state may differ from the objects as they are now
    try:
        state = read_checkpoint(store, checkpoint)
        for rows, action, schema in ((state.files, "add", FILE_SCHEMA), (state.tombstones, "remove", TOMBSTONE_SCHEMA)):
            for part in rows.parts:
                for block in range(part.blocks):
                    if part.count(action, block):
                        part.read(action, block, schema.names)
        for path in state.files.take(state.files.find_all_repeats()[:1], ["path"])["path"].to_pylist():
            return f"the checkpoint {checkpoint.paths[0]} has {excerpt(path)} twice"
    except LogCorruptedError as error:
        return error.message
    return None


def _unreferenced_sidecars(
    store: ObjectStore, listing: Sequence[ObjectMeta], plan: CleanupPlan, sidecars: Sequence[ObjectMeta], before: int
) -> tuple[str, ...]:
    candidates = plan_sidecars(sidecars, (), before)
    if not candidates:
        return ()
    deleted_paths = set(plan.paths)
    kept_files = [meta for meta in listing if meta.path not in deleted_paths]
    oldest = min(classify_log_files(kept_files)[0], key=lambda checkpoint: checkpoint.version, default=None)
    if oldest is None or oldest.modified >= before:
        # Another process may be writing a checkpoint that reuses sidecars of a checkpoint that is deleted now or was
        # deleted today.
        return ()
    try:
        return plan_sidecars(sidecars, referenced_sidecars(store, kept_files), before)
    except LogCorruptedError as error:
        logger.warning("no sidecars are deleted, because it is unknown which of them a checkpoint needs: %s", error)
        return ()


def _before(listing: Iterable[ObjectMeta], base: int) -> Iterable[tuple[str, int, str]]:
    """The path, version and kind of each log file of a version before the base, and of compactions that start at it.

    The kind is "beside" for a version checksum and for a checksum file of Hadoop.
    """
    for meta in listing:
        name = _name(meta.path)
        companion = _COMPANION.fullmatch(name)
        log_name = companion[1] if companion is not None else name
        checksum = file_names.checksum_version(log_name)
        parsed = file_names.parse(log_name)
        version = checksum if parsed is None else parsed.version
        if version is None:
            continue
        kind = "beside" if parsed is None or companion is not None else parsed.kind
        if version < base or (parsed is not None and parsed.kind == "compacted" and version == base):
            yield meta.path, version, kind


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
