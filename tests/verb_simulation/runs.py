"""One run: a seed makes the table, the actors, their verbs and the faults; the history checks the result."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.operations.optimize import rewrite
from lakehouse_lib.operations.optimize.z_order import deleted_positions
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.simulation.choosers import NO_FAULTS, RATES, FaultRates, Seeded
from tests.simulation.creation import CREATOR
from tests.simulation.hooks import hooks_watched
from tests.simulation.shortcuts import remembered
from tests.simulation.simulation import Simulation, Step
from tests.simulation.store import Bucket
from tests.verb_simulation.actors import SCHEMA, Actor
from tests.verb_simulation.archive import Archive
from tests.verb_simulation.history import Violation
from tests.verb_simulation.judge import judge, left_over
from tests.verb_simulation.numbers import COLUMN
from tests.verb_simulation.store import ParquetStore
from tests.verb_simulation.stories import Stories
from tests.verb_simulation.verbs import ACTS, MEETINGS, OF_PINS, WEIGHTS


@dataclass(frozen=True)
class Plan:
    """All choices of a seed before the first call.

    Attributes:
        seed: seed of the order and the faults.
        has_row_ids: the table has row tracking.
        has_feed: the table has a change data feed.
        has_numbers: the table has an identity column.
        has_pins: versions are pinned, and the log is cleaned up after a day.
        is_partitioned: the table is partitioned by ``part``.
        writes_vectors: deletes use deletion vectors.
        has_vector_files: deletion vectors are in files, even small ones.
        forgets_places: z_order has no memory to keep the places of rows.
        plans_once: a rewrite that lost each of its groups is not planned again, so that the reason is checked.
        interval: commits between checkpoints.
        creation: the verbs before the actors begin, without faults.
        latest: the same, an hour later, so that actors can restore their versions.
        fault_rates: the faults while the actors work.
        actors: the verbs of each actor.
    """

    seed: int
    has_row_ids: bool
    has_feed: bool
    has_numbers: bool
    has_pins: bool
    is_partitioned: bool
    writes_vectors: bool
    has_vector_files: bool
    forgets_places: bool
    plans_once: bool
    interval: int
    creation: tuple[str, ...]
    latest: tuple[str, ...]
    fault_rates: FaultRates
    actors: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass
class Report:
    """The result of a run.

    Attributes:
        violation: the guarantee that was broken, or None.
        outcomes: the outcomes of the actors' verbs.
        history: every call.
    """

    versions: int = 0
    violation: str | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    history: list[Step] = field(default_factory=list)


def plan_of(seed: int, verbs: Sequence[str] = ()) -> Plan:
    """The plan of a seed, whose actors run only ``verbs`` if there are any."""
    dice = random.Random(f"{seed} verbs")
    # With all verbs, the few verbs that must meet seldom do.
    usual = [verb for verb in ACTS if verb not in OF_PINS]
    some = dice.sample(usual, dice.randint(2, 4))
    drawn = dice.choices((usual, some, *MEETINGS), (2, 4, *[1] * len(MEETINGS)))[0]
    pins = random.Random(f"{seed} pins")
    has_pins = bool({*verbs} & {*OF_PINS}) if verbs else pins.random() < 0.2
    verbs = verbs or drawn
    weights = [WEIGHTS[verb] for verb in verbs]
    latest = ["append"] + ["mark"] * dice.choice((0, 0, 1, 2))
    if has_pins:  # a version whose files a vacuum may delete, if it is not pinned
        latest += [pins.choice(("delete", "update", "compact")), *pins.choice(([], ["wait"], ["wait"], ["days"]))]
    people = [f"actor{number}" for number in range(1, 1 + dice.choice((2, 2, 3, 3, 4)))]
    return Plan(
        seed,
        has_row_ids=dice.random() < 0.4,
        has_feed=random.Random(f"{seed} feed").random() < 0.5,
        has_numbers=random.Random(f"{seed} numbers").random() < 0.4,
        has_pins=has_pins,
        is_partitioned=dice.random() < 0.4,
        writes_vectors=random.Random(f"{seed} vectors").random() < 0.5,
        has_vector_files=dice.random() < 0.5,
        forgets_places=dice.random() < 0.3,
        plans_once=random.Random(f"{seed} patience").random() < 0.5,
        interval=dice.choice((1, 2, 3, 100, 100)),
        creation=("append",) * dice.randint(1, 3),
        latest=tuple(latest),
        fault_rates=dice.choices([fault_rates for _, fault_rates in RATES], [weight for weight, _ in RATES])[0],
        actors=(
            *((name, tuple(dice.choices(verbs, weights, k=dice.randint(1, 3)))) for name in people),
            *(_keepers(pins) if has_pins else ()),
        ),
    )


def _keepers(dice: random.Random) -> list[tuple[str, tuple[str, ...]]]:
    """An actor that pins versions, and one that deletes what no version needs."""
    pins = ["pin", *dice.choices(("pin", "release", "wait", "days"), (3, 1, 1, 1), k=dice.randint(0, 2))]
    deletions = dice.choices(("vacuum", "lite", "cleanup", "checkpoint", "wait", "days"), k=dice.randint(1, 3))
    return [("keeper1", tuple(pins)), ("keeper2", tuple(deletions))]


def run(plan: Plan | int) -> Report:
    """Run the actors of a plan, or of a seed."""
    if isinstance(plan, int):
        plan = plan_of(plan)
    chooser = Seeded(f"{plan.seed} verbs", NO_FAULTS)
    simulation = Simulation(chooser, f"{plan.seed} verbs")
    archive = Archive(simulation)
    bucket = Bucket(archive.watch)
    stories = Stories(archive)
    creator, *people = (
        Actor(name, ParquetStore(simulation, bucket, name), number, stories)
        for number, name in enumerate((CREATOR, *(name for name, _ in plan.actors)))
    )

    def prepare() -> None:
        _create(creator.store, plan)
        _work(creator, plan.creation, plan.seed)

    def live(person: Actor, verbs: Sequence[str]) -> Callable[[], None]:
        return lambda: _work(person, verbs, plan.seed)

    def is_explained(error: DeltaError, root: str) -> bool:
        table = error.table or root
        return next(actor for actor in (creator, *people) if actor.store.root == table).is_explained(error)

    report = Report(history=simulation.history)
    bounds = mock.patch.multiple(deletion_vector, _INLINE_BYTES=0 if plan.has_vector_files else 1 << 10)
    memory = mock.patch.multiple(deleted_positions, _REMEMBERED_ROWS=0 if plan.forgets_places else 1 << 24)
    patience = mock.patch.multiple(rewrite, _PATIENCE_SECONDS=0.0 if plan.plans_once else 60.0)
    attempts = mock.patch.multiple(rewrite, _ATTEMPTS=1 if plan.plans_once else 3)
    with hooks_watched(is_explained), remembered(), bounds, memory, patience, attempts:
        try:
            simulation.run({CREATOR: prepare})
            simulation.sleep_for_hours(
                1
            )  # so that no stale listing shows the table without the properties of this plan
            simulation.run({CREATOR: lambda: _work(creator, plan.latest, f"{plan.seed} latest")})
            chooser.fault_rates = plan.fault_rates
            simulation.run(
                {person.name: live(person, verbs) for person, (_, verbs) in zip(people, plan.actors, strict=True)}
            )
            chooser.fault_rates = NO_FAULTS
            store = ParquetStore(simulation, bucket, "auditor")
            report.versions = len(judge(archive, store, stories))
            if plan.fault_rates is NO_FAULTS and (left := left_over(archive, bucket)):
                raise Violation(f"there was no fault, but these files are left over: {left}")
        except Violation as error:
            report.violation = str(error)
        except Exception:  # a bug may show as any error
            report.violation = traceback.format_exc()
    report.outcomes = Counter(outcome for person in people for outcome in person.outcomes)
    return report


def _create(store: ParquetStore, plan: Plan) -> None:
    """Create a table that supports deletion vectors; our deletes use them if the plan says so."""
    properties = {
        "delta.checkpointInterval": str(plan.interval),
        "delta.deletedFileRetentionDuration": "interval 1 hours",
        "delta.enableRowTracking": str(plan.has_row_ids).lower(),
        "delta.enableChangeDataFeed": str(plan.has_feed).lower(),
        **({"delta.logRetentionDuration": "interval 1 days"} if plan.has_pins else {}),
    }
    partition_by = ["part"] if plan.is_partitioned else []
    schema = Schema([*Schema.from_arrow(SCHEMA).fields, *([COLUMN] if plan.has_numbers else [])])
    create_table(store, schema, partition_by=partition_by, configuration=properties)
    snapshot = load_snapshot(store)
    transaction = OptimisticTransaction(snapshot, store, "UPGRADE PROTOCOL", {})
    features = {"appendOnly", "invariants", "deletionVectors"}
    features |= {"rowTracking", "domainMetadata"} if plan.has_row_ids else set()
    features |= {"changeDataFeed"} if plan.has_feed else set()
    features |= {"identityColumns"} if plan.has_numbers else set()
    transaction.set_protocol(Protocol(3, 7, frozenset({"deletionVectors"}), frozenset(features)))
    if plan.writes_vectors:
        enabled = {**snapshot.configuration, "delta.enableDeletionVectors": "true"}
        transaction.set_metadata(replace(snapshot.metadata, configuration=enabled))
    assert isinstance(transaction.commit(), Committed)


def _work(actor: Actor, verbs: Sequence[str], seed: int | str) -> None:
    for number, verb in enumerate(verbs):
        actor.do(verb, ACTS[verb], f"{seed} {actor.name} {number}")
