"""Compare the log and all readers with what concurrent writers of one table recorded (``commit_operations``).

An operation's name is in its commit (``commitInfo.userMetadata``), so the log shows which operations were committed and
in which order. Replaying them in that order gives the rows of every version. This shows more than lost commits: a
delete must also have seen every earlier commit.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.table.delta_table import DeltaTable
from tests.commit_operations import ROWS, WIDTH, Operation
from tests.peers import read_delta_rs, read_duckdb

#: The rows of a version.
Reader = Callable[[int], pa.Table]


@dataclass
class Records:
    """The content of the ledgers of all writers.

    Attributes:
        begun: every operation by its name.
        done: names -> the version, if the writer knows it.
        refused, failed: names -> the error.
        idle: names of operations that had nothing to do.
    """

    begun: dict[str, Operation] = field(default_factory=dict)
    done: dict[str, int | None] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    idle: set[str] = field(default_factory=set)


def read_ledgers(ledgers: Iterable[Path]) -> Records:
    """Read the ledgers."""
    records = Records()
    for path in ledgers:
        for line in path.read_text().splitlines():
            body = json.loads(line)
            if "begin" in body:
                operation = Operation(*body["begin"])
                records.begun[operation.name] = operation
            elif "done" in body:
                records.done[body["done"]] = body["version"]
            elif "refused" in body:
                records.refused[body["refused"]] = body["error"]
            elif "failed" in body:
                records.failed[body["failed"]] = body["error"]
            else:
                records.idle.add(body["idle"])
    return records


@dataclass
class Verdict:
    """The result of a run.

    Attributes:
        versions: number of the table's versions, version 0 included.
        kinds: committed operations of each kind.
        writers: committed operations of each writer, by its number.
        unanswered: committed operations whose writer was killed before the answer.
        rows: rows in the last version.
        looked_at: versions whose rows all readers have read.
        replaced: acknowledged operations whose commit file a writer that replaces files has overwritten.
        violations: descriptions of wrong results; empty if everything is right.
    """

    versions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    writers: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    rows: int = 0
    looked_at: int = 0
    replaced: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def judge(
    table: Path,
    ledgers: Iterable[Path],
    *,
    versions: int = 5,
    seed: int = 0,
    readers: Mapping[str, Reader] | None = None,
    replacing: range = range(0),
) -> Verdict:
    """Compare the log with the ledgers, and the rows of some versions, the last one included, with the log.

    Args:
        table: the table's folder.
        versions: how many versions each reader reads.
        readers: further readers: name -> a function that returns the rows of a version.
        replacing: numbers of writers whose commit may replace the commit file of another writer.
    """
    verdict = Verdict()
    stories = read_ledgers(ledgers)
    committed = _committed(table, stories, verdict, replacing)
    expected = _replayed(stories, committed, verdict)
    if verdict.violations or verdict.replaced:
        return verdict  # without a whole log the rows cannot be compared
    chosen = random.Random(seed).sample(range(verdict.versions - 1), min(versions - 1, verdict.versions - 1))
    _read(
        table,
        {version: expected[version] for version in [*sorted(chosen), verdict.versions - 1]},
        readers or {},
        verdict,
    )
    _check_checkpoints(table, verdict)
    return verdict


def _committed(table: Path, stories: Records, verdict: Verdict, replacing: range) -> dict[int, str]:
    """Names of the operations by their versions, from the log."""
    log = table / "_delta_log"
    numbers = sorted(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit())
    verdict.versions = len(numbers)
    if numbers != list(range(len(numbers))):
        verdict.violations.append(f"the versions {numbers} are not contiguous")
    names: dict[int, str] = {}
    for version in numbers[1:]:
        lines = (log / f"{version:020d}.json").read_text().splitlines()
        try:
            info = next(body["commitInfo"] for body in map(json.loads, lines) if "commitInfo" in body)
            names[version] = info["userMetadata"]
        except (ValueError, StopIteration, KeyError) as error:
            verdict.violations.append(f"version {version} is not a commit of a writer ({error!r}): {lines[:1]}")
    counted = Counter(names.values())
    verdict.violations += [f"{name} is committed {count} times" for name, count in counted.items() if count > 1]
    verdict.violations += [f"{name} was never begun" for name in counted if name not in stories.begun]
    versions = {name: version for version, name in names.items()}
    for name, version in stories.done.items():
        if name not in versions and version is not None and _writer(names.get(version, "")) in replacing:
            verdict.replaced.append(f"{name}, acknowledged as version {version}, was replaced by {names[version]}")
        elif name not in versions:
            verdict.violations.append(f"{name} was acknowledged as version {version} but is not in the log")
        elif version is not None and versions[name] != version:
            verdict.violations.append(f"{name} was acknowledged as version {version} but is version {versions[name]}")
    for name, error in stories.refused.items():
        if name in versions:
            verdict.violations.append(f"{name} is version {versions[name]}, but its writer got {error}")
    verdict.violations += [f"{name} had nothing to do but is committed" for name in stories.idle if name in versions]
    verdict.unanswered = sum(name not in stories.done for name in counted)
    return names


def _writer(name: str) -> int:
    """The number of the writer of an operation; -1: the operation has no name."""
    return int(name.partition("-")[0] or -1)


def _replayed(stories: Records, committed: Mapping[int, str], verdict: Verdict) -> dict[int, dict[int, int]]:
    """The rows of each version, id -> slot, by replaying the operations."""
    rows: dict[int, int] = {}
    versions: dict[int, dict[int, int]] = {0: {}}
    for version, name in sorted(committed.items()):
        operation = stories.begun.get(name)
        if operation is None:
            continue
        verdict.kinds[operation.kind] += 1
        verdict.writers[_writer(name)] += 1
        if operation.kind == "append":
            rows = rows | {operation.first + n: operation.slot + n for n in range(ROWS)}
        elif operation.kind == "delete":
            gone = range(operation.slot, operation.slot + WIDTH)
            rows = {key: slot for key, slot in rows.items() if slot not in gone}
        versions[version] = rows
    verdict.rows = len(rows)
    return versions


def _read(table: Path, expected: Mapping[int, Mapping[int, int]], more: Mapping[str, Reader], verdict: Verdict) -> None:
    """Compare every reader's rows of these versions."""
    readers = {
        "we read": lambda version: DeltaTable(table, version=version).to_pyarrow_table(),
        "delta-rs reads": lambda version: read_delta_rs(table, version),
        "DuckDB reads": lambda version: read_duckdb(table, version),
        **more,
    }
    for version, rows in expected.items():
        verdict.looked_at += 1
        expected_rows = Counter(rows.items())
        for who, read in readers.items():
            content = read(version)
            actual_rows = Counter(zip(content["id"].to_pylist(), content["slot"].to_pylist(), strict=True))
            for what, difference in (
                ("lacks", expected_rows - actual_rows),
                ("has one too many of", actual_rows - expected_rows),
            ):
                if difference:
                    some = sorted(difference)[:3]
                    verdict.violations.append(
                        f"{who} version {version}: {what} {difference.total()} rows, {some} among them"
                    )


def _check_checkpoints(table: Path, verdict: Verdict) -> None:
    """Compare the last version's files from a checkpoint with those from commits alone; check the checkpoint hint."""
    log = table / "_delta_log"
    hint = log / "_last_checkpoint"
    if hint.exists():
        version = json.loads(hint.read_text())["version"]
        if not list(log.glob(f"{version:020d}.checkpoint*.parquet")) or version >= verdict.versions:
            verdict.violations.append(f"_last_checkpoint points to version {version}, which has no checkpoint")
    alone = table.with_name(f"{table.name}-commits-alone")
    shutil.copytree(log, alone / "_delta_log", ignore=shutil.ignore_patterns("*.parquet", "_last_checkpoint"))
    try:
        with_checkpoint, without = (sorted(DeltaTable(folder).files()["path"].to_pylist()) for folder in (table, alone))
        if with_checkpoint != without:
            verdict.violations.append(
                f"the checkpoint has {len(with_checkpoint)} files; expected {len(without)} files by the commits"
            )
    finally:
        shutil.rmtree(alone)
