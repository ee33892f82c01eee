"""Write a log compaction: readers open one object instead of several commits (PROTOCOL.md, Log Compaction Files)."""

from __future__ import annotations

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import read_commit, serialize
from lakehouse_lib.log.commits.log_compaction import reconcile
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.concurrent import map_requests


def compact_logs(snapshot: Snapshot, start: int, end: int) -> OperationResult:
    """Write the log compaction of the commits ``start`` to ``end``, both inclusive. The commits stay.

    Nothing is written if the commits have no actions that a compaction holds: only commitInfo and change files.

    Raises:
        InvalidArgumentError: ``start`` or ``end`` is not a whole number, or 0 <= start < end is not true.
        VersionNotFoundError: a commit does not exist, or was cleaned up.
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the compaction would
            lack its actions.
    """
    are_whole = all(isinstance(version, int) and not isinstance(version, bool) for version in (start, end))
    if not are_whole or not 0 <= start < end:
        raise InvalidArgumentError(
            f"the versions are {excerpt(start)} and {excerpt(end)}; expected whole numbers from 0, ascending",
            table=snapshot.store.root,
            hint="A compaction has at least two commits; history() lists them",
            code="DELTA_INVALID_VERSION",
        )
    store = snapshot.store
    commits = map_requests(store, lambda version: read_commit(store, version), range(start, end + 1))
    newest(snapshot).check_writable()  # the commits may be newer than the open version
    data = serialize(reconcile(store, commits), store.root, is_compaction=True)
    if data:
        store.put(file_names.compaction(start, end), data)
    return OperationResult(store.root, snapshot.version, None)
