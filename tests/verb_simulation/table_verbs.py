"""The verbs that change the table but no single rows: rewrites, restore, constraints, properties, columns, upkeep."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse_lib.errors import CommitFailedError, ObjectNotFoundError, RetentionError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.operations import restore as restoring
from lakehouse_lib.operations.alter import columns, constraints, properties
from lakehouse_lib.operations.optimize.compact import compact as compact_files
from lakehouse_lib.operations.optimize.compact import plan_compact
from lakehouse_lib.operations.optimize.z_order.selection import files_to_z_order
from lakehouse_lib.operations.optimize.z_order.z_order import z_order as z_order_files
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint as write_checkpoint
from lakehouse_lib.operations.upkeep.cleanup import cleanup as clean_up_log
from lakehouse_lib.operations.upkeep.pins import pin_version, release_version
from lakehouse_lib.operations.upkeep.vacuum import vacuum as vacuum_files
from lakehouse_lib.protocol.table_properties import TARGET_FILE_SIZE
from lakehouse_lib.schema import Field
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.verb_simulation.actors import Actor, named
from tests.verb_simulation.archive import RETENTION
from tests.verb_simulation.history import COLUMNS, DESCRIPTION
from tests.verb_simulation.plans import RULES, OperationPlan, constraint, constraints_of


def compact(actor: Actor, snapshot: Snapshot, name: str) -> None:
    size = actor.dice.choice((None, 3_000, 6_000))
    plan = plan_compact(snapshot, size or TARGET_FILE_SIZE.default)
    paths = plan.files["path"].to_pylist()
    actor.stories.groups[name] = [{paths[row] for row in group.tolist()} for group in plan.bins]
    _rewrite(
        actor,
        "compact",
        name,
        lambda chosen: compact_files(snapshot, actor.engine, target_size=size, commit_properties=chosen),
    )


def z_order(actor: Actor, snapshot: Snapshot, name: str) -> None:
    keys, size = actor.dice.choice((["key"], ["key", "id"])), actor.dice.choice((None, 1_000, 3_000))
    files, file_size = snapshot.files, size or TARGET_FILE_SIZE.default
    paths = files["path"].to_pylist()
    actor.stories.groups[name] = [
        {paths[row] for row in part.rows.tolist()} for part in files_to_z_order(snapshot, files, keys, file_size).parts
    ]
    _rewrite(
        actor,
        "z_order",
        name,
        lambda chosen: z_order_files(snapshot, actor.engine, keys, target_size=size, commit_properties=chosen),
    )


def _rewrite(actor: Actor, kind: str, name: str, verb: Callable[[CommitProperties], ChangeResult]) -> None:
    actor.ask(name, OperationPlan(kind))
    result = verb(named(name))
    if result.version is not None:
        actor.be_done(name, result.version)
    else:
        actor.be_idle(name)


def restore(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Restore a version that was the latest less than half the retention ago, so that no vacuum deletes its files.

    A running vacuum may still prevent the restore.
    """
    objects, now = actor.store.bucket.objects, actor.store.simulation.now
    targets = [
        version
        for version in range(1, snapshot.version)
        if (after := objects.get(file_names.commit(version + 1))) is not None and after.modified > now - RETENTION / 2
    ]
    if not targets:
        return
    target = actor.dice.choice(targets[-4:])
    actor.ask(name, OperationPlan("restore", restores=target))
    try:
        result = restoring.restore(snapshot, target, commit_properties=named(name))
    except CommitFailedError as error:
        if error.code != "DELTA_VACUUM_RUNNING":
            raise
        actor.stories.refused.add(name)
        actor.outcomes.append("restore: a vacuum is running")
        return
    if result.version is not None:
        actor.be_done(name, result.version)
        return
    assert result.read_version is not None
    actor.stories.idle[name] = result.read_version
    actor.be_idle(name)


def constrain(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Add a constraint under one of two names."""
    existing = constraints_of(snapshot.configuration)
    free = [each for each in ("first", "second") if each not in existing]
    if not free:
        return
    key, condition = actor.dice.choice(free), actor.dice.choice([*RULES, *[list(RULES)[-1]] * 3])
    actor.ask(name, OperationPlan("constrain", sets=constraint(key, condition)))
    result = constraints.add_constraints(snapshot, {key: condition}, actor.engine, commit_properties=named(name))
    assert result.version is not None
    actor.be_done(name, result.version)


def unconstrain(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Drop a constraint, if the table has any."""
    existing = sorted(constraints_of(snapshot.configuration))
    if not existing:
        return
    key = actor.dice.choice(existing)
    actor.ask(name, OperationPlan("unconstrain", sets=constraint(key, None)))
    result = constraints.drop_constraint(snapshot, key, commit_properties=named(name))
    assert result.version is not None
    actor.be_done(name, result.version)


def alter(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Set a property or the description, or add a column."""
    kind, number = actor.dice.choice(("upkeep", "own", "description", "column")), str(actor.new_id())
    chosen = named(name)
    if kind == "column":
        field = Field(f"note{number}", "string")
        after = ",".join([*snapshot.schema.names, field.name])
        actor.ask(name, OperationPlan("alter", sets={COLUMNS: after}))
        result = columns.add_columns(snapshot, [field], commit_properties=chosen)
    elif kind == "description":
        actor.ask(name, OperationPlan("alter", sets={DESCRIPTION: number}))
        result = properties.set_table_description(snapshot, number, commit_properties=chosen)
    else:
        change = {"delta.checkpointInterval": number} if kind == "upkeep" else {"own": number}
        actor.ask(name, OperationPlan("alter", sets=change))
        result = properties.set_table_properties(
            snapshot, change, actor.engine, raise_if_not_exists=False, commit_properties=chosen
        )
    assert result.version is not None
    actor.be_done(name, result.version)


def checkpoint(_: Actor, snapshot: Snapshot, __: str) -> None:
    write_checkpoint(snapshot)


def vacuum(actor: Actor, _: Snapshot, __: str) -> None:
    vacuum_files(load_snapshot(actor.store), dry_run=False)


def lite(actor: Actor, _: Snapshot, __: str) -> None:
    """A vacuum that reads the removed files from the log."""
    vacuum_files(load_snapshot(actor.store), dry_run=False, full=False)


def cleanup(actor: Actor, _: Snapshot, __: str) -> None:
    clean_up_log(load_snapshot(actor.store), dry_run=False, enforce_retention_duration=False)


def pin(actor: Actor, snapshot: Snapshot, name: str) -> None:
    """Pin one of the last four versions, which may have expired or be gone, or a vacuum may be running."""
    version = actor.dice.randint(max(0, snapshot.version - 3), snapshot.version)
    pin_name = name.replace(" ", "-")
    try:
        pin_version(snapshot, pin_name, version)
    except RetentionError as error:
        if error.code != "DELTA_VERSION_EXPIRED":
            raise
        actor.outcomes.append("pin: expired")
    except (ObjectNotFoundError, VersionNotFoundError, CommitFailedError) as error:
        actor.outcomes.append(f"pin: {type(error).__name__}")
    else:
        actor.stories.archive.pin(pin_name, version)
        actor.outcomes.append("pin: committed")


def release(actor: Actor, snapshot: Snapshot, _: str) -> None:
    """Release a pin of any actor."""
    names = sorted(actor.stories.archive.pinned)
    if names:
        pin_name = actor.dice.choice(names)
        actor.stories.archive.release(pin_name)
        release_version(snapshot, pin_name)
        actor.outcomes.append("release: committed")
