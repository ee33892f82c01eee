"""One run: a seed makes the table, the actors, their verbs and the faults; the ledger checks the result."""

from __future__ import annotations

import hashlib
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_lib.errors import DeltaError, RetentionError
from lakehouse_lib.snapshot import load_snapshot
from tests.simulation.actors import VERBS, Actor
from tests.simulation.choosers import NO_FAULTS, RATES, FaultRates, Seeded
from tests.simulation.creation import CREATOR, CreatedTable, Creation, CreationError, Work, create_initial_table
from tests.simulation.hooks import hooks_watched
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.other_engine import AT_ONCE, overtake
from tests.simulation.shortcuts import remembered
from tests.simulation.simulation import Simulation, Step
from tests.simulation.store import Bucket, SimulatedStore
from tests.simulation.traces import shape

_HOUR = 3_600_000.0
_RETENTION_HOURS = 1
_LOG_RETENTION_HOURS = 24
#: Verbs next to another engine that cleans up.
_BESIDE_OTHERS = ("append", "increment", "delete", "insert", "overwrite", "compact", "deliver", "count")
#: The variants of the first appends and of the checkpoints.
_VARIANTS = 6


@dataclass(frozen=True)
class Plan:
    """All choices of a seed before the first call.

    Attributes:
        seed: seed of the order and the faults.
        interval: commits between checkpoints.
        has_sidecars: checkpoints follow the V2 spec.
        reorders_appends: the table is WriteSerializable, not Serializable.
        has_times: commits have in-commit timestamps.
        has_row_ids: the table has row tracking.
        creation: the verbs before the actors begin, without faults.
        held: actor -> the version of that time that it has open and uses first.
        remade: the verbs on a new table that replaces the deleted table; None: the table is not replaced.
        age: age of the table in hours, when the actors begin.
        fault_rates: the faults while the actors work.
        actors: the verbs of each actor.
        others_clean_up: one actor is another engine, which deletes commits as soon as a checkpoint covers them.
    """

    seed: int | str
    interval: int
    has_sidecars: bool
    reorders_appends: bool
    has_times: bool
    has_row_ids: bool
    creation: tuple[Work, ...]
    held: tuple[tuple[str, int], ...]
    remade: tuple[Work, ...] | None
    age: float
    fault_rates: FaultRates
    actors: tuple[tuple[str, tuple[Work, ...]], ...]
    others_clean_up: bool = False


@dataclass
class Report:
    """The result of a run.

    Attributes:
        violation: the guarantee that was broken, or None.
        digest: a digest of every call and its fault plan; equal for equal runs.
        shape: equal for runs that differ only by the order of independent calls and by file names.
    """

    calls: int
    versions: int
    violation: str | None
    digest: str
    shape: int
    outcomes: Counter[str] = field(default_factory=Counter)
    history: list[Step] = field(default_factory=list)


