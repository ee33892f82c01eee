"""A process that writes to a table until it is stopped, or until it kills itself at a given step."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import CommitFailedError, StoreError, TableNotFoundError
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.commit_operations import Ledger, Operation, operations

#: The audit events (``sys.audit``) before Python accesses the disk.
STEPS = frozenset(("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.scandir"))


def work(
    table: Path | str,
    ledger: Path,
    stop: Path,
    number: int,
    seed: int,
    *,
    options: dict[str, str] | None = None,
    pause: float = 0.0,
    dies_at: int | None = None,
    sabotage: Callable[[], None] | None = None,
) -> None:
    """Write until the file ``stop`` exists.

    Args:
        table: a folder, or a location in S3.
        number: the writer's unique number.
        options: storage options.
        pause: most seconds between two operations.
        dies_at: the step on the table's files before which the process kills itself.
        sabotage: breaks the process, to test that violations are found.
    """
    if sabotage is not None:
        sabotage()
    writer_ledger = Ledger(ledger)
    store = open_store(table, options)
    chance = random.Random(f"{seed}/{number}/waits")
    parent = os.getppid()
    if dies_at is not None:
        _die(str(table), dies_at)
    for operation in operations(number, seed):
        if stop.exists() or os.getppid() != parent:  # the parent process may be dead
            return
        time.sleep(chance.uniform(0, pause))
        writer_ledger.begin(operation)
        try:
            version = do(store, operation)
        except CommitFailedError as error:
            writer_ledger.refuse(operation, error)
            time.sleep(chance.uniform(0, 0.05))
        except StoreError as error:
            writer_ledger.fail(operation, error)
        except TableNotFoundError as error:  # after a double win, a writer finds another commit in place of its own
            if sabotage is None:
                raise
            writer_ledger.fail(operation, error)
        else:
            if version is None:
                writer_ledger.idle(operation)
            else:
                writer_ledger.acknowledge(operation, version)


def do(store: ObjectStore, operation: Operation) -> int | None:
    """Run the operation; returns its version, or None if there was nothing to do."""
    engine = ArrowEngine(1)
    properties = CommitProperties(custom_metadata={"userMetadata": operation.name})
    if operation.kind == "append":
        rows = incoming(operation.rows)
        return write(store, rows, Write(mode="append"), engine, commit_properties=properties).version
    snapshot = load_snapshot(store)
    if operation.kind == "delete":
        condition = parse(operation.condition, snapshot.schema, table=store.root)
        return delete(snapshot, condition, engine, commit_properties=properties).version
    return compact(snapshot, engine, commit_properties=properties).version


def _die(table: str, step: int) -> None:
    left = step

    def before(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS and any(str(argument).startswith(table) for argument in arguments[:2]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(before)
