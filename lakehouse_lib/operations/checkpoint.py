"""Write a checkpoint of a version, so that readers need not replay the log before it."""

from __future__ import annotations

from lakehouse_lib.post_commit import checkpoint_snapshot
from lakehouse_lib.snapshot import Snapshot


def checkpoint(snapshot: Snapshot) -> int:
    """Write the checkpoint of ``snapshot`` and move ``_last_checkpoint`` forward; the version it is of.

    Raises:
        UnsupportedFeatureError: a writer feature this library does not have; a checkpoint would leave its actions out.
    """
    snapshot.check_writable()
    checkpoint_snapshot(snapshot)
    return snapshot.version
