"""delta-rs as one of several writers; this library's writer is ``tests.faults.writer``.

It does not compact here: a compaction of delta-rs 1.6.6 does not notice an earlier compaction, and doubles rows
(``test_interleaved_commits.py`` shows it).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from tests.commit_operations import Ledger, Operation, operations


def work(
    table: Path | str,
    ledger: Path,
    stop: Path,
    number: int,
    seed: int,
    *,
    options: dict[str, str] | None = None,
    pause: float = 0.0,
) -> None:
    """Write until the file ``stop`` exists, with at most ``pause`` seconds between two operations."""
    writer_ledger = Ledger(ledger)
    chance = random.Random(f"{seed}/{number}/waits")
    parent = os.getppid()
    for operation in operations(number, seed, compactions=0):
        if stop.exists() or os.getppid() != parent:  # the parent process may be dead
            return
        time.sleep(chance.uniform(0, pause))
        writer_ledger.begin(operation)
        try:
            if do(str(table), operation, options):
                writer_ledger.acknowledge(operation, None)
        except CommitFailedError as error:
            writer_ledger.refuse(operation, error)
            time.sleep(chance.uniform(0, 0.05))
        except DeltaError as error:
            writer_ledger.fail(operation, error)


def do(table: str, operation: Operation, options: dict[str, str] | None) -> bool:
    """Run one operation; returns whether it has changed the table. delta-rs does not return the version."""
    properties = CommitProperties(custom_metadata={"userMetadata": operation.name})
    if operation.kind == "append":
        write_deltalake(table, operation.rows, mode="append", storage_options=options, commit_properties=properties)
        return True
    metrics = DeltaTable(table, storage_options=options).delete(operation.condition, commit_properties=properties)
    return int(metrics["num_removed_files"]) > 0
