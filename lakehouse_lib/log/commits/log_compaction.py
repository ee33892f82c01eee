"""Log compactions: an object with the reconciled actions of several commits (PROTOCOL.md, Log Compaction Files).

A compaction only saves reading its commits. So if a compaction may be wrong, its commits are read instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, StoreError
from lakehouse_lib.log.commits.action_lines import read_actions
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.commits.file_actions import TornLineError
from lakehouse_lib.log.replay.duplicate_paths import find_repeats
from lakehouse_lib.log.replay.file_keys import file_keys
from lakehouse_lib.log.replay.replay import replay, state_of
from lakehouse_lib.log.segment import Commit, Compaction
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

#: How far a remove's timestamp, from its writer's clock, may be before the time of its commit.
_CLOCK_DIFFERENCE = timedelta(hours=1)


def read_compaction(store: ObjectStore, compaction: Compaction) -> CommitActions:
    """The actions of a compaction.

    Raises:
        LogCorruptedError: the compaction cannot be read, or is not reconciled: it has two actions of a file, an
            application or a domain, and only the commits show which action is newer.
    """
    try:
        data = store.read(compaction.path)
        actions = read_actions([data])
    except TornLineError as error:
        raise unusable_compaction_error(store, compaction, f"line {error.number} {error.what}") from error
    except StoreError as error:
        raise unusable_compaction_error(store, compaction, error.message) from error
    if not data.strip():
        raise unusable_compaction_error(store, compaction, "it is empty")
    if len(actions.metadata) > 1 or len(actions.protocol) > 1:
        raise unusable_compaction_error(store, compaction, "it has two metaData or two protocol actions")
    keys = pa.concat_arrays([file_keys(actions.adds, store), file_keys(actions.removes, store)])
    if len(find_repeats(keys)) or len(find_repeats(canonical(actions.adds["path"], store))):
        raise unusable_compaction_error(store, compaction, "it is not reconciled: it has a file twice")
    applications = [transaction.app_id for transaction in actions.transactions]
    domains = [domain.domain for domain in actions.domains]
    if any(len(set(names)) < len(names) for names in (applications, domains)):
        raise unusable_compaction_error(
            store, compaction, "it is not reconciled: it has an application or a domain twice"
        )
    return CommitActions(
        compaction.version,
        actions.adds,
        actions.removes,
        actions.changes,
        actions.metadata[0] if actions.metadata else None,
        actions.protocol[0] if actions.protocol else None,
        actions.transactions,
        actions.domains,
    )


def reconcile(store: ObjectStore, commits: Sequence[CommitActions]) -> CommitActions:
    """The actions of a compaction of these commits (ascending): the newest of each file, application and domain.

    Removes of expired files and of removed domains stay, because versions before the commits may have them.
    """
    state = replay(state_of(None, store), commits, store)
    domains = {domain.domain: domain for commit in commits for domain in commit.domains}
    return CommitActions(
        commits[-1].version,
        state.files.added,
        state.tombstones.added,
        CHANGE_FILE_SCHEMA.empty_table(),
        state.metadata,
        state.protocol,
        tuple(state.transactions.values()),
        tuple(domains.values()),
    )


def may_lack_removes(compaction: Compaction, metadata: Metadata | None) -> bool:
    """Whether the compaction may lack a remove that had expired when it was written.

    Delta Kernel leaves such removes out, and a reader of the compaction would treat the removed file as live. False if
    a commit of the compaction is missing, because the version then has no other source.

    Args:
        metadata: of the version; its ``delta.deletedFileRetentionDuration`` says when removes expire.
    """
    if compaction.began is None or metadata is None:
        return False
    try:
        retention = DELETED_FILE_RETENTION.of(metadata.configuration)
    except InvalidArgumentError:  # the writer of the compaction may have accepted the value
        return True
    return timedelta(milliseconds=compaction.modified - compaction.began) >= retention - _CLOCK_DIFFERENCE


def difference(store: ObjectStore, compaction: Compaction, commits: Sequence[Commit]) -> str | None:
    """A description of how a compaction's files differ from its commits; None if they do not.

    Args:
        commits: the commits that it covers, ascending.

    Raises:
        LogCorruptedError: a commit cannot be read, or the commits themselves make a path live twice.
        VersionNotFoundError: a commit was cleaned up after it was listed.
    """
    try:
        compaction_actions = read_compaction(store, compaction)
    except LogCorruptedError as error:
        return error.message
    actions = map_requests(store, lambda commit: read_commit(store, commit.version, size=commit.size), commits)
    state = replay(state_of(None, store), actions, store)
    added_keys = pa.concat_arrays([file_keys(commit.adds, store) for commit in actions])
    for kind, compacted_files, expected_files in (
        ("add", compaction_actions.adds, state.files.added),
        ("remove", compaction_actions.removes, state.tombstones.added),
    ):
        keys, expected = file_keys(compacted_files, store), file_keys(expected_files, store)
        # The compaction need not have the remove of a file that was added within the same commits.
        needed = expected if kind == "add" else expected.filter(pc.invert(pc.is_in(expected, value_set=added_keys)))
        missing = needed.filter(pc.invert(pc.is_in(needed, value_set=keys)))
        surplus = keys.filter(pc.invert(pc.is_in(keys, value_set=expected)))
        if len(missing) or len(surplus):
            what = f"{len(missing)} {kind} actions are missing, and {len(surplus)} should not be there"
            return f"the log compaction {compaction.path} differs from its commits: {what}"
    return None


def unusable_compaction_error(store: ObjectStore, compaction: Compaction, why: str) -> LogCorruptedError:
    """The error for a compaction that must not be used instead of its commits."""
    return LogCorruptedError(
        f"the log compaction {compaction.path} cannot be used ({why})",
        table=store.root,
        version=compaction.version,
        hint="Delete it if the commits that it covers are still there",
    )
