"""Checks that versions are the results of the operations, and that actors got the right answers."""

from __future__ import annotations

from itertools import pairwise

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.snapshot import load_snapshot
from tests.simulation.store import Bucket
from tests.verb_simulation.archive import Archive
from tests.verb_simulation.history import COLUMNS, Reading, Version, Violation
from tests.verb_simulation.numbers import COLUMN
from tests.verb_simulation.plans import Properties, constraints_of, may_be_broken
from tests.verb_simulation.store import ParquetStore
from tests.verb_simulation.stories import Stories


def judge(archive: Archive, store: ParquetStore, stories: Stories) -> list[Version]:
    """The versions, if each is the result of the operations so far, in the order of the log.

    Raises:
        Violation: a version is not, the log differs from an actor's answer, or our reader reads other rows.
    """
    everything = Bucket(lambda *_: None)
    for path, data in archive.objects.items():
        everything.set(path, data, 0)
    versions = Reading(archive.objects, ParquetStore(store.simulation, everything, "archivist")).versions()
    _check_rows(versions, stories)
    _check_answers(versions, stories)
    snapshot = load_snapshot(store)
    rows_read = ArrowEngine(1).read(snapshot, None, None).read_all().to_pylist()
    rows = {row["id"]: (row["key"], row["part"]) for row in rows_read}
    numbers = {row["id"]: row[COLUMN.name] for row in rows_read if COLUMN.name in row}
    last = versions[-1]
    if (
        snapshot.version + 1 != len(versions)
        or len(rows) != len(rows_read)
        or (rows, numbers) != (last.rows, last.numbers)
    ):
        raise Violation(f"version {snapshot.version} is read as {rows_read}; expected {last.rows}, {last.numbers}")
    for pin, version in archive.pinned.items():
        rows_read = ArrowEngine(1).read(load_snapshot(store, version), None, None).read_all().to_pylist()
        rows = {row["id"]: (row["key"], row["part"]) for row in rows_read}
        if rows != versions[version].rows:
            raise Violation(f"version {version}, pinned as {pin}, is read as {rows}; expected {versions[version].rows}")
    return versions


def _check_rows(versions: list[Version], stories: Stories) -> None:
    for version, (before, after) in enumerate(pairwise(versions), start=1):
        plan, history = stories.plans.get(after.name), versions[:version]
        expected = before.rows if plan is None else plan.rows_after(history)
        if after.rows != expected:
            lost = {row_number: row for row_number, row in expected.items() if after.rows.get(row_number) != row}
            more = {row_number: row for row_number, row in after.rows.items() if expected.get(row_number) != row}
            raise Violation(f"version {version}, {after.name}: lacks {lost}, and has {more}")
        properties = before.properties if plan is None else plan.properties_after(history)
        if after.properties != properties and after.name:
            raise Violation(f"version {version}, {after.name}: has {after.properties}; expected {properties}")
        gone = stories.gone.get(after.name)
        if gone is not None and gone != len(before.rows) - len(after.rows):
            raise Violation(f"{after.name} returned {gone} deleted rows; expected {len(before.rows) - len(after.rows)}")
        updated = stories.updated.get(after.name)
        changed = sum(
            after.rows[row_number] != row for row_number, row in before.rows.items() if row_number in after.rows
        )
        if updated is not None and updated != changed:
            raise Violation(f"{after.name} returned {updated} updated rows; expected {changed}")


def _check_answers(versions: list[Version], stories: Stories) -> None:
    numbers = {version.name: number for number, version in enumerate(versions) if version.name}
    if len(numbers) != sum(bool(version.name) for version in versions):
        raise Violation(f"an operation is committed twice: {[version.name for version in versions]}")
    for name, version in stories.done.items():
        if numbers.get(name) != version:
            raise Violation(f"{name} returned version {version}; expected {numbers.get(name)}")
    for name in stories.refused & numbers.keys():
        raise Violation(f"{name} is version {numbers[name]}, but its actor got a conflict")
    for name, base in stories.lost.items():
        if not _has_lost(name, stories, versions[base], versions[base + 1 :]):
            raise Violation(f"{name} got a conflict without a winning commit after version {base}")
    for name in stories.against_a_rule:
        plan = stories.plans[name]
        if not any(plan.breaks_a_rule(versions[:number]) for number in range(1, len(versions) + 1)):
            raise Violation(f"{name} was refused because of a constraint that its rows do not violate in any version")
    for name, version in stories.idle.items():
        plan, history = stories.plans[name], versions[: version + 1]
        if (plan.rows_after(history), plan.properties_after(history)) != (history[-1].rows, history[-1].properties):
            raise Violation(f"{name} found nothing to do, but there was in version {version}")


def _has_lost(name: str, stories: Stories, base: Version, later: list[Version]) -> bool:
    """Whether commits explain the conflict.

    Any commit explains that of an overwrite, whole, by a predicate or of partitions, and that of a restore. A change of
    constraints or columns explains every conflict, and a change of any metadata that of another such change. Rows that
    may violate a new constraint explain that of the constraint. For a rewrite, commits must have removed a file of each
    group, or a restore must have brought back rows of the group that a vector has hidden; rows that were deleted by
    vectors are deleted in its files too. For a delete by vectors, another vector of a file is enough.
    """
    plan = stories.plans[name]
    if plan.verb in ("overwrite", "replace", "replace partitions", "restore"):
        return bool(later)
    if any(_affects_rows(before.properties, after.properties) for before, after in pairwise([base, *later])):
        return True
    if plan.verb in ("constrain", "unconstrain", "alter"):
        new = {name: condition for name, condition in plan.sets.items() if condition and plan.verb == "constrain"}
        return any(version.writes_metadata for version in later) or any(
            may_be_broken(condition, *bounds)
            for version in later
            for bounds in version.moved
            for condition in new.values()
        )
    if plan.verb in ("compact", "z_order"):
        paths = [{path for path, _ in version.files} for version in later]
        plans = [(version, stories.plans.get(version.name)) for version in later]
        restored = [version.files for version, winner in plans if winner and winner.verb == "restore"]
        unhidden = {path for path, vector in base.files if vector and any((path, vector) not in f for f in restored)}
        return all(
            unhidden & group or any(not group <= live_paths for live_paths in paths) for group in stories.groups[name]
        )
    return any(not base.files.keys() <= version.files.keys() for version in later)


def _affects_rows(before: Properties, after: Properties) -> bool:
    """Whether the columns or the constraints have changed, not only other properties or the description."""
    return before[COLUMNS] != after[COLUMNS] or constraints_of(before) != constraints_of(after)


def left_over(archive: Archive, bucket: Bucket) -> list[str]:
    """Data files that no version ever had. (Vacuum deletes the small file of a vector after a lost race.)"""
    data = [
        path
        for path in bucket.objects
        if path.endswith(".parquet") and not path.startswith(("_delta_log/", "_lakehouse/"))
    ]
    return [path for path in data if not archive.was_needed(path)]
