"""Write a checkpoint of a version, so that readers do not replay the log before it."""

from __future__ import annotations

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.post_commit import checkpoint_snapshot
from lakehouse_lib.transaction.read_version import check_read_version


def checkpoint(snapshot: Snapshot) -> OperationResult:
    """Write a checkpoint of ``snapshot``, and move ``_last_checkpoint`` forward.

    The ``read_version`` of the result is the version of the checkpoint.

    Raises:
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the checkpoint would
            lack its actions.
        TableNotFoundError: the log was deleted, or another table was created at the location.
        VersionNotFoundError: the version was cleaned up.
    """
    snapshot.check_writable()
    error = check_read_version(snapshot, snapshot.store)
    if error is not None:
        raise VersionNotFoundError(
            "the version was cleaned up; expected a version that the log still has",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Open the table again, and write a checkpoint of its latest version",
        ) from error
    checkpoint_snapshot(snapshot)
    return OperationResult(snapshot.store.root, snapshot.version, None)