def plan_of(seed: int, verbs: Sequence[str] = ()) -> Plan:
    """The plan of a seed, whose actors run only ``verbs`` if there are any."""
    dice = random.Random(f"{seed} plan")
    # With all verbs, the few verbs that must meet seldom do.
    some = list(VERBS) if dice.random() < 0.2 else dice.sample(list(VERBS), dice.randint(2, 5))
    verbs = verbs or some
    weights = [VERBS[verb] for verb in verbs]

    def works(owner: str, count: int) -> tuple[Work, ...]:
        chosen = dice.choices(verbs, weights, k=count)
        return tuple(Work(verb, f"{seed} {owner} {number}") for number, verb in enumerate(chosen))

    actors = [f"actor{number}" for number in range(dice.choice((2, 2, 3, 3, 4)))]
    more = random.Random(f"{seed} features")
    creation, held = ["append"] * dice.randint(0, 2), {}
    people = {name: works(name, dice.randint(1, 3)) for name in actors}
    is_old = "cleanup" in verbs and more.random() < 0.2
    if is_old:  # an actor cleans up files and commits that others still use
        creation = ["append"] * more.randint(4, 5)
        creation.insert(more.randint(3, len(creation)), more.choice(("checkpoint", "checkpoint", "tear")))
        held = {name: more.randint(0, 2) for name in actors[1:]}
        people[actors[0]] = (Work("cleanup", f"{seed} cleanup"), *people[actors[0]][1:])
    remade = None
    if not is_old and more.random() < 0.04:
        creation = ["append"] * more.randint(0, 3)
        held = {name: more.randint(0, len(creation)) for name in actors}
        remade = tuple(Work("append", f"{seed} again {number}") for number in range(more.randint(0, 4)))
    others_clean_up = not is_old and remade is None and random.Random(f"{seed} others").random() < 0.03
    if others_clean_up:
        people = {
            name: tuple(work if work.verb in _BESIDE_OTHERS else work._replace(verb="append") for work in works)
            for name, works in people.items()
        }
        people[actors[0]] = (Work("overtake", f"{seed} overtake"),)
    works_before = tuple(
        # An old table has many appends, of which only the checkpoint differs.
        Work(verb, f"{number} {more.randrange(_VARIANTS) if number < 2 - 2 * is_old or verb != 'append' else ''}")
        for number, verb in enumerate(creation)
    )
    rates = [fault_rates for _, fault_rates in RATES]
    return Plan(
        seed,
        interval=dice.choice((1, 2, 3, 100, 100, 100, 100, 100, 100)),
        has_sidecars=dice.random() < 0.3,
        reorders_appends=dice.random() < 0.25,
        has_times=more.random() < 0.3,
        has_row_ids=more.random() < 0.3,
        creation=works_before,
        held=tuple(held.items()),
        remade=remade,
        age=50 if is_old else dice.choice((0.01, 0.01, 2, 50)),  # objects older than two seconds are cached
        fault_rates=dice.choices(rates, [weight for weight, _ in RATES])[0],
        actors=tuple(people.items()),
        others_clean_up=others_clean_up,
    )


def configuration_of(plan: Plan) -> dict[str, str]:
    """The table's properties."""
    return {
        "delta.checkpointInterval": str(plan.interval),
        "delta.deletedFileRetentionDuration": f"interval {_RETENTION_HOURS} hours",
        "delta.logRetentionDuration": f"interval {_LOG_RETENTION_HOURS} hours",
        "delta.isolationLevel": "WriteSerializable" if plan.reorders_appends else "Serializable",
        "delta.checkpointPolicy": "v2" if plan.has_sidecars else "classic",
        "delta.enableInCommitTimestamps": str(plan.has_times).lower(),
        "delta.enableRowTracking": str(plan.has_row_ids).lower(),
        **(AT_ONCE if plan.others_clean_up else {}),
    }


def creation_of(plan: Plan) -> Creation:
    terms = Terms(
        _RETENTION_HOURS * _HOUR,
        _LOG_RETENTION_HOURS * _HOUR,
        plan.reorders_appends,
        plan.has_times,
        plan.has_row_ids,
        plan.others_clean_up,
    )
    return Creation(tuple(configuration_of(plan).items()), terms, plan.creation)


