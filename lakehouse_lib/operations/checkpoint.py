"""Write a checkpoint of a version, so that readers need not replay the log before it."""

from __future__ import annotations

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.post_commit import checkpoint_snapshot
from lakehouse_lib.transaction.read_version import check_base


def checkpoint(snapshot: Snapshot) -> int:
    """Write the checkpoint of ``snapshot`` and move ``_last_checkpoint`` forward; the version it is of.

    Raises:
        UnsupportedFeatureError: a writer feature this library does not have; a checkpoint would leave its actions out.
        TableNotFoundError: the log is gone, or another table's, whose readers would take the checkpoint for its own.
        VersionNotFoundError: the version was cleaned up.
    """
    snapshot.check_writable()
    outrun = check_base(snapshot, snapshot.store)
    if outrun is not None:
        raise VersionNotFoundError(
            "the version was cleaned up, and no later one is built on it",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Open the table again, and make a checkpoint of its latest version",
        ) from outrun
    checkpoint_snapshot(snapshot)
    return snapshot.version
