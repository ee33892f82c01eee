"""The log segment of a version: its checkpoint, if there is one, and the commits after it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_lib.errors import LogCorruptedError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: Seconds to wait before each repeated listing. On an eventually consistent store, a listing may lack a new object or
#: have a deleted object, so a listing with a gap is repeated.
LISTING_WAITS = (0.05, 0.2, 0.5, 1.0)

#: A checkpoint that is newer than the open version by more versions than this is read instead of the commits.
_MOST_READ_AGAIN = 100

#: Kinds of checkpoints, the cheapest to read first.
_BY_COST: tuple[file_names.Kind, ...] = ("classic", "uuid-parquet", "part", "uuid-json")


@dataclass(frozen=True)
class Commit:
    """One commit file; ``modified`` in ms since the epoch."""

    version: int
    path: str
    size: int
    modified: int
    tag: str = ""

    @classmethod
    def of(cls, version: int, meta: ObjectMeta) -> Commit:
        """The commit of an object."""
        return cls(version, meta.path, meta.size, meta.modified, meta.tag)

    @property
    def object(self) -> ObjectMeta:
        return ObjectMeta(self.path, self.size, self.modified, self.tag)


@dataclass(frozen=True)
class Compaction:
    """The reconciled actions of the commits ``start`` to ``version``; a compaction has no commitInfo.

    Attributes:
        modified: when it was written, ms since the epoch.
        began: when the oldest of its commits was put, ms since the epoch; None: a commit is missing, or the time has
            not been looked up.
    """

    start: int
    version: int
    path: str
    size: int
    modified: int
    began: int | None = None

    @property
    def object(self) -> ObjectMeta:
        return ObjectMeta(self.path, self.size, self.modified)


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: one object, or its parts in order. The objects name the sidecars, which are not listed."""

    version: int
    parts: tuple[ObjectMeta, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(part.path for part in self.parts)

    @property
    def modified(self) -> int:
        return self.parts[-1].modified


@dataclass(frozen=True)
class LogSegment:
    """A checkpoint and the commits and compactions after it.

    Attributes:
        version: the version of the segment.
        checkpoint: None: the segment starts at version 0.
        deltas: the commits and compactions after the checkpoint, ascending, without gaps or overlaps.
        modified: the modification time of the version's commit file, else of the last delta or checkpoint, ms since the
            epoch.
        checksum: the version's checksum file; None: the listing has none.
        commit: the version's commit file; None: only a checkpoint or a compaction exists.
    """

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[Commit | Compaction, ...]
    modified: int
    checksum: ObjectMeta | None = None
    commit: ObjectMeta | None = None


def load_segment(
    store: ObjectStore, version: int | None = None, *, without: frozenset[ObjectMeta] = frozenset()
) -> LogSegment:
    """The segment of ``version`` (None: the latest).

    Args:
        without: objects of checkpoints and compactions that could not be read and must not be used again.

    Raises:
        TableNotFoundError: the location has no log.
        VersionNotFoundError: the version does not exist, or was cleaned up.
        LogCorruptedError: a commit between other commits is missing, also after repeated listings.
    """
    for wait in (*LISTING_WAITS, None):
        try:
            return _load(store, version, without)
        except LogCorruptedError:
            if wait is None:
                raise
            time.sleep(wait)
    raise AssertionError("unreachable")


def commits_since(store: ObjectStore, version: int) -> tuple[ObjectMeta | None, tuple[Commit, ...] | None]:
    """The commit file of ``version``, if it is listed, and the commits after it, ascending and without a gap.

    The commits are None if some are missing (cleaned up, or not listed yet), or if a checkpoint is more than 100
    versions newer than ``version``. Then load the segment again.
    """
    checkpoints, commits, _ = classify_log_files(list(store.list_from(file_names.LOG, file_names.first_name(version))))
    own = next((c.object for c in commits if c.version == version), None)
    later = tuple(c for c in commits if c.version > version)
    checkpointed = max((c.version for c in checkpoints), default=version)
    newest = max(checkpointed, max((c.version for c in later), default=version))
    complete = [c.version for c in later] == list(range(version + 1, newest + 1))
    is_checkpoint_cheaper = checkpointed - version > _MOST_READ_AGAIN
    return own, later if complete and not is_checkpoint_cheaper else None


def list_commits(store: ObjectStore, start: int = 0) -> list[Commit]:
    """Every commit file from ``start`` on, ascending; there may be gaps."""
    return [
        commit
        for meta in store.list_from(file_names.LOG, file_names.first_name(start))
        if (commit := _as_commit(meta)) is not None
    ]


def oldest_version(store: ObjectStore) -> int | None:
    """The oldest version that can still be read, or None if there is no log."""
    listing = list(store.list_from(file_names.LOG, file_names.first_name(0)))
    checkpoints, commits, _ = classify_log_files(listing)
    candidates = [c.version for c in checkpoints]
    if commits and commits[0].version == 0:
        candidates.append(0)
    return min(candidates, default=None)


def classify_log_files(listed: Sequence[ObjectMeta]) -> tuple[list[Checkpoint], list[Commit], list[Compaction]]:
    """The complete checkpoints, the commits and the compactions of a listing.

    Checkpoints that are cheaper to read come first. Commits and compactions keep the order of the listing.
    """
    commits: list[Commit] = []
    compactions: list[Compaction] = []
    with_costs: list[tuple[int, Checkpoint]] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = defaultdict(dict)
    for meta in listed:
        name = file_names.parse(meta.path)
        if name is None:
            continue
        if name.kind == "commit":
            commits.append(Commit.of(name.version, meta))
        elif name.kind == "compacted" and name.version < name.end:
            compactions.append(Compaction(name.version, name.end, meta.path, meta.size, meta.modified))
        elif name.kind == "part":
            parts[name.version, name.parts][name.part] = meta
        elif name.kind in _BY_COST and meta.size > 0:
            with_costs.append((_BY_COST.index(name.kind), Checkpoint(name.version, (meta,))))
    for (version, count), by_number in parts.items():
        if len(by_number) == count and set(by_number) == set(range(1, count + 1)):
            ordered_parts = tuple(by_number[part] for part in range(1, count + 1))
            with_costs.append((_BY_COST.index("part"), Checkpoint(version, ordered_parts)))
    checkpoints = [checkpoint for _, checkpoint in sorted(with_costs, key=lambda ranking: ranking[0])]
    return checkpoints, commits, compactions


def _load(store: ObjectStore, version: int | None, without: frozenset[ObjectMeta]) -> LogSegment:
    hint = read_hint(store)
    # A hint after the requested version is not used. A hint that leads to no checkpoint costs only a second listing.
    starts = [hint, 0] if hint is not None and (version is None or hint <= version) else [0]
    for start in starts:
        listed = list(store.list_from(file_names.LOG, file_names.first_name(start)))
        checkpoints, commits, compactions = classify_log_files(listed)
        usable = [c for c in checkpoints if without.isdisjoint(c.parts) and (version is None or c.version <= version)]
        if usable or start == 0:
            break
    if not checkpoints and not commits:
        raise _no_table(store)
    # ``max`` returns the first checkpoint of the newest version, which is the cheapest to read.
    newest = max(usable, key=lambda c: c.version, default=None)
    compactions = [c for c in compactions if c.object not in without]
    segment = _assemble(store, version, newest, [*commits, *compactions], checkpoints)
    path = file_names.checksum(segment.version)
    return replace(segment, checksum=next((meta for meta in listed if meta.path == path), None))


def _assemble(
    store: ObjectStore,
    version: int | None,
    checkpoint: Checkpoint | None,
    deltas: Sequence[Commit | Compaction],
    checkpoints: Sequence[Checkpoint],
) -> LogSegment:
    """The segment of a version: the checkpoint, and after it compactions and commits.

    If several deltas start at a version, the longest is used.
    """
    start = checkpoint.version + 1 if checkpoint is not None else 0
    latest = max([c.version for c in deltas if isinstance(c, Commit)] + [c.version for c in checkpoints])
    target = latest if version is None else version
    if target < 0 or target > latest:
        raise VersionNotFoundError(
            f"version {version} does not exist; the latest is {latest}",
            table=store.root,
            version=version,
            hint=f"Give a version up to {latest}",
        )
    times = {c.version: c.modified for c in deltas if isinstance(c, Commit)}
    chain: list[Commit | Compaction] = []
    by_start: dict[int, Commit | Compaction] = {}
    for delta in deltas:
        first = delta.start if isinstance(delta, Compaction) else delta.version
        if start <= first <= delta.version <= target:
            longest = by_start.get(first)
            by_start[first] = delta if longest is None or delta.version > longest.version else longest
    expected = start
    while expected <= target and expected in by_start:
        chain.append(_dated(by_start[expected], times))
        expected = chain[-1].version + 1
    if expected <= target:
        oldest_commit = min((c.version for c in deltas if isinstance(c, Commit)), default=latest)
        later = min((c.version for c in checkpoints if c.version > target), default=None)
        if later is not None and expected < oldest_commit:
            raise _cleaned_up(store, target, later)
        raise _gap(store, expected, min((c.version for c in deltas if c.version > expected), default=latest))
    own = next((c for c in deltas if isinstance(c, Commit) and c.version == target), None)
    modified = own.modified if own is not None else (chain[-1] if chain else checkpoint).modified  # type: ignore[union-attr]
    return LogSegment(target, checkpoint, tuple(chain), modified, commit=own.object if own is not None else None)


def _dated(delta: Commit | Compaction, times: Mapping[int, int]) -> Commit | Compaction:
    """The compaction with ``began`` set, if ``times`` has all of its commits; any other delta unchanged."""
    if isinstance(delta, Commit):
        return delta
    covered = range(delta.start, delta.version + 1)
    is_dated = all(version in times for version in covered)
    return replace(delta, began=min(times[version] for version in covered)) if is_dated else delta


def _gap(store: ObjectStore, missing: int, later: int) -> LogCorruptedError:
    return LogCorruptedError(
        f"the log has a gap: commit {missing} is missing, but commit {later} exists",
        table=store.root,
        version=missing,
        hint=f"Restore {file_names.commit(missing)} from a backup, or read an older version, whose repair() reports "
        "what else is wrong",
        code="DELTA_LOG_GAP",
    )


def _cleaned_up(store: ObjectStore, version: int, later: int) -> VersionNotFoundError:
    """The error for a version that was cleaned up.

    A cleanup deletes the oldest commits, so no commit before the missing commits exists. An older checkpoint may exist,
    if another process wrote it during the cleanup.
    """
    return VersionNotFoundError(
        f"version {version} was cleaned up; the next version that can be read is {later}",
        table=store.root,
        version=version,
        hint=f"Give a version from {later} on",
    )


def _as_commit(meta: ObjectMeta) -> Commit | None:
    name = file_names.parse(meta.path)
    if name is None or name.kind != "commit":
        return None
    return Commit.of(name.version, meta)


def _no_table(store: ObjectStore) -> TableNotFoundError:
    exists = next(iter(store.walk()), None) is not None
    what = "the folder has no Delta log" if exists else "the location has no table"
    hint = "Give the folder that holds _delta_log" if exists else "Check the path, or create the table"
    return TableNotFoundError(f"{what}: {file_names.LOG} has no commit", table=store.root, hint=hint)
