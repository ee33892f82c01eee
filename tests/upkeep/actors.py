"""The processes of a run: writers, readers, and verbs of maintenance, each in a loop until the run ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import DeltaError

#: The ids of a writer begin at its number times this.
_IDS = 10**9
_ROWS = 200
TARGET_SIZE = 256 * 2**10
#: Removed files are kept so long, so that no reader loses a file.
RETENTION_SECONDS = 60.0


class Note(NamedTuple):
    """An operation that has ended; ``problem``: "" if it was right."""

    verb: str
    at: float
    seconds: float
    problem: str = ""


def rows(identifiers: Sequence[int], values: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(identifiers, pa.int64()), "value": pa.array(values, pa.int64())})


def act(work: Callable[..., Iterator[str]], table: Path, stop: Any, notes: Any, arguments: tuple[Any, ...]) -> None:
    """Run an actor until ``stop``. It yields the name of a verb after each operation, or raises."""
    actor = work(table, *arguments)
    while not stop.is_set():
        began = time.time()
        verb, problem = work.__name__, ""
        try:
            verb = next(actor)
        except (DeltaError, AssertionError) as error:
            problem = f"{type(error).__name__}: {error}"
            actor = work(table, *arguments)
        notes.append(Note(verb, began, time.time() - began, problem))


def write(table: Path, number: int, seed: int, ledgers: Any) -> Iterator[str]:
    """Append, upsert and delete rows with ids of its own; the ledger has the rows that it has written."""
    draw = random.Random(f"{seed} {number} {time.time()}")
    ledger: dict[int, int] = dict(ledgers.get(number, {}))
    following = max(ledger, default=number * _IDS) + 1
    while True:
        verb = draw.choice(("append", "append", "merge", "delete"))
        if verb == "append" or len(ledger) < _ROWS:
            verb, chosen = "append", range(following, following + _ROWS)
            following += _ROWS
            changed = {identifier: draw.randrange(10**6) for identifier in chosen}
            write_deltalake(table, rows(list(changed), list(changed.values())), mode="append")
            ledger |= changed
        elif verb == "merge":
            sample = draw.sample(sorted(ledger), _ROWS // 4)
            fresh = range(following, following + _ROWS // 4)
            following += _ROWS // 4
            changed = {identifier: draw.randrange(10**6) for identifier in (*sample, *fresh)}
            merger = DeltaTable(table).merge(
                rows(list(changed), list(changed.values())),
                f"target.id = source.id AND target.id >= {number * _IDS} AND target.id < {(number + 1) * _IDS}",
                source_alias="source",
                target_alias="target",
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
            ledger |= changed
        else:
            sample = draw.sample(sorted(ledger), _ROWS // 8)
            DeltaTable(table).delete(f"id IN ({', '.join(map(str, sample))})")
            ledger = {identifier: value for identifier, value in ledger.items() if identifier not in set(sample)}
        ledgers[number] = ledger
        yield verb


def read(table: Path) -> Iterator[str]:
    """Read the whole table; a version never has a doubled id, and versions do not go back."""
    last = -1
    while True:
        opened = DeltaTable(table)
        ids = opened.to_pyarrow_table(columns=["id"])["id"]
        doubled = len(ids) - pc.count_distinct(ids).as_py()
        assert doubled == 0, f"version {opened.version()} has {doubled} doubled ids"
        assert opened.version() >= last, f"version {opened.version()} after {last}"
        last = opened.version()
        yield "read"


def compact(table: Path) -> Iterator[str]:
    while True:
        DeltaTable(table).optimize.compact(target_size=TARGET_SIZE)
        yield "compact"
        time.sleep(1)


def z_order(table: Path) -> Iterator[str]:
    while True:
        time.sleep(3)
        DeltaTable(table).optimize.z_order(["id"], target_size=TARGET_SIZE)
        yield "z_order"


def checkpoint(table: Path) -> Iterator[str]:
    while True:
        time.sleep(2)
        DeltaTable(table).create_checkpoint()
        yield "checkpoint"


def vacuum(table: Path) -> Iterator[str]:
    while True:
        time.sleep(5)
        DeltaTable(table).vacuum(
            retention_hours=RETENTION_SECONDS / 3600, dry_run=False, enforce_retention_duration=False, full=True
        )
        yield "vacuum"
