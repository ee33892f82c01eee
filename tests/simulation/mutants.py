"""Possible bugs of a commit protocol, each put into the library for a while; the simulation must find every bug."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from greenlet import getcurrent

from lakehouse_lib.errors import CommitFailedError, ConcurrentAppendError, StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint import write as writing
from lakehouse_lib.log.commits.commit_file import CommitActions, parse_commit
from lakehouse_lib.log.history import newest_at
from lakehouse_lib.log.replay.replay import replay
from lakehouse_lib.log.replay.table_state import VersionState
from lakehouse_lib.log.retention import cleanup
from lakehouse_lib.log.table_identity import CommitFingerprint
from lakehouse_lib.operations.upkeep import vacuum
from lakehouse_lib.operations.upkeep.unneeded_files.plan import file_needs
from lakehouse_lib.protocol.table_properties import CHECKPOINT_INTERVAL
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import (
    OptimisticTransaction,
    optimistic_transaction,
    post_commit,
    read_version,
)
from lakehouse_lib.transaction.conflicts import checker as conflict_checker
from lakehouse_lib.transaction.conflicts.checker import Attempt, find_conflict
from lakehouse_lib.transaction.put_commit import put_commit
from tests.simulation.hunting import Mutant, Patch, instead
from tests.simulation.runs import plan_of, run


def _no_check(*_: object) -> None:
    return None


def _newest_winner_only(
    attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore
) -> CommitFailedError | None:
    return find_conflict(attempt, winners[-1:], store)


def _no_read_back(store: ObjectStore, version: int, data: bytes, _txn_id: str) -> bool | StoreError:
    try:
        return store.put_if_absent(file_names.commit(version), data)
    except StoreError as error:
        return error


def _first_loss_only() -> list[Patch]:
    checked: WeakSet[Any] = WeakSet()
    attempts = OptimisticTransaction._attempts

    def begin(self: OptimisticTransaction, *arguments: Any) -> Any:
        checked.discard(getcurrent())
        return attempts(self, *arguments)

    def check(attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore) -> CommitFailedError | None:
        if getcurrent() in checked:
            return None
        checked.add(getcurrent())
        return find_conflict(attempt, winners, store)

    return [(OptimisticTransaction, "_attempts", begin), (optimistic_transaction, "find_conflict", check)]


def _checkpoint_first(store: ObjectStore, version: int, data: bytes, txn_id: str) -> bool | StoreError:
    if version:
        before = load_snapshot(store)
        due = version % CHECKPOINT_INTERVAL.of(before.configuration) == 0
        if due and before.version == version - 1:
            after = replay(before.state, [parse_commit(data, version, store.root)], store)
            post_commit.checkpoint_snapshot(Snapshot(store, VersionState(version, 0, None, after)))
    return put_commit(store, version, data, txn_id)


def _hint_without_looking(store: ObjectStore, hint: Any) -> None:
    store.put(file_names.LAST_CHECKPOINT, b'{"version":%d,"size":1}' % hint.version)


def _files_first() -> list[Patch]:
    attempts = OptimisticTransaction._attempts

    def begin(self: OptimisticTransaction, *arguments: Any) -> Any:
        self._store.delete_many(path for files in self._removes for path in files["path"].to_pylist())
        return attempts(self, *arguments)

    return [(OptimisticTransaction, "_attempts", begin)]


def _by_modification_time(files: Any, tombstones: Any, *rest: Any, **named: Any) -> Any:
    return file_needs(files, tombstones[:0], *rest, **named)


def _no_fresh_applications(
    attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore
) -> CommitFailedError | None:
    return find_conflict(replace(attempt, applications={}), winners, store)


def _refused_without_need(
    _attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore
) -> CommitFailedError | None:
    return ConcurrentAppendError("somebody was first", table=store.root, version=winners[-1].version)


def _all_blind(attempt: Attempt, winners: Sequence[CommitActions], store: ObjectStore) -> CommitFailedError | None:
    return find_conflict(
        attempt, [replace(winner, info={**winner.info, "isBlindAppend": True}) for winner in winners], store
    )


def _one_version_more(*arguments: Any) -> int | None:
    expired = newest_at(*arguments)
    return None if expired is None else expired + 1


MUTANTS = (
    Mutant("no conflict check", instead(optimistic_transaction, "find_conflict", _no_check), ("increment", "delete")),
    Mutant(
        "conflict check against the newest winner only",
        instead(optimistic_transaction, "find_conflict", _newest_winner_only),
        ("increment", "append", "share"),
    ),
    Mutant(
        "no read-back after a put that was refused",
        instead(optimistic_transaction, "put_commit", _no_read_back),
        ("append", "count"),
    ),
    Mutant("retry that re-reads and does not check again", _first_loss_only, ("increment", "append")),
    Mutant(
        "checkpoint before the commit that it contains",
        instead(optimistic_transaction, "put_commit", _checkpoint_first),
        ("append", "increment"),
    ),
    Mutant(
        "_last_checkpoint written without looking",
        instead(writing, "write_hint", _hint_without_looking),
        ("append", "checkpoint"),
    ),
    Mutant("files deleted before the commit that removes them", _files_first, ("increment", "delete")),
    Mutant(
        "vacuum by modification time alone",
        instead(vacuum, "file_needs", _by_modification_time),
        ("increment", "compact", "vacuum"),
    ),
    Mutant(
        "cleanup of one version more",
        instead(cleanup, "newest_at", _one_version_more),
        ("append", "checkpoint", "wait", "cleanup"),
    ),
    Mutant(
        "applications known from the snapshot alone",
        instead(optimistic_transaction, "find_conflict", _no_fresh_applications),
        ("share", "deliver"),
    ),
    Mutant(
        "conflict on every lost race",
        instead(optimistic_transaction, "find_conflict", _refused_without_need),
        ("append", "increment"),
    ),
    Mutant(
        "no check whether files that were read are gone",
        instead(conflict_checker._RemovedFiles, "read_conflicts", lambda *_: frozenset()),
        ("insert", "delete"),
    ),
    Mutant(
        "every winner taken for a blind append",
        instead(optimistic_transaction, "find_conflict", _all_blind),
        ("insert",),
    ),
    Mutant(
        "commit under a name that a cleanup has freed",
        instead(read_version, "may_delete_next_version", lambda *_: False),
        ("append", "cleanup"),
    ),
    Mutant(
        "cleanup that does not read the checkpoint it leaves",
        instead(cleanup, "unreadable_because", lambda *_: None),
        ("append", "cleanup"),
    ),
    Mutant(
        "no look after the put where others clean up",
        instead(optimistic_transaction, "check_name", _no_check),
        ("append",),
    ),
    Mutant(
        "any table taken for the one that was opened", instead(CommitFingerprint, "check", lambda *_: None), ("append",)
    ),
)


def violation_of(seed: int, verbs: Sequence[str] = ()) -> str | None:
    """The violation in the run of a seed, whose actors run only ``verbs`` if there are any."""
    return run(plan_of(seed, verbs)).violation
