"""Random sequences of verbs, run by this library on one table and by another library on a second one.

The rows of both tables stay equal. If they have a change data feed, the feed of each verb is the difference of the
versions before and after it, both libraries read the same feed, and both tables have the same feed.

A sequence is a function of its seed. The other library runs each verb first. A verb that it refuses is recorded and
left out.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from tests.differential.feeds import (
    FEED,
    REARRANGEMENTS,
    counted_rows,
    effect_difference,
    feed_of,
    feeds_difference,
    some_of,
    without_equal_images,
)
from tests.differential.programs import DeltaRs, Program, SequenceTable, ThisLibrary
from tests.differential.verbs import KINDS, RandomVerbs, Verb
from tests.peers import read_duckdb

#: Features of this library's table; delta-rs' own table has only the change data feed.
FEATURES: list[dict[str, str]] = [
    {},
    FEED,
    FEED | {"delta.enableDeletionVectors": "true"},
    FEED | {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"},
    {"delta.enableDeletionVectors": "true"},
    {"delta.columnMapping.mode": "name"},
    {"delta.enableRowTracking": "true"},
    {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
    {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
]

#: One sequence of so many runs on Spark.
_SPARK_EVERY = 200


@dataclass
class Outcome:
    """The result of a sequence.

    Attributes:
        verbs: how often each verb was run.
        refused: how often the other library refused each verb, with the beginning of its error.
        difference: the first difference; "": there is none.
    """

    verbs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    difference: str = ""


def run_sequence(
    seed: int,
    folder: Path,
    *,
    steps: int = 12,
    engine: Engine | None = None,
    other: Program | None = None,
) -> Outcome:
    """Run a sequence in an empty folder, and compare the rows after each verb.

    Args:
        engine: of this library; default: Arrow.
        other: the other library. None: delta-rs, which always writes the second table. Another library supports the
            features of the first table, so a random choice before each verb says which library writes which table.
    """
    run = _Run(seed, folder, ThisLibrary(engine), other or DeltaRs(), takes_turns=other is not None)
    outcome = Outcome()
    done: list[str] = []
    for _ in range(steps):
        verb = run.next_verb()
        own, peer = run.tables_of_step()
        done.append(f"{verb} here on table {run.tables.index(own)}")
        try:
            run.other.run(verb, peer)
        except Exception as error:  # the libraries have no common class for refusals
            outcome.refused[f"{verb.name}: {re.sub(r'[0-9]+', 'N', str(error))[:80]}"] += 1
            done[-1] += f" (refused by {run.other.name})"
            continue
        try:
            run.own.run(verb, own)
            run.read_tables()
        except Exception as error:
            outcome.difference = f"only this library refuses: {error!r}"
        outcome.verbs[verb.name] += 1
        outcome.difference = outcome.difference or run.difference() or run.feed_difference(verb)
        if outcome.difference:
            outcome.difference = f"seed {seed}, {run.engine}, {run.title}: {'; '.join(done)}: {outcome.difference}"
            return outcome
        run.note_versions(verb)
    return outcome


def run_sequences(seeds: range, steps: int, engine: str | None) -> list[Outcome]:
    """Run the sequences of some seeds, each in a folder of its own.

    Args:
        engine: ``arrow`` or ``spark``; None: the seed decides (``engine_of``).
    """
    outcomes = []
    for seed in seeds:
        chosen = _spark_engine() if (engine or engine_of(seed)) == "spark" else None
        with tempfile.TemporaryDirectory(prefix="lakehouse-differential-") as folder:
            outcomes.append(run_sequence(seed, Path(folder), steps=steps, engine=chosen))
    return outcomes


def engine_of(seed: int) -> str:
    """The engine of a sequence: Spark for each 200th seed, because a sequence on Spark takes much longer."""
    return "arrow" if seed % _SPARK_EVERY else "spark"


@cache
def _spark_engine() -> Engine:
    """The Spark engine of this process, with a small session."""
    from benchmarks.spark_session import builder, started
    from lakehouse_lib.engine.spark.engine import SparkEngine

    session = started(builder("1g"))
    session.sparkContext.setLogLevel("OFF")
    return SparkEngine(session)


class _Run:
    """Both tables, and the random choices of a sequence."""

    def __init__(self, seed: int, folder: Path, own: ThisLibrary, other: Program, *, takes_turns: bool) -> None:
        self.own, self.other = own, other
        self.engine = own.engine_name
        self.tables = (SequenceTable(folder / "own"), SequenceTable(folder / "peer"))
        self._takes_turns = takes_turns
        self._verbs = RandomVerbs(seed)
        partition_by = self._verbs.chance.choice([None, ["part"]])
        features = self._verbs.chance.choice(FEATURES)
        self.title = f"partition_by={partition_by}, {features}"
        #: The tables that the other library and DuckDB read.
        self._read_by_other = self.tables if takes_turns or not features.keys() - FEED.keys() else self.tables[1:]
        self._has_feed = features.items() >= FEED.items()
        if self._has_feed:
            # delta-rs does not find change files if a value of a partition is escaped in the name of its folder.
            self._verbs.parts = ["a", "b", None]
        # DuckDB shows NULL for partition columns of tables that were created with column mapping (docs/interop.md).
        self._is_read_by_duckdb = partition_by is None or "delta.columnMapping.mode" not in features
        first = self._verbs.rows(KINDS)
        for program, table in zip((self.own, self.other), self.tables, strict=True):
            program.create(table.root, first, partition_by, features)
        self.read_tables()
        self.note_versions(None)

    def tables_of_step(self) -> tuple[SequenceTable, SequenceTable]:
        """The table that this library writes, and the table that the other library writes."""
        first, second = self.tables
        return (second, first) if self._takes_turns and self._verbs.chance.random() < 0.5 else (first, second)

    def next_verb(self) -> Verb:
        table = self.tables[0]
        return self._verbs.next_verb(table.rows.column_names, len(table.states))

    def read_tables(self) -> None:
        """Open both tables after a verb, and read their rows."""
        for table in self.tables:
            table.read(self.own)

    def note_versions(self, verb: Verb | None) -> None:
        """Note the versions after a verb, so that they can be restored."""
        for table in self.tables:
            if verb is not None and verb.name == "vacuum":
                table.states.clear()  # data files of older versions do not exist any more
            table.states.append(table.opened.version())

    def difference(self) -> str:
        """The difference between the tables, or between the readers of a table; "": they are equal."""
        first, second = (table.rows for table in self.tables)
        rows = [counted_rows(read.select(first.column_names)) for read in (first, second)]
        if rows[0] != rows[1]:
            return f"only in table 0 {some_of(rows[0] - rows[1])}, only in table 1 {some_of(rows[1] - rows[0])}"
        if self._is_read_by_duckdb and not read_duckdb(self.tables[0].root).equals(first):
            return "DuckDB reads other rows"
        for table in self._read_by_other:
            if not _equal(self.other.read(table), table.rows):
                return f"{self.other.name} reads other rows of table {self.tables.index(table)}"
        return ""

    def feed_difference(self, verb: Verb) -> str:
        """The difference of the feed of a verb from the feeds that are expected; "": there is none."""
        if not self._has_feed:
            return ""
        first = self.tables[0]
        columns = first.rows.column_names
        feeds = [feed_of(self._changes(self.own, table), columns) for table in self.tables]
        if difference := effect_difference(feeds[0], first.rows_before, first.rows):
            return difference
        if verb.name in REARRANGEMENTS and any(feeds[0].values()):
            return f"{verb.name} is in the feed"
        for table in self._read_by_other:
            number = self.tables.index(table)
            feed = feed_of(self._changes(self.other, table), columns)
            titles = f"here from table {number}", f"{self.other.name} from table {number}"
            if difference := feeds_difference(feeds[number], feed, titles):
                return difference
        # A restore depends on the files of both tables. delta-rs writes no change files if an update changes no value.
        if verb.name == "restore" or (verb.name == "update" and feeds[1]["insert"]):
            return ""
        if verb.name == "update" and isinstance(self.other, DeltaRs):
            rows = ((table.rows_before, table.rows.select(columns)) for table in self.tables)
            feeds = [without_equal_images(feed, *versions) for feed, versions in zip(feeds, rows, strict=True)]
        return feeds_difference(*feeds, ("in table 0", "in table 1"))

    def _changes(self, program: Program, table: SequenceTable) -> pa.Table | None:
        """The rows of the feed since the last verb, as a program reads them; None: the verb made no commit."""
        start = table.states[-1] + 1
        return program.changes(table, start) if table.opened.version() >= start else None


def _equal(first: pa.Table, second: pa.Table) -> bool:
    return first.select(second.column_names).equals(second)
