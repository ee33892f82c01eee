"""The verbs of actors, how often each is chosen, and the groups of verbs that meet in some runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakehouse_lib.snapshot import Snapshot
from tests.verb_simulation import row_verbs, table_verbs
from tests.verb_simulation.actors import Actor

#: What an actor does; None: hours or days pass.
ACTS: Mapping[str, Callable[[Actor, Snapshot, str], None] | None] = {
    "append": row_verbs.append,
    "delete": row_verbs.delete,
    "mark": row_verbs.mark,
    "update": row_verbs.update,
    "merge": row_verbs.merge,
    "insert": row_verbs.insert,
    "correct": row_verbs.correct,
    "overwrite": row_verbs.overwrite,
    "replace": row_verbs.replace,
    "replace partitions": row_verbs.replace_partitions,
    "compact": table_verbs.compact,
    "z_order": table_verbs.z_order,
    "restore": table_verbs.restore,
    "constrain": table_verbs.constrain,
    "unconstrain": table_verbs.unconstrain,
    "alter": table_verbs.alter,
    "checkpoint": table_verbs.checkpoint,
    "vacuum": table_verbs.vacuum,
    "wait": None,
    "pin": table_verbs.pin,
    "release": table_verbs.release,
    "lite": table_verbs.lite,
    "cleanup": table_verbs.cleanup,
    "days": None,
}
#: The verbs of runs with pins.
OF_PINS = ("pin", "release", "lite", "cleanup", "days")
#: How often each is chosen.
WEIGHTS: Mapping[str, int] = {
    "append": 4,
    "delete": 5,
    "mark": 5,
    "update": 5,
    "merge": 4,
    "insert": 3,
    "correct": 3,
    "overwrite": 1,
    "replace": 3,
    "replace partitions": 2,
    "compact": 4,
    "z_order": 3,
    "restore": 4,
    "constrain": 5,
    "unconstrain": 1,
    "alter": 1,
    "checkpoint": 1,
    "vacuum": 1,
    "wait": 1,
    "pin": 4,
    "release": 1,
    "lite": 2,
    "cleanup": 2,
    "days": 2,
}
#: Verbs that meet in some runs; with all verbs, they seldom do.
MEETINGS = (
    ["mark", "compact"],
    ["mark", "z_order"],
    ["mark", "delete"],
    ["delete", "compact", "append"],
    ["update", "compact", "append"],
    ["update", "mark", "delete"],
    ["merge", "delete", "compact"],
    ["merge", "append", "merge"],
    ["insert", "insert", "delete"],
    ["correct", "append", "compact", "update"],
    ["replace", "append", "mark"],
    ["replace partitions", "append", "correct"],
    ["restore", "append", "delete"],
    ["restore", "mark", "compact", "z_order"],
    ["restore", "vacuum", "delete", "wait"],
    ["restore", "constrain", "update", "alter"],
    ["constrain", "append", "update", "delete"],
    ["constrain", "merge", "insert", "unconstrain"],
    ["constrain", "replace", "correct", "compact"],
    ["alter", "append", "compact", "update"],
)
