"""Pairs and triples of actors, for which all orders are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakehouse_lib.protocol.actions import Transaction
from tests.simulation.actors import Actor
from tests.simulation.exploration import Exploration, Fault, Scenario, explore
from tests.simulation.other_engine import AT_ONCE, overtake
from tests.simulation.simulation import FaultPlan, Step

Act = Callable[[Actor], None]

_PROPERTIES = {
    "delta.checkpointInterval": "1000",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.logRetentionDuration": "interval 24 hours",
}
#: Every fault that a call may have.
FAULT_PLANS: Mapping[str, FaultPlan] = {
    "lost": FaultPlan(0, "error"),
    "unanswered": FaultPlan(1, "error"),
    "late": FaultPlan(0, "error", late=True),
    "twice": FaultPlan(2),
    "crashed before": FaultPlan(0, "crash"),
    "crashed after": FaultPlan(1, "crash"),
    "crashed, late": FaultPlan(0, "crash", late=True),
}


def _append(key: int) -> Act:
    def act(actor: Actor) -> None:
        actor.change("append", actor.at_hand, rows={f"{actor.name}'s": (key, 0)})

    return act


def _by_key(kind: str, key: int) -> Act:
    return lambda actor: actor.change(kind, actor.at_hand, key=key)


def _insert(key: int | None, into: int) -> Act:
    return lambda actor: actor.change("insert", actor.at_hand, key=key, rows={f"{actor.name}'s": (into, 0)})


def _opened_anew(act: Act) -> Act:
    def look(actor: Actor) -> None:
        actor.snapshot = None
        act(actor)

    return look


def _deliver(actor: Actor) -> None:
    rows = {f"{actor.name}'s": (0, 0)}
    actor.change("append", actor.at_hand, rows=rows, transaction=Transaction("stream", 7))


def _compact(actor: Actor) -> None:
    actor.change("compact", actor.at_hand)


def _overwrite(actor: Actor) -> None:
    actor.change("overwrite", actor.at_hand, rows={f"{actor.name}'s": (2, 0)})


def _count(actor: Actor) -> None:
    actor.change("count", actor.at_hand)


def _create(actor: Actor) -> None:
    actor.create_if_absent(_PROPERTIES)


def _attempted(kind: str, act: Act) -> Act:
    return lambda actor: actor.attempt(kind, lambda: act(actor))


def _scenario(acts: str, *, interval: int = 1000, reorders_appends: bool = False, with_hooks: bool = True) -> Scenario:
    """A scenario by its name: the verbs of each actor, separated by ``|``."""
    kinds: dict[str, Act] = {
        "append 0": _append(0),
        "append 1": _append(1),
        "delete 0": _by_key("delete", 0),
        "delete 1": _by_key("delete", 1),
        "increment 0": _by_key("increment", 0),
        "insert 1 from 0": _insert(0, 1),
        "insert 0 from 1": _insert(1, 0),
        "insert 1 from all, opened anew": _opened_anew(_insert(None, 1)),
        "deliver": _deliver,
        "compact": _compact,
        "overwrite": _overwrite,
        "count": _count,
        "checkpoint": Actor.checkpoint,
        "vacuum": Actor.vacuum,
        "create": _create,
    }
    chosen = acts.split(" | ")
    level = "WriteSerializable" if reorders_appends else "Serializable"
    properties = {**_PROPERTIES, "delta.checkpointInterval": str(interval), "delta.isolationLevel": level}

    def prepare(creator: Actor) -> None:
        if "create" in chosen:
            return
        creator.create(properties)
        for key in (0, 1):
            creator.snapshot = None
            creator.change("append", creator.at_hand, rows={f"creator's {key}": (key, 0)})

    suffix = f", a checkpoint every {interval}" if interval != 1000 else ""
    return Scenario(
        acts + suffix + (", WriteSerializable" if reorders_appends else ""),
        {name: _attempted(kind, kinds[kind]) for name, kind in zip("abc", chosen, strict=False)},
        prepare,
        reorders_appends,
        with_hooks,
    )


def _commits_on_an_expired_version() -> Scenario:
    """The open version is older than the log's retention, and a cleanup deletes it. The name of its successor becomes
    free, but must not be used a second time.
    """

    def prepare(creator: Actor) -> None:
        creator.create(_PROPERTIES)
        for number in range(6):
            creator.snapshot = None
            if number == 3:
                creator.checkpoint()
                creator.store.simulation.sleep_for_hours(50)
                creator.snapshot = None
            creator.change("append", creator.at_hand, rows={f"creator's {number}": (0, 0)})

    def append(actor: Actor) -> None:
        actor.change("append", actor.snapshot, rows={f"{actor.name}'s": (0, 0)})

    actors = {"a": _attempted("append", append), "b": _attempted("cleanup", Actor.cleanup)}
    return Scenario("append 0 on an expired version | cleanup", actors, prepare, with_hooks=False, version=1)


def _cleans_up_to_a_torn_checkpoint() -> Scenario:
    """The newest checkpoint before the cutoff has lost half its bytes, so its version can only be read from the
    commits."""

    def prepare(creator: Actor) -> None:
        creator.create(_PROPERTIES)
        for number in range(4):
            creator.snapshot = None
            creator.change("append", creator.at_hand, rows={f"creator's {number}": (0, 0)})
        creator.do("tear", "torn")
        creator.store.simulation.sleep_for_hours(50)

    actors = {"a": _attempted("append", _append(0)), "b": _attempted("cleanup", Actor.cleanup)}
    return Scenario("append 0 | cleanup up to a torn checkpoint", actors, prepare)


def _commits_beside_another_engine() -> Scenario:
    """The retention is zero, and another engine's cleanup frees the name of the next commit below its checkpoint:
    nothing may be reported as committed there.
    """

    def prepare(creator: Actor) -> None:
        creator.create({**_PROPERTIES, **AT_ONCE})
        creator.change("append", creator.at_hand, rows={"creator's": (0, 0)})

    actors = {"a": _attempted("append", _append(0)), "b": _attempted("overtake", overtake)}
    return Scenario("append 0 | overtake", actors, prepare, with_hooks=False, others_clean_up=True)


PAIRS = (
    _scenario("append 0 | append 0"),
    _scenario("delete 0 | append 0"),
    _scenario("delete 0 | append 0", reorders_appends=True),
    _scenario("delete 0 | append 1"),
    _scenario("delete 0 | delete 1"),
    _scenario("increment 0 | increment 0"),
    _scenario("increment 0 | delete 0"),
    _scenario("compact | delete 0"),
    _scenario("compact | append 0"),
    _scenario("compact | compact"),
    _scenario("overwrite | append 0"),
    _scenario("overwrite | delete 1"),
    _scenario("deliver | deliver"),
    _scenario("count | count"),
    _scenario("count | append 0"),
    _scenario("create | create"),
    _scenario("append 0 | append 1", interval=1),
    _scenario("append 0 | checkpoint"),
    _scenario("checkpoint | checkpoint"),
    _scenario("delete 0 | vacuum"),
    _commits_on_an_expired_version(),
    _cleans_up_to_a_torn_checkpoint(),
    _commits_beside_another_engine(),
    _scenario("insert 1 from 0 | delete 0"),
    _scenario("insert 1 from 0 | compact"),
    _scenario("insert 1 from 0 | insert 0 from 1"),
    _scenario("insert 1 from 0 | insert 0 from 1", reorders_appends=True),
    _scenario("insert 1 from 0 | append 0", reorders_appends=True),
)
#: Scenarios without post-commit hooks, which would add some thousand orders to each.
TRIPLES = tuple(
    _scenario(acts, reorders_appends=reorders, with_hooks=False)
    for acts, reorders in (
        ("append 0 | append 0 | append 1", False),
        ("deliver | deliver | deliver", False),
        ("delete 0 | append 0 | compact", False),
        ("delete 0 | append 0 | append 0", True),
        ("increment 0 | increment 0 | increment 0", False),
        ("increment 0 | delete 0 | append 1", False),
        ("overwrite | delete 0 | append 1", False),
        ("count | append 0 | delete 1", False),
        ("count | append 0 | count", False),
        ("create | create | create", False),
        ("delete 0 | append 0 | insert 1 from all, opened anew", True),
        ("insert 1 from 0 | append 0 | delete 1", True),
    )
)


@dataclass(frozen=True)
class Explored:
    """The results of a scenario's orders.

    Without a fault, and with each fault of a call, ``faulty_orders`` in all. Of ``faults``, ``cut`` faults have orders
    that were not run. ``violations`` have the fault, the broken guarantee, and the calls that led to it.
    """

    name: str
    without_fault: Exploration
    faulty_orders: int
    faults: int
    cut: int
    violations: list[tuple[Fault | None, str, list[Step]]]


def with_one_fault(scenario: Scenario, *, limit: int | None = None) -> Iterator[tuple[Fault, Exploration]]:
    """Run all orders again (the first ``limit`` of each), with each fault at each call that an actor can make."""
    without_fault = explore(scenario, limit=limit)
    for actor, most in sorted(without_fault.calls.items()):
        for number in range(most):
            for fault_plan in FAULT_PLANS.values():
                fault = Fault(actor, number, fault_plan)
                yield fault, explore(scenario, fault, limit=limit)


def explored(number: int, limit: int) -> Explored:
    """The results of the pair or triple with this number, for at most ``limit`` orders; pairs also with faults, for the
    first ``limit / 20`` orders of each.
    """
    scenario = (*PAIRS, *TRIPLES)[number]
    without_fault, orders, faults, cut, violations = explore(scenario, limit=limit), 0, 0, 0, []
    if without_fault.violation is not None:
        violations.append((None, *without_fault.violation))
    if scenario in PAIRS:
        for fault, exploration in with_one_fault(scenario, limit=max(limit // 20, 1)):
            orders, faults = orders + exploration.orders, faults + 1
            cut += not exploration.is_complete and exploration.violation is None
            if exploration.violation is not None:
                violations.append((fault, *exploration.violation))
    return Explored(scenario.name, without_fault, orders, faults, cut, violations)
