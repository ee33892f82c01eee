"""The verbs that add, change and delete rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.engine.merge_plan import MergeClause
from lakehouse_lib.expressions import parse, parse_value
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.operations.dml import merge as merging
from lakehouse_lib.operations.dml.delete import delete as delete_rows
from lakehouse_lib.operations.dml.update import update as update_rows
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.write import write as writing
from lakehouse_lib.operations.write.write import Write
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from tests.verb_simulation.actors import SCHEMA, Actor, named, rows_of, table_of
from tests.verb_simulation.plans import KEYS, PARTS, OperationPlan

#: What an update assigns, and what becomes of key and part.
_ASSIGNMENTS: tuple[tuple[Mapping[str, str], Callable[[int, int], tuple[int, int]]], ...] = (
    ({"key": f"(key + 1) % {KEYS}"}, lambda key, part: ((key + 1) % KEYS, part)),
    ({"key": "key + 2"}, lambda key, part: (key + 2, part)),
    ({"part": "1 - part"}, lambda key, part: (key, 1 - part)),
    ({"part": "1 - part", "key": "CASE WHEN part = 0 THEN 0 ELSE key END"}, lambda k, p: (0 if p == 0 else k, 1 - p)),
)
#: The source of a correction: a key, and the key that it becomes.
_CORRECTIONS = pa.schema([("key", pa.int64()), ("new", pa.int64())])


def append(actor: Actor, _: Snapshot, name: str) -> None:
    added = rows_of(actor, actor.dice.choice((1, 3, 8)))
    actor.ask(name, OperationPlan("append", added))
    _write(actor, name, added, Write(mode="append"), None)


def overwrite(actor: Actor, _: Snapshot, name: str) -> None:
    added = rows_of(actor, actor.dice.choice((1, 3, 8)))
    actor.ask(name, OperationPlan("overwrite", added))
    _write(actor, name, added, Write(mode="overwrite"), None)


def replace(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Overwrite the rows of a condition by rows for which it is true."""
    text, goes = actor.condition()
    kinds = [(key, part) for key in range(KEYS) for part in range(PARTS) if goes(0, key, part)]
    added = {actor.new_id(): actor.dice.choice(kinds) for _ in range(actor.dice.choice((1, 3)))}
    actor.ask(name, OperationPlan("replace", added, goes=goes))
    _write(actor, name, added, Write(mode="overwrite", predicate=text), snapshot)


