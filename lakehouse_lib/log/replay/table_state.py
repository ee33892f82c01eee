"""The state of a version, read from a checkpoint, usable log compactions and commits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from lakehouse_lib.errors import DeltaError, LogCorruptedError, VersionNotFoundError
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoint.read import read_checkpoint
from lakehouse_lib.log.commits.commit_file import CommitActions, commit_nbytes, read_listed
from lakehouse_lib.log.commits.log_compaction import may_lack_removes, read_compaction, unusable_compaction_error
from lakehouse_lib.log.replay.live_files import DuplicatePathError
from lakehouse_lib.log.replay.replay import TableState, replay, state_of
from lakehouse_lib.log.segment import LISTING_WAITS, Checkpoint, Commit, Compaction, LogSegment, load_segment
from lakehouse_lib.store import ObjectMeta, ObjectStore
from lakehouse_lib.store.concurrent import map_requests


@dataclass(frozen=True)
class VersionState:
    """A version and the sources that it was built from.

    Attributes:
        modified: when its commit file was written, ms since the epoch.
        checkpoint: the checkpoint that it is built on; None: it is built from commits alone.
        checksum: the checksum file of the version in the listing; None: there was none.
        info: its commitInfo; empty if its commit file was not read.
        commit: its commit file in the listing; None: the log had only a checkpoint or a compaction of it.
        compactions: the log compactions that were read instead of commits.
    """

    version: int
    modified: int
    checkpoint: Checkpoint | None
    state: TableState
    checksum: ObjectMeta | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    commit: ObjectMeta | None = None
    compactions: frozenset[ObjectMeta] = frozenset()


def load_state(
    store: ObjectStore, version: int | None = None, *, without: frozenset[ObjectMeta] = frozenset()
) -> VersionState:
    """The state of ``version`` (None: the latest).

    If a checkpoint or compaction cannot be read, or makes a path live twice, the version is read from other checkpoints
    and compactions, or from the commits. If a cleanup deletes a commit after it was listed, the log is listed again.
    File columns are read later, and a checkpoint may turn out to be unreadable then.

    Args:
        without: objects of checkpoints and compactions that must not be used.

    Raises:
        TableNotFoundError, VersionNotFoundError, LogCorruptedError: as ``load_segment``, and for a truncated commit.
        DuplicatePathError: the commits make a path live twice.
    """
    unreadable = without
    first_error: LogCorruptedError | None = None
    waits = iter((0.0, *LISTING_WAITS))
    while True:
        try:
            segment = load_segment(store, version, without=unreadable)
        except (LogCorruptedError, VersionNotFoundError) as error:
            give_up(store, error, first_error, unreadable - without)
        try:
            return _build(store, segment)
        except _UnreadableError as error:
            first_error = first_error or error.error
            unreadable |= error.objects
        except VersionNotFoundError:
            wait = next(waits, None)
            if wait is None:
                raise
            time.sleep(wait)


def give_up(
    store: ObjectStore, error: DeltaError, unreadable: DeltaError | None, objects: Iterable[ObjectMeta]
) -> NoReturn:
    """Raise the error for a version that has no source left.

    Args:
        error: the last error.
        unreadable: the error for which these objects were skipped before; None: no object was skipped.
        objects: the skipped objects of checkpoints and compactions. If one of them no longer exists, it was cleaned up,
            and is not corrupt.
    """
    if unreadable is None or (isinstance(error, VersionNotFoundError) and is_any_missing(store, objects)):
        raise error from unreadable
    raise unreadable from None


def is_any_missing(store: ObjectStore, objects: Iterable[ObjectMeta]) -> bool:
    """Whether at least one of these objects no longer exists."""
    return any(store.head(meta.path) is None for meta in objects)


@dataclass(frozen=True)
class OwnCommit:
    """A commit that this process has put, and the size of its file in bytes."""

    actions: CommitActions
    size: int

    def is_listed_as(self, commit: Commit) -> bool:
        return (commit.version, commit.size) == (self.actions.version, self.size)


def later_state(
    store: ObjectStore, earlier: VersionState, commits: Sequence[Commit], own: OwnCommit | None = None
) -> VersionState:
    """The state after the next ``commits``, at least one. The commit ``own`` is not read back from the store.

    Raises:
        VersionNotFoundError: a commit was cleaned up after it was listed.
        LogCorruptedError: a commit cannot be parsed.
        DuplicatePathError: these commits make a path live twice.
    """

    def read(commit: Commit) -> CommitActions:
        return own.actions if own is not None and own.is_listed_as(commit) else _delta(store, commit)

    actions = map_requests(store, read, commits)
    state = replay(earlier.state, actions, store)
    last, info = commits[-1], actions[-1].info
    return VersionState(
        last.version,
        last.modified,
        earlier.checkpoint,
        state,
        info=info,
        commit=last.object,
        compactions=earlier.compactions,
    )


class _UnreadableError(Exception):
    def __init__(self, objects: Sequence[ObjectMeta], error: LogCorruptedError) -> None:
        super().__init__(objects)
        self.objects = frozenset(objects)
        self.error = error


def _build(store: ObjectStore, segment: LogSegment) -> VersionState:
    checkpoint = segment.checkpoint
    try:
        base = state_of(read_checkpoint(store, checkpoint) if checkpoint is not None else None, store)
    except LogCorruptedError as error:
        assert checkpoint is not None
        raise _UnreadableError(checkpoint.parts, error) from error
    compactions = [delta for delta in segment.deltas if isinstance(delta, Compaction)]
    used_objects = frozenset(compaction.object for compaction in compactions)
    actions = map_requests(store, partial(_delta, store), segment.deltas)
    try:
        state = replay(base, actions, store)
    except DuplicatePathError as error:
        if not compactions:
            raise
        raise _UnreadableError(tuple(used_objects), error) from error
    doubtful = [compaction for compaction in compactions if may_lack_removes(compaction, state.metadata)]
    if doubtful:
        why = "it may lack removes that had expired when it was written"
        raise _UnreadableError(
            [compaction.object for compaction in doubtful], unusable_compaction_error(store, doubtful[0], why)
        )
    info = actions[-1].info if actions else {}  # a compaction has none
    return VersionState(
        segment.version, segment.modified, checkpoint, state, segment.checksum, info, segment.commit, used_objects
    )


def _delta(store: ObjectStore, delta: Commit | Compaction) -> CommitActions:
    if isinstance(delta, Commit):
        return read_listed(store, delta.version, delta.object)
    try:
        return CACHE.get(store, [delta.object], lambda: read_compaction(store, delta), commit_nbytes)
    except LogCorruptedError as error:
        raise _UnreadableError([delta.object], error) from error
