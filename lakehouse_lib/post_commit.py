"""What follows a commit: the checkpoint that is due. The commit has happened, so a failure here is only told."""

from __future__ import annotations

import logging
import time

from lakehouse_lib.log.checkpoints.writing import write_checkpoint
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.table_properties import TableProperties

logger = logging.getLogger(__name__)


def run_hooks(before: Snapshot, version: int) -> None:
    """Do what is due after the commit of ``version``.

    Args:
        before: the snapshot the commit was planned on, which may be several versions older.
    """
    try:
        interval = TableProperties.of(before.configuration).checkpoint_interval
        if version % interval == 0:
            checkpoint_snapshot(before.update())
    except Exception:
        logger.warning("no checkpoint after version %d of %s", version, before.store.root, exc_info=True)


def checkpoint_snapshot(snapshot: Snapshot) -> None:
    """Write the classic checkpoint of this version, forgetting removes older than the table's retention."""
    properties = TableProperties.of(snapshot.configuration)
    since = time.time_ns() // 1_000_000 - int(properties.deleted_file_retention.total_seconds() * 1000)
    write_checkpoint(snapshot.store, snapshot.version, snapshot.state, tombstones_since=since)
