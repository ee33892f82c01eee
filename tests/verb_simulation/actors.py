"""Writers and maintainers that call the library's own verbs, with Parquet data files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.engine.merge_plan import MergeClause
from lakehouse_lib.errors import CommitFailedError, CommitUnknownError, DeltaError, RetentionError
from lakehouse_lib.expressions import parse, parse_value
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.operations.checkpoint import checkpoint
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.dml.merge import merge
from lakehouse_lib.operations.dml.update import update
from lakehouse_lib.operations.files import has_many_deleted_rows, partition_codes
from lakehouse_lib.operations.optimize.compact import compact, plan_compact
from lakehouse_lib.operations.optimize.z_order.selection import files_to_z_order, is_z_ordered
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.vacuum import vacuum
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.table_properties import TARGET_FILE_SIZE
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.verb_simulation.history import OperationPlan, Violation
from tests.verb_simulation.store import ParquetStore

KEYS, PARTS = 4, 2
SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("part", pa.int64())])
#: The verbs and how often each is chosen.
VERBS: Mapping[str, int] = {
    "append": 4,
    "delete": 5,
    "mark": 5,
    "update": 5,
    "merge": 4,
    "compact": 4,
    "z_order": 3,
    "overwrite": 1,
    "replace": 3,
    "checkpoint": 1,
    "vacuum": 1,
    "wait": 1,
}
#: What an update assigns, and what becomes of key and part.
_ASSIGNMENTS: tuple[tuple[Mapping[str, str], Callable[[int, int], tuple[int, int]]], ...] = (
    ({"key": f"(key + 1) % {KEYS}"}, lambda key, part: ((key + 1) % KEYS, part)),
    ({"part": "1 - part"}, lambda key, part: (key, 1 - part)),
    ({"part": "1 - part", "key": "CASE WHEN part = 0 THEN 0 ELSE key END"}, lambda k, p: (0 if p == 0 else k, 1 - p)),
)
#: Verbs with which no other writer of these worlds conflicts.
_NEVER_LOSE = ("append", "delete", "update", "merge")


@dataclass
class Stories:
    """The plans of actors by operation name, and the answers that they got.

    Attributes:
        done: operation -> its version.
        gone: delete -> the number of deleted rows, if the actor knows it.
        updated: update or merge -> the number of updated rows.
        refused: operations that are not committed and never will be.
        lost: refused operations with a conflict -> the read version.
        idle: deletes, updates and merges that found nothing to do -> the version that they read.
        groups: rewrite -> the files of each of its groups.
    """

    plans: dict[str, OperationPlan] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    lost: dict[str, int] = field(default_factory=dict)
    idle: dict[str, int] = field(default_factory=dict)
    groups: dict[str, list[set[str]]] = field(default_factory=dict)


class Actor:
    """One process.

    Args:
        name: unique among the actors.
        store: the actor's own store.
        number: the number of the actor; the ids of its rows begin with it.

    Attributes:
        outcomes: the outcome of each verb, in a few words.
        begun: the number of all calls before the present verb.
    """

    def __init__(self, name: str, store: ParquetStore, number: int, stories: Stories) -> None:
        self.name = name
        self.store = store
        self.stories = stories
        self.outcomes: list[str] = []
        self.begun = 0
        self._engine = ArrowEngine(1)
        self._rows = number * 1_000
        self._operations = 0
        self._random = random.Random(0)
        self._snapshot: Snapshot | None = None

    def do(self, verb: str, seed: str) -> None:
        """Run one verb of ``VERBS``; the seed makes its choices."""
        self._random = random.Random(seed)
        self.store.trouble = False
        self.begun = len(self.store.world.history)
        name = f"{self.name} {self._operations}"
        self._operations += 1
        try:
            if verb == "wait":
                self.store.world.sleep_for_hours(2)
                return
            with self.store.world.at_once(self.name):
                getattr(self, f"_{verb}")(self._opened(), name)
        except CommitUnknownError as error:  # the commit may exist or not
            self._outcome(verb, error)
        except CommitFailedError as error:
            if verb in _NEVER_LOSE:
                raise Violation(f"{name} runs {verb} and gets an error without a reason: {error!r}") from error
            self.stories.refused.add(name)
            if not self.store.trouble:
                assert self._snapshot is not None
                self.stories.lost[name] = self._snapshot.version
            self._outcome(verb, error)
        except DeltaError as error:
            if not self.is_explained(error):
                raise Violation(f"{name} runs {verb} and gets an error without a reason: {error!r}") from error
            self.stories.refused.add(name)
            self._outcome(verb, error)

    def _opened(self) -> Snapshot:
        """The open version, or the latest."""
        if self._snapshot is None or self._random.random() < 0.6:
            self._snapshot = load_snapshot(self.store)
        return self._snapshot

    def is_explained(self, error: DeltaError) -> bool:
        """Whether the store or the actor's clock explains the error."""
        if isinstance(error, RetentionError):
            return self.store.world.was_ahead(self.name, self.begun)
        return self.store.trouble

    def _append(self, _: Snapshot, name: str) -> None:
        self._write(name, "append")

    def _overwrite(self, _: Snapshot, name: str) -> None:
        self._write(name, "overwrite")

    def _write(self, name: str, mode: Any) -> None:
        rows = [
            {"id": self._new_id(), "key": self._random.randrange(KEYS), "part": self._random.randrange(PARTS)}
            for _ in range(self._random.choice((1, 3, 8)))
        ]
        self._ask(name, OperationPlan(mode, {row["id"]: (row["key"], row["part"]) for row in rows}))
        self._put(name, rows, Write(mode=mode), None)

    def _replace(self, snapshot: Snapshot, name: str) -> None:
        """Overwrite the rows of a condition by rows for which it is true."""
        text, goes = self._condition()
        kinds = [(key, part) for key in range(KEYS) for part in range(PARTS) if goes(0, key, part)]
        rows = [
            {"id": self._new_id(), **dict(zip(("key", "part"), self._random.choice(kinds), strict=True))}
            for _ in range(self._random.choice((1, 3)))
        ]
        added = {row["id"]: (row["key"], row["part"]) for row in rows}
        self._ask(name, OperationPlan("replace", added, goes=goes))
        self._put(name, rows, Write(mode="overwrite", predicate=text), snapshot)

    def _put(self, name: str, rows: list[dict[str, int]], what: Write, snapshot: Snapshot | None) -> None:
        data = incoming(pa.Table.from_pylist(rows, schema=SCHEMA))
        result = write(self.store, data, what, self._engine, snapshot=snapshot, commit_properties=_named(name))
        assert result.version is not None
        self._done(name, result.version)

    def _delete(self, snapshot: Snapshot, name: str) -> None:
        text, goes = self._condition()
        self._ask(name, OperationPlan("delete", goes=goes))
        condition = parse(text, snapshot.schema, table=self.store.root)
        result = delete(snapshot, condition, self._engine, commit_properties=_named(name))
        self._finish(name, result, self.stories.gone, "numDeletedRows")

    def _update(self, snapshot: Snapshot, name: str) -> None:
        text, goes = self._condition()
        assignments, becomes = self._random.choice(_ASSIGNMENTS)
        self._ask(name, OperationPlan("update", goes=goes, becomes=becomes))
        condition = parse(text, snapshot.schema, table=self.store.root)
        values = {
            column: parse_value(sql, snapshot.field(column), snapshot.schema) for column, sql in assignments.items()
        }
        result = update(snapshot, values, condition, self._engine, commit_properties=_named(name))
        self._finish(name, result, self.stories.updated, "numUpdatedRows")

    def _merge(self, snapshot: Snapshot, name: str) -> None:
        """Upsert rows by their ids: some that exist or existed, and some new ones."""
        # Rows whose append may still be committed are left out: a blind append reads nothing, so both would stay.
        others = sorted({number for done in self.stories.done for number in self.stories.plans[done].adds})
        numbers = self._random.sample(others, min(len(others), self._random.choice((0, 1, 3))))
        numbers += [self._new_id() for _ in range(self._random.choice((0, 1, 2)))]
        rows = {number: (self._random.randrange(KEYS), self._random.randrange(PARTS)) for number in numbers}
        self._ask(name, OperationPlan("merge", rows))
        source = pa.Table.from_pylist(
            [{"id": number, "key": key, "part": part} for number, (key, part) in rows.items()], schema=SCHEMA
        )
        names = MergeNamespace(snapshot.schema, Schema.from_arrow(SCHEMA))
        values = {
            column: parse_value(f"source.{column}", snapshot.field(column), names) for column in ("id", "key", "part")
        }
        is_other = parse("target.key != source.key OR target.part != source.part", names)
        clauses = (
            MergeClause("matched", "update", is_other, {"key": values["key"], "part": values["part"]}),
            MergeClause("not matched", "insert", None, values),
        )
        condition = parse("target.id = source.id", names)
        result = merge(snapshot, source, condition, clauses, self._engine, commit_properties=_named(name))
        self._finish(name, result, self.stories.updated, "numTargetRowsUpdated")

    def _mark(self, snapshot: Snapshot, name: str) -> None:
        """Make a DELETE of another engine: hide rows of some files by deletion vectors."""
        files = snapshot.files.to_pylist()
        if not files:
            return
        gone: set[int] = set()
        old, new = [], []
        for file in self._random.sample(files, min(len(files), self._random.choice((1, 1, 2)))):
            held = pa.parquet.ParquetFile(self.store.open_input(file["path"])).read(["id"])["id"].to_pylist()
            before = file["deletionVector"]
            deleted = deletion_vector.load(self.store, before)
            alive = [place for place in range(len(held)) if place not in deleted]
            if not alive:
                continue
            places = self._random.sample(alive, self._random.randint(1, max(1, len(alive) - 1)))
            gone |= {held[place] for place in places}
            old.append(file)
            (vector,) = deletion_vector.save(self.store, [deleted | BitMap64(places)])
            stats = json.dumps({**json.loads(file["stats"]), "tightBounds": False})
            new.append({**file, "deletionVector": vector, "stats": stats})
        if not old:
            return
        self._ask(name, OperationPlan("mark", goes=lambda row_number, *_: row_number in gone))
        transaction = OptimisticTransaction(snapshot, self.store, "DELETE", {})
        transaction.remove(pa.Table.from_pylist(old, schema=snapshot.files.schema))
        marked = [{**file, "dataChange": True} for file in new]
        transaction.add(pa.Table.from_pylist(marked, schema=snapshot.files.schema), keeps_row_ids=True)
        outcome = transaction.commit(_named(name))
        if isinstance(outcome, Conflict):
            raise outcome.error
        self._done(name, version_of(outcome))

    def _compact(self, snapshot: Snapshot, name: str) -> None:
        size = self._random.choice((None, 3_000, 6_000))
        plan = plan_compact(snapshot, size or TARGET_FILE_SIZE.default)
        paths = plan.files["path"].to_pylist()
        self.stories.groups[name] = [{paths[row] for row in group.tolist()} for group in plan.bins]
        self._rewrite(
            "compact",
            name,
            lambda properties: compact(snapshot, self._engine, target_size=size, commit_properties=properties),
        )

    def _z_order(self, snapshot: Snapshot, name: str) -> None:
        columns, size = self._random.choice((["key"], ["key", "id"])), self._random.choice((None, 1_000, 3_000))
        files, file_size = snapshot.files, size or TARGET_FILE_SIZE.default
        parts = partition_codes(files, snapshot.layout)
        z_ordered, worn = is_z_ordered(snapshot, files, columns, file_size), has_many_deleted_rows(files)
        paths = files["path"].to_pylist()
        self.stories.groups[name] = [
            {paths[row] for row in rows.tolist()}
            for rows, _ in files_to_z_order(parts, files["size"].to_numpy(), z_ordered, worn, file_size)
        ]
        self._rewrite(
            "z_order",
            name,
            lambda properties: z_order(snapshot, self._engine, columns, target_size=size, commit_properties=properties),
        )

    def _rewrite(self, kind: str, name: str, verb: Callable[[CommitProperties], ChangeResult]) -> None:
        self._ask(name, OperationPlan(kind))
        result = verb(_named(name))
        if result.version is not None:
            self._done(name, result.version)
        else:
            self._idle(name)

    def _checkpoint(self, snapshot: Snapshot, _: str) -> None:
        checkpoint(snapshot)

    def _vacuum(self, _: Snapshot, __: str) -> None:
        vacuum(load_snapshot(self.store), dry_run=False)

    def _condition(self) -> tuple[str, Callable[[int, int, int], bool]]:
        key, part = self._random.randrange(KEYS), self._random.randrange(PARTS)
        kinds: tuple[tuple[str, Callable[[int, int, int], bool]], ...] = (
            (f"key = {key}", lambda _, k, __: k == key),
            (f"key >= {key}", lambda _, k, __: k >= key),
            (f"part = {part}", lambda _, __, p: p == part),
            (f"part = {part} AND key = {key}", lambda _, k, p: (k, p) == (key, part)),
        )
        return self._random.choice(kinds)

    def _new_id(self) -> int:
        self._rows += 1
        return self._rows

    def _ask(self, name: str, what: OperationPlan) -> None:
        self.stories.plans[name] = what

    def _finish(self, name: str, result: ChangeResult, row_counts: dict[str, int], metric: str) -> None:
        """Note the commit of a row change and its number of rows, or that no row matched."""
        if result.version is None:
            assert result.read_version is not None
            self.stories.idle[name] = result.read_version
            self._idle(name)
            return
        self._done(name, result.version)
        if result.metrics[metric] is not None:
            row_counts[name] = result.metrics[metric]

    def _done(self, name: str, version: int) -> None:
        self.stories.done[name] = version
        self.outcomes.append(f"{self.stories.plans[name].verb}: committed")

    def _idle(self, name: str) -> None:
        self.stories.refused.add(name)
        self.outcomes.append(f"{self.stories.plans[name].verb}: nothing to do")

    def _outcome(self, verb: str, error: DeltaError) -> None:
        self.outcomes.append(f"{verb}: {type(error).__name__}")


def _named(name: str) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": name})