def replace_partitions(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Overwrite the partitions of the new rows, if the table has partitions."""
    if not snapshot.partition_columns:
        return
    added = rows_of(actor, actor.dice.choice((1, 1, 3)))
    parts = {part for _, part in added.values()}
    actor.ask(name, OperationPlan("replace partitions", added, goes=lambda _, __, part: part in parts))
    _write(actor, name, added, Write(mode="overwrite", partition_overwrite_mode="dynamic"), snapshot)


def _write(
    actor: Actor, name: str, rows: Mapping[int, tuple[int, int]], what: Write, snapshot: Snapshot | None
) -> None:
    data = incoming(table_of(rows))
    result = writing.write(actor.store, data, what, actor.engine, snapshot=snapshot, commit_properties=named(name))
    assert result.version is not None
    actor.be_done(name, result.version)


def delete(actor: Actor, snapshot: Snapshot, name: str) -> None:
    text, goes = actor.condition()
    actor.ask(name, OperationPlan("delete", goes=goes))
    condition = parse(text, snapshot.schema, table=actor.store.root)
    result = delete_rows(snapshot, condition, actor.engine, commit_properties=named(name))
    actor.finish(name, result, actor.stories.gone, "numDeletedRows")


def update(actor: Actor, snapshot: Snapshot, name: str) -> None:
    text, goes = actor.condition()
    assignments, becomes = actor.dice.choice(_ASSIGNMENTS)
    actor.ask(name, OperationPlan("update", goes=goes, becomes=becomes))
    condition = parse(text, snapshot.schema, table=actor.store.root)
    values = {column: parse_value(sql, snapshot.field(column), snapshot.schema) for column, sql in assignments.items()}
    result = update_rows(snapshot, values, condition, actor.engine, commit_properties=named(name))
    actor.finish(name, result, actor.stories.updated, "numUpdatedRows")


def merge(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Upsert rows by their ids: some that exist or existed, and some new ones."""
    # Rows whose append may still be committed are left out: a blind append reads nothing, so both would stay.
    others = sorted({number for done in actor.stories.done for number in actor.stories.plans[done].adds})
    numbers = actor.dice.sample(others, min(len(others), actor.dice.choice((0, 1, 3))))
    numbers += [actor.new_id() for _ in range(actor.dice.choice((0, 1, 2)))]
    rows = {number: (actor.dice.randrange(KEYS), actor.dice.randrange(PARTS)) for number in numbers}
    actor.ask(name, OperationPlan("merge", rows))
    is_other = "target.key != source.key OR target.part != source.part"
    clauses = (
        ("matched", "update", is_other, {"key": "source.key", "part": "source.part"}),
        ("not matched", "insert", None, {column: f"source.{column}" for column in SCHEMA.names}),
    )
    result = _merge(actor, snapshot, name, table_of(rows), "target.id = source.id", *clauses)
    actor.finish(name, result, actor.stories.updated, "numTargetRowsUpdated")


def insert(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Insert rows whose keys no row has."""
    keys = actor.dice.sample(range(KEYS + 3), actor.dice.choice((1, 2)))
    rows = {actor.new_id(): (key, actor.dice.randrange(PARTS)) for key in keys}
    actor.ask(name, OperationPlan("insert", rows, if_new=True))
    values = {column: f"source.{column}" for column in SCHEMA.names}
    clause = ("not matched", "insert", None, values)
    result = _merge(actor, snapshot, name, table_of(rows), "target.key = source.key", clause)
    actor.finish(name, result, actor.stories.updated, "numTargetRowsUpdated")


def correct(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Merge a source of keys with the rows of one part: they get another key, or are deleted."""
    part = actor.dice.randrange(PARTS)
    keys = actor.dice.sample(range(KEYS), actor.dice.choice((1, 2)))
    new = {key: (key + actor.dice.randrange(1, KEYS)) % KEYS for key in keys}
    deletes = actor.dice.random() < 0.3
    plan = OperationPlan(
        "correct",
        goes=lambda _, k, p: p == part and k in new,
        becomes=None if deletes else lambda k, p: (new[k], p),
    )
    actor.ask(name, plan)
    source = pa.Table.from_pylist([{"key": key, "new": other} for key, other in new.items()], schema=_CORRECTIONS)
    clause = ("matched", "delete", None, None) if deletes else ("matched", "update", None, {"key": "source.new"})
    result = _merge(actor, snapshot, name, source, f"target.key = source.key AND target.part = {part}", clause)
    counts, metric = (
        (actor.stories.gone, "numTargetRowsDeleted") if deletes else (actor.stories.updated, "numTargetRowsUpdated")
    )
    actor.finish(name, result, counts, metric)


def _merge(
    actor: Actor,
    snapshot: Snapshot,
    name: str,
    source: pa.Table,
    condition: str,
    *clauses: tuple[str, str, str | None, Mapping[str, str] | None],
) -> ChangeResult:
    """Merge a source by clauses: the case, the action, its condition, and the values of its columns."""
    names = MergeNamespace(snapshot.schema, Schema.from_arrow(source.schema))
    parsed = tuple(
        MergeClause(
            case,  # type: ignore[arg-type]
            action,  # type: ignore[arg-type]
            None if text is None else parse(text, names),
            None
            if values is None
            else {column: parse_value(sql, snapshot.field(column), names) for column, sql in values.items()},
        )
        for case, action, text, values in clauses
    )
    return merging.merge(snapshot, source, parse(condition, names), parsed, actor.engine, commit_properties=named(name))


def mark(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Make a DELETE of another engine: hide rows of some files by deletion vectors."""
    files = snapshot.files.to_pylist()
    if not files:
        return
    gone: set[int] = set()
    old, new = [], []
    for file in actor.dice.sample(files, min(len(files), actor.dice.choice((1, 1, 2)))):
        held = pa.parquet.ParquetFile(actor.store.open_input(file["path"])).read(["id"])["id"].to_pylist()
        before = file["deletionVector"]
        deleted = deletion_vector.load(actor.store, before)
        alive = [place for place in range(len(held)) if place not in deleted]
        if not alive:
            continue
        places = actor.dice.sample(alive, actor.dice.randint(1, max(1, len(alive) - 1)))
        gone |= {held[place] for place in places}
        old.append(file)
        (vector,) = deletion_vector.save(actor.store, [deleted | BitMap64(places)])
        stats = json.dumps({**json.loads(file["stats"]), "tightBounds": False})
        new.append({**file, "deletionVector": vector, "stats": stats})
    if not old:
        return
    actor.ask(name, OperationPlan("mark", goes=lambda row_number, *_: row_number in gone))
    transaction = OptimisticTransaction(snapshot, actor.store, "DELETE", {})
    transaction.remove(pa.Table.from_pylist(old, schema=snapshot.files.schema))
    marked = [{**file, "dataChange": True} for file in new]
    transaction.add(pa.Table.from_pylist(marked, schema=snapshot.files.schema), keeps_row_ids=True)
    outcome = transaction.commit(named(name))
    if isinstance(outcome, Conflict):
        raise outcome.error
    actor.be_done(name, version_of(outcome))
