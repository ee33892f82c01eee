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
from tests.simulation.choosers import CALM, WEATHERS, Seeded, Weather
from tests.simulation.founding import Founded, Founding, FoundingError, Work, found_table
from tests.simulation.hooks import hooks_watched
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.other_engine import AT_ONCE, overtake
from tests.simulation.shortcuts import remembered
from tests.simulation.store import Bucket, SimulatedStore
from tests.simulation.traces import shape
from tests.simulation.world import Step, World

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
        founding: the verbs before the actors begin, without faults.
        held: actor -> the version of that time that it has open and uses first.
        remade: the verbs on a new table that replaces the deleted table; None: the table is not replaced.
        age: age of the table in hours, when the actors begin.
        weather: the faults while the actors work.
        actors: the verbs of each actor.
        others_clean_up: one actor is another engine, which deletes commits as soon as a checkpoint covers them.
    """

    seed: int | str
    interval: int
    has_sidecars: bool
    reorders_appends: bool
    has_times: bool
    has_row_ids: bool
    founding: tuple[Work, ...]
    held: tuple[tuple[str, int], ...]
    remade: tuple[Work, ...] | None
    age: float
    weather: Weather
    actors: tuple[tuple[str, tuple[Work, ...]], ...]
    others_clean_up: bool = False


@dataclass
class Report:
    """The result of a run.

    Attributes:
        violation: the guarantee that was broken, or None.
        digest: a digest of every call and its fate; equal for equal runs.
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
    """The world of a seed, whose actors run only ``verbs`` if there are any."""
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
    founding, held = ["append"] * dice.randint(0, 2), {}
    people = {name: works(name, dice.randint(1, 3)) for name in actors}
    is_old = "cleanup" in verbs and more.random() < 0.2
    if is_old:  # an actor cleans up files and commits that others still use
        founding = ["append"] * more.randint(4, 5)
        founding.insert(more.randint(3, len(founding)), more.choice(("checkpoint", "checkpoint", "tear")))
        held = {name: more.randint(0, 2) for name in actors[1:]}
        people[actors[0]] = (Work("cleanup", f"{seed} cleanup"), *people[actors[0]][1:])
    remade = None
    if not is_old and more.random() < 0.04:
        founding = ["append"] * more.randint(0, 3)
        held = {name: more.randint(0, len(founding)) for name in actors}
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
        for number, verb in enumerate(founding)
    )
    weathers = [weather for _, weather in WEATHERS]
    return Plan(
        seed,
        interval=dice.choice((1, 2, 3, 100, 100, 100, 100, 100, 100)),
        has_sidecars=dice.random() < 0.3,
        reorders_appends=dice.random() < 0.25,
        has_times=more.random() < 0.3,
        has_row_ids=more.random() < 0.3,
        founding=works_before,
        held=tuple(held.items()),
        remade=remade,
        age=50 if is_old else dice.choice((0.01, 0.01, 2, 50)),  # objects older than two seconds are cached
        weather=dice.choices(weathers, [weight for weight, _ in WEATHERS])[0],
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


def founding_of(plan: Plan) -> Founding:
    terms = Terms(
        _RETENTION_HOURS * _HOUR,
        _LOG_RETENTION_HOURS * _HOUR,
        plan.reorders_appends,
        plan.has_times,
        plan.has_row_ids,
        plan.others_clean_up,
    )
    return Founding(tuple(configuration_of(plan).items()), terms, plan.founding)


def run(plan: Plan | int, made: Callable[[Founding], Founded] = found_table) -> Report:
    """Run a world.

    Args:
        made: tables at the beginning of worlds; a caller that runs many worlds of the same code may keep them.
    """
    if isinstance(plan, int):
        plan = plan_of(plan)
    founding = founding_of(plan)
    try:
        start = made(founding)
    except FoundingError as error:
        calls = [step.call for step in error.history]
        return Report(len(calls), 0, error.what, digest_of(error.history), shape(calls), history=error.history)
    chooser = Seeded(plan.seed, CALM)
    world = World(chooser, plan.seed)
    world.now, world.history = start.now, list(start.history)
    ledger = start.ledger.copy(lambda: world.now)
    bucket = Bucket(ledger.watch)
    bucket.objects = dict(start.objects)

    def actor(name: str) -> Actor:
        return Actor(name, SimulatedStore(world, bucket, name), ledger)

    people = [(actor(name), works) for name, works in plan.actors]
    founder, auditor = actor("founder"), actor("auditor")

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

    def make_anew() -> None:
        nonlocal ledger
        ledger = Ledger(lambda: world.now, founding.terms)
        bucket.objects.clear()
        bucket.watch = ledger.watch
        for actor in (founder, auditor, *(person for person, _ in people)):
            actor.ledger = ledger
        founder.create(configuration_of(plan))
        for work in plan.remade or ():
            founder.do(*work)

    violation = None
    people_by_root = {actor.store.root: actor for actor in (founder, auditor, *(person for person, _ in people))}

    def is_explained(error: DeltaError, root: str) -> bool:
        if isinstance(error, RetentionError):
            return error.table is not None and people_by_root[error.table].was_ahead
        return people_by_root[root].store.trouble

    with hooks_watched(is_explained), remembered(start.memory):
        try:
            world.run({"founder": open_held})
            world.sleep_for_hours(plan.age)
            if plan.remade is not None:
                world.run({"founder": make_anew})
            chooser.weather = plan.weather
            world.run({person.name: live(person, works) for person, works in people})
            chooser.weather = CALM
            world.run({"auditor": lambda: audit(auditor)})
        except Violation as error:
            violation = str(error)
        except Exception:  # a bug may show as any error
            violation = traceback.format_exc()
    return Report(
        len(world.history),
        len(ledger.states),
        violation,
        digest_of(world.history),
        shape([step.call for step in world.history]),
        Counter(outcome for person, _ in people for outcome in person.outcomes),
        world.history,
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
    if plan.founding:
        yield replace(plan, founding=plan.founding[1:])
    if plan.remade:
        yield replace(plan, remade=plan.remade[1:])
    if plan.held:
        yield replace(plan, held=plan.held[1:])
    if plan.weather is not CALM:
        yield replace(plan, weather=CALM)
        for fault, chance in vars(plan.weather).items():
            if chance:
                yield replace(plan, weather=replace(plan.weather, **{fault: 0}))
