"""Write a checkpoint of a version, so that readers need not replay the log before it."""

from __future__ import annotations

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.post_commit import checkpoint_snapshot
from lakehouse_lib.transaction.read_version import check_base


def checkpoint(snapshot: Snapshot) -> OperationResult:
    """Write the checkpoint of ``snapshot`` and move ``_last_checkpoint`` forward; its version is ``read_version``.

    Raises:
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the checkpoint would
            lack its actions.
        TableNotFoundError: the log was deleted, or another table was created at the location.
        VersionNotFoundError: the version was cleaned up.
    """
    snapshot.check_writable()
    outrun = check_base(snapshot, snapshot.store)
    if outrun is not None:
        raise VersionNotFoundError(
            "the version was cleaned up, and no later version is based on it",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Open the table again, and write a checkpoint of its latest version",
        ) from outrun
    checkpoint_snapshot(snapshot)
    return OperationResult(snapshot.store.root, snapshot.version, None)
