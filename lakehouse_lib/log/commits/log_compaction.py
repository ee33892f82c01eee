"""Log compactions: an object with the reconciled actions of several commits (PROTOCOL.md, Log Compaction Files).

A compaction only saves reading its commits, so a compaction that may be wrong is replaced by them.
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
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION
from lakehouse_lib.store.base import ObjectStore

#: How far the time of a remove, which is its writer's clock, may be before the time of its commit.
_CLOCKS_DIFFER = timedelta(hours=1)


def read_compaction(store: ObjectStore, compaction: Compaction) -> CommitActions:
    """The actions of a compaction.

    Raises:
        LogCorruptedError: it cannot be read, or is not reconciled: it has a file, an application or a domain twice, and
            only the commits tell which of the two actions is the newer one.
    """
    try:
        data = store.read(compaction.path)
        actions = read_actions([data])
    except TornLineError as error:
        raise unusable(store, compaction, f"line {error.number} {error.what}") from error
    except StoreError as error:
        raise unusable(store, compaction, error.message) from error
    if not data.strip():
        raise unusable(store, compaction, "it is empty")
    if len(actions.metadata) > 1 or len(actions.protocol) > 1:
        raise unusable(store, compaction, "it has two metaData or two protocol actions")
    keys = pa.concat_arrays([file_keys(actions.adds, store), file_keys(actions.removes, store)])
    if len(find_repeats(keys)) or len(find_repeats(canonical(actions.adds["path"], store))):
        raise unusable(store, compaction, "it is not reconciled: it has a file twice")
    applications = [transaction.app_id for transaction in actions.transactions]
    domains = [domain.domain for domain in actions.domains]
    if any(len(set(names)) < len(names) for names in (applications, domains)):
        raise unusable(store, compaction, "it is not reconciled: it has an application or a domain twice")
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


def may_lack_removes(compaction: Compaction, metadata: Metadata | None) -> bool:
    """Whether a remove may have been left out because it had expired when the compaction was written.

    Delta Kernel leaves such removes out, and a reader of the compaction would have the removed file live again. False
    where a commit is missing, for then nothing else has the version.

    Args:
        metadata: of the version; its ``delta.deletedFileRetentionDuration`` says when removes expire.
    """
    if compaction.began is None or metadata is None:
        return False
    try:
        retention = DELETED_FILE_RETENTION.of(metadata.configuration)
    except InvalidArgumentError:  # its writer may have read the property otherwise
        return True
    return timedelta(milliseconds=compaction.modified - compaction.began) >= retention - _CLOCKS_DIFFER


def difference(store: ObjectStore, compaction: Compaction, commits: Sequence[Commit]) -> str | None:
    """How a compaction's files differ from its commits, in words; None when they do not.

    Args:
        commits: those that it covers, ascending.

    Raises:
        LogCorruptedError: a commit cannot be read, or the commits themselves make a path live twice.
        VersionNotFoundError: a commit has been cleaned up since it was listed.
    """
    try:
        compaction_actions = read_compaction(store, compaction)
    except LogCorruptedError as error:
        return error.message
    actions = [read_commit(store, commit.version, size=commit.size) for commit in commits]
    state = replay(state_of(None, store), actions, store)
    came = pa.concat_arrays([file_keys(commit.adds, store) for commit in actions])
    for kind, written, left in (
        ("add", compaction_actions.adds, state.files.added),
        ("remove", compaction_actions.removes, state.tombstones.added),
    ):
        keys, expected = file_keys(written, store), file_keys(left, store)
        # A remove of a file that came and went within the commits takes nothing away from what was before.
        needed = expected if kind == "add" else expected.filter(pc.invert(pc.is_in(expected, value_set=came)))
        missing = needed.filter(pc.invert(pc.is_in(needed, value_set=keys)))
        beside = keys.filter(pc.invert(pc.is_in(keys, value_set=expected)))
        if len(missing) or len(beside):
            what = f"{len(missing)} {kind} actions are missing, and {len(beside)} are there that should not be"
            return f"the log compaction {compaction.path} differs from its commits: {what}"
    return None


def unusable(store: ObjectStore, compaction: Compaction, why: str) -> LogCorruptedError:
    """The error for a compaction that must not stand for its commits."""
    return LogCorruptedError(
        f"the log compaction {compaction.path} cannot be used ({why})",
        table=store.root,
        version=compaction.version,
        hint="Delete it if the commits that it covers are still there",
    )
