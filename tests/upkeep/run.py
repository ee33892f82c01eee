"""Writers, readers and maintenance of one table at the same time; in the end the rows are those of the writers."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lakehouse_lib import DeltaTable, write_deltalake
from tests.peers import read_duckdb
from tests.upkeep import actors


@dataclass
class Half:
    """What happened in a half of the run.

    Attributes:
        counts: by verb, the number of operations.
        latencies: of the reads, in seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)


@dataclass
class Result:
    """The result of a run; ``problems``: failed operations, wrong reads, and rows that are lost or doubled."""

    alone: Half = field(default_factory=Half)
    beside: Half = field(default_factory=Half)
    problems: list[str] = field(default_factory=list)
    rows: int = 0
    files: int = 0
    version: int = 0


def run(folder: Path, seconds: float, writers: int = 3, readers: int = 1, seed: int = 0) -> Result:
    """Write and read for half of the time, then beside maintenance for the other half."""
    table = folder / "table"
    properties = {"delta.enableDeletionVectors": "true", "delta.autoOptimize.autoCompact": "true"}
    write_deltalake(table, actors.rows([], []), mode="append", configuration=properties)
    context = get_context("spawn")
    manager = context.Manager()
    stop, notes = manager.Event(), manager.list()
    ledgers = manager.dict()
    users = [
        *((actors.write, (number, seed, ledgers)) for number in range(writers)),
        *((actors.read, ()) for _ in range(readers)),
    ]
    upkeep = [(verb, ()) for verb in (actors.compact, actors.z_order, actors.checkpoint, actors.vacuum)]

    def start(work: Any, arguments: tuple[Any, ...]) -> Any:
        process = context.Process(target=actors.act, args=(work, table, stop, notes, arguments))
        process.start()
        return process

    processes = [start(*user) for user in users]
    time.sleep(seconds / 2)
    moment = time.time()
    processes += [start(*verb) for verb in upkeep]
    time.sleep(seconds / 2)
    stop.set()
    for process in processes:
        process.join()
    return _judge(table, list(notes), dict(ledgers), moment)


def _judge(table: Path, notes: list[actors.Note], ledgers: dict[int, dict[int, int]], moment: float) -> Result:
    result = Result()
    for note in notes:
        half = result.alone if note.at < moment else result.beside
        half.counts[note.verb] += 1
        if note.verb == "read":
            half.latencies.append(note.seconds)
        if note.problem:
            result.problems.append(f"{note.verb}: {note.problem}")
    stored = read_duckdb(table)
    expected = {identifier: value for ledger in ledgers.values() for identifier, value in ledger.items()}
    identifiers = stored["id"].to_pylist()
    stored_values = dict(zip(identifiers, stored["value"].to_pylist(), strict=True))
    doubled = len(identifiers) - len(stored_values)
    lost, surplus = expected.keys() - stored_values.keys(), stored_values.keys() - expected.keys()
    changed = [key for key in expected.keys() & stored_values.keys() if expected[key] != stored_values[key]]
    for name, rows in (("lost", lost), ("not expected", surplus), ("with an old value", changed)):
        if rows:
            result.problems.append(f"{len(rows)} rows are {name}, such as {min(rows)}")
    if doubled:
        result.problems.append(f"{doubled} rows are doubled")
    opened = DeltaTable(table)
    result.rows, result.files, result.version = len(identifiers), len(opened.files()), opened.version()
    return result
