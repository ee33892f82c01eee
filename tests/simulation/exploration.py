"""All orders of a few actors' calls, without orders that differ only by independent calls.

The search is depth first, and runs the actors again from the beginning for every order. Sleep sets (Godefroid 1996)
leave out orders that only swap independent calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from unittest import mock

from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import optimistic_transaction
from tests.simulation.actors import Actor
from tests.simulation.choosers import NO_FAULTS, Seeded
from tests.simulation.creation import CREATOR
from tests.simulation.hooks import hooks_watched
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.runs import audit
from tests.simulation.shortcuts import remembered
from tests.simulation.simulation import Call, FaultPlan, Simulation, Step
from tests.simulation.store import Bucket, SimulatedStore
from tests.simulation.traces import independent, shape

_HOUR = 3_600_000.0


@dataclass(frozen=True)
class Scenario:
    """A table and a few actors, whose orders are explored.

    Args:
        name: the name of the pair or triple.
        actors: the verbs of each actor, on a version that it has open.
        creation: the verbs that create the table.
        with_hooks: whether post-commit hooks (checksum, checkpoint, cleanup) run.
        version: the open version of the actors; default: the last one.
        others_clean_up: whether another engine deletes commits as soon as a checkpoint covers them.
    """

    name: str
    actors: Mapping[str, Callable[[Actor], None]]
    creation: Callable[[Actor], None]
    reorders_appends: bool = False
    with_hooks: bool = True
    version: int | None = None
    others_clean_up: bool = False


@dataclass(frozen=True)
class Fault:
    """The number of an actor's call, from 0, and its fault plan."""

    actor: str
    number: int
    fault_plan: FaultPlan


@dataclass
class Exploration:
    """The result of an exploration.

    Attributes:
        orders: orders that were run to the end; ``abandoned`` orders would only have repeated one of them.
        shapes: shapes of these orders; as many as orders, if none was run twice.
        outcomes: each combination of the actors' outcomes, by name, with the number of orders that led to it.
        violation: the first violation and the calls that led to it, or None.
        calls: the most calls that each actor made.
        is_complete: whether all orders were run.
    """

    orders: int = 0
    abandoned: int = 0
    shapes: set[int] = field(default_factory=set)
    outcomes: Counter[tuple[str, ...]] = field(default_factory=Counter)
    violation: tuple[str, list[Step]] | None = None
    calls: Counter[str] = field(default_factory=Counter)
    is_complete: bool = False


class _Repeated(Exception):
    """Every possible next call would repeat an order that was run already."""


@dataclass
class _Turn:
    calls: list[Call]
    chosen: Call
    sleeping: dict[str, Call]


class _Search:
    """A chooser that leads to an order that was not run yet."""

    def __init__(self, fault: Fault | None, *, reduce: bool) -> None:
        self._turns: list[_Turn] = []
        self._at = 0
        self._fault = fault
        self._reduce = reduce
        self.made: Counter[str] = Counter()

    def begin(self) -> None:
        self._at = 0
        self.made.clear()

    def actor(self, calls: list[Call]) -> int:
        if self._at == len(self._turns):
            sleeping: dict[str, Call] = {}
            if self._turns and self._reduce:
                last = self._turns[-1]
                sleeping = {name: call for name, call in last.sleeping.items() if independent(call, last.chosen)}
            awake = [call for call in calls if call.actor not in sleeping]
            if not awake:
                raise _Repeated
            self._turns.append(_Turn(calls, awake[0], sleeping))
        turn = self._turns[self._at]
        self._at += 1
        return calls.index(turn.chosen)

    def fault_plan(self, call: Call) -> FaultPlan:
        number = self.made[call.actor]
        self.made[call.actor] += 1
        fault = self._fault
        if fault is not None and (call.actor, number) == (fault.actor, fault.number):
            late = fault.fault_plan.late and call.verb in ("put", "delete")
            return fault.fault_plan._replace(late=late)
        return FaultPlan()

    def advance(self) -> bool:
        """Go to the next order; False if there is none."""
        while self._turns:
            turn = self._turns[-1]
            turn.sleeping[turn.chosen.actor] = turn.chosen
            awake = [call for call in turn.calls if call.actor not in turn.sleeping]
            if awake:
                turn.chosen = awake[0]
                return True
            self._turns.pop()
        return False