def run(plan: Plan | int, made: Callable[[Creation], CreatedTable] = create_initial_table) -> Report:
    """Run the actors of a plan, or of a seed.

    Args:
        made: makes the initial table; a caller with many runs of the same code may keep the tables.
    """
    if isinstance(plan, int):
        plan = plan_of(plan)
    creation = creation_of(plan)
    try:
        start = made(creation)
    except CreationError as error:
        calls = [step.call for step in error.history]
        return Report(len(calls), 0, error.what, digest_of(error.history), shape(calls), history=error.history)
    chooser = Seeded(plan.seed, NO_FAULTS)
    simulation = Simulation(chooser, plan.seed)
    simulation.now, simulation.history = start.now, list(start.history)
    ledger = start.ledger.copy(lambda: simulation.now)
    bucket = Bucket(ledger.watch)
    bucket.objects = dict(start.objects)

    def actor(name: str) -> Actor:
        return Actor(name, SimulatedStore(simulation, bucket, name), ledger)

    people = [(actor(name), works) for name, works in plan.actors]
    creator, auditor = actor(CREATOR), actor("auditor")

    def open_held() -> None:
        for name, version in plan.held:
            for person in (person for person, _ in people if person.name == name):
                person.snapshot = load_snapshot(person.store, min(version, len(ledger.states) - 1))
                person.is_held = True

    def live(person: Actor, works: tuple[Work, ...]) -> Callable[[], None]:
        def work() -> None:
            for step in works:
                if step.verb == "overtake":
                    person.attempt(step.verb, lambda: overtake(person))
                else:
                    person.do(*step)

        return work

    def recreate() -> None:
        nonlocal ledger
        ledger = Ledger(lambda: simulation.now, creation.terms)
        bucket.objects.clear()
        bucket.watch = ledger.watch
        for actor in (creator, auditor, *(person for person, _ in people)):
            actor.ledger = ledger
        creator.create(configuration_of(plan))
        for work in plan.remade or ():
            creator.do(*work)

    violation = None
    people_by_root = {actor.store.root: actor for actor in (creator, auditor, *(person for person, _ in people))}

    def is_explained(error: DeltaError, root: str) -> bool:
        if isinstance(error, RetentionError):
            return error.table is not None and people_by_root[error.table].was_ahead
        return people_by_root[root].store.trouble

    with hooks_watched(is_explained), remembered(start.memory):
        try:
            simulation.run({CREATOR: open_held})
            simulation.sleep_for_hours(plan.age)
            if plan.remade is not None:
                simulation.run({CREATOR: recreate})
            chooser.fault_rates = plan.fault_rates
            simulation.run({person.name: live(person, works) for person, works in people})
            chooser.fault_rates = NO_FAULTS
            simulation.run({"auditor": lambda: audit(auditor)})
        except Violation as error:
            violation = str(error)
        except Exception:  # a bug may show as any error
            violation = traceback.format_exc()
    return Report(
        len(simulation.history),
        len(ledger.states),
        violation,
        digest_of(simulation.history),
        shape([step.call for step in simulation.history]),
        Counter(outcome for person, _ in people for outcome in person.outcomes),
        simulation.history,
    )


def audit(auditor: Actor) -> None:
    """Check that versions with a guarantee can be read: the last two, and the oldest."""
    ledger = auditor.ledger
    promised = [number for number in range(len(ledger.states)) if ledger.is_promised(number) and ledger.is_kept(number)]
    for version in dict.fromkeys((*promised[-2:], *promised[:1])):
        auditor.read_version(version)


def digest_of(history: list[Step]) -> str:
    return hashlib.blake2b(repr(history).encode(), digest_size=16).hexdigest()


def without(plan: Plan) -> Iterator[Plan]:
    """Plans with one part less."""
    for number, (name, works) in enumerate(plan.actors):
        rest = (*plan.actors[:number], *plan.actors[number + 1 :])
        if rest:
            yield replace(plan, actors=rest)
        for place in range(len(works)):
            fewer = (*works[:place], *works[place + 1 :])
            if fewer:
                yield replace(plan, actors=(*plan.actors[:number], (name, fewer), *plan.actors[number + 1 :]))
    if plan.creation:
        yield replace(plan, creation=plan.creation[1:])
    if plan.remade:
        yield replace(plan, remade=plan.remade[1:])
    if plan.held:
        yield replace(plan, held=plan.held[1:])
    if plan.fault_rates is not NO_FAULTS:
        yield replace(plan, fault_rates=NO_FAULTS)
        for fault, chance in vars(plan.fault_rates).items():
            if chance:
                yield replace(plan, fault_rates=replace(plan.fault_rates, **{fault: 0}))
