"""A writer of another engine, which cleans up the log without waiting for midnight, as delta-rs does."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.log import file_names
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.snapshot import load_snapshot
from tests.simulation.actors import Actor
from tests.simulation.choosers import NO_FAULTS, Seeded
from tests.simulation.simulation import Call, FaultPlan, Simulation
from tests.simulation.store import SimulatedStore

#: Properties of a table that allow this.
AT_ONCE: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 0 seconds",
    "delta.enableExpiredLogCleanup": "false",  # for this library's writers
}


class _Instant(Simulation):
    """The store of the other engine: all its calls take one call of the simulation."""

    def pause(self, call: Call) -> FaultPlan:
        return FaultPlan()


def overtake(actor: Actor) -> None:
    """Make two commits, a checkpoint of the second, and a cleanup of all commits before it, between two calls of
    others."""
    actor.store.meet("overtake", lambda: _overtake(actor))


def _overtake(actor: Actor) -> None:
    instant = _Instant(Seeded(actor.name, NO_FAULTS), actor.name)
    instant.now = actor.store.simulation.now
    name = f"{actor.name}'s other engine after {len(actor.ledger.states)}"
    other = Actor(name, SimulatedStore(instant, actor.store.bucket, actor.name), actor.ledger)
    for number in range(2):
        other.snapshot = None
        other.change("append", other.at_hand, rows={f"{name} {number}": (0, 0)})
    latest = load_snapshot(other.store)
    checkpoint(latest)
    other.store.delete_many([file_names.commit(version) for version in range(latest.version)])