class _Stage:
    """A table in the state that the actors find, for one run after the other."""

    def __init__(self, scenario: Scenario) -> None:
        simulation = Simulation(Seeded(scenario.name, NO_FAULTS), scenario.name)
        ledger = Ledger(
            lambda: simulation.now,
            Terms(_HOUR, 24 * _HOUR, scenario.reorders_appends, others_clean_up=scenario.others_clean_up),
        )
        bucket = Bucket(ledger.watch)
        creator = Actor(CREATOR, SimulatedStore(simulation, bucket, CREATOR), ledger)
        with hooks_watched(lambda *_: False), remembered():
            simulation.run({CREATOR: lambda: scenario.creation(creator)})
        self.is_in_trouble: Callable[[str], bool] = lambda _: False
        self._scenario, self._ledger, self._bucket, self._now = scenario, ledger, bucket, simulation.now + 60_000

    def play(self, search: _Search) -> tuple[Simulation, dict[str, Actor]]:
        """Run the actors in the order of ``search``. An error is raised with the run's history."""
        search.begin()
        simulation = Simulation(search, self._scenario.name, has_time=False)
        simulation.now = self._now
        ledger = self._ledger.copy(lambda: simulation.now)
        bucket = Bucket(ledger.watch)
        bucket.objects = dict(self._bucket.objects)
        actors: dict[str, Actor] = {}
        self.is_in_trouble = lambda root: any(
            actor.store.trouble for actor in actors.values() if actor.store.root == root
        )
        CACHE.clear()  # otherwise a run would call the store less often than the run before
        for name in self._scenario.actors:
            actors[name] = Actor(name, SimulatedStore(simulation, bucket, name), ledger)
            actors[name].snapshot = (
                load_snapshot(actors[name].store, self._scenario.version) if bucket.objects else None
            )
            actors[name].retries = (None,)
        auditor = Actor("auditor", SimulatedStore(simulation, bucket, "auditor"), ledger)
        try:
            simulation.run({name: lambda name=name: self._scenario.actors[name](actors[name]) for name in actors})  # type: ignore[misc]
            simulation.chooser = Seeded(0, NO_FAULTS)
            length = len(simulation.history)
            simulation.run({"auditor": lambda: audit(auditor)})
            del simulation.history[length:]
        except _Repeated:
            raise
        except Exception as error:
            raise _Failure(str(error) if isinstance(error, Violation) else repr(error), simulation.history) from error
        return simulation, actors


class _Failure(Exception):
    def __init__(self, what: str, history: list[Step]) -> None:
        super().__init__(what)
        self.what, self.history = what, history


def explore(
    scenario: Scenario, fault: Fault | None = None, *, reduce: bool = True, limit: int | None = None
) -> Exploration:
    """Run the scenario in all orders, or in the first ``limit``; stop at the first violation.

    Args:
        fault: the fault in each order.
        reduce: leave out orders that only swap independent calls.
    """
    stage, search, result = _Stage(scenario), _Search(fault, reduce=reduce), Exploration()
    hooks: AbstractContextManager[object] = (
        nullcontext() if scenario.with_hooks else mock.patch.object(optimistic_transaction, "run_hooks")
    )
    with hooks_watched(lambda _, root: stage.is_in_trouble(root)), remembered(), hooks:
        while limit is None or result.orders < limit:
            try:
                simulation, actors = stage.play(search)
                result.orders += 1
                result.shapes.add(shape([step.call for step in simulation.history]))
                result.outcomes[tuple(outcome for actor in actors.values() for outcome in actor.outcomes)] += 1
            except _Repeated:
                result.abandoned += 1
            except _Failure as failure:
                result.violation = (failure.what, list(failure.history))
                return result
            result.calls |= search.made
            if not search.advance():
                result.is_complete = True
                break
    return result
