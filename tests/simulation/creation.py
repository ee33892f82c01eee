"""The table that actors find. An actor creates it without faults in a separate run, once for all equal plans."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse_lib.errors import DeltaError
from tests.simulation.actors import Actor
from tests.simulation.choosers import NO_FAULTS, Seeded
from tests.simulation.hooks import hooks_watched
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.shortcuts import Memory, remembered
from tests.simulation.simulation import Simulation, Step
from tests.simulation.store import Bucket, SimulatedStore, Stored

#: The name of the actor that creates the table. It seeds random choices: another name would change every run.
CREATOR = "founder"
_SEED = "founding"


class Work(NamedTuple):
    """A verb of an actor, and the seed of its choices."""

    verb: str
    seed: str


@dataclass(frozen=True)
class Creation:
    """The choices that determine the table.

    Attributes:
        configuration: the table's properties.
        works: the verbs that are run on it.
    """

    configuration: tuple[tuple[str, str], ...]
    terms: Terms
    works: tuple[Work, ...]


@dataclass(frozen=True)
class CreatedTable:
    """A finished table, the number of calls that it took, and the objects that were parsed meanwhile."""

    objects: dict[str, Stored]
    ledger: Ledger
    now: float
    history: list[Step]
    memory: Memory


class CreationError(Exception):
    """A violation happened before the actors began."""

    def __init__(self, what: str, history: list[Step]) -> None:
        super().__init__(what)
        self.what, self.history = what, history


def create_initial_table(creation: Creation) -> CreatedTable:
    """Create the table.

    Raises:
        CreationError: an error without a fault.
    """
    simulation = Simulation(Seeded(_SEED, NO_FAULTS), _SEED)
    ledger = Ledger(lambda: simulation.now, creation.terms)
    bucket = Bucket(ledger.watch)
    creator = Actor(CREATOR, SimulatedStore(simulation, bucket, CREATOR), ledger)

    def work() -> None:
        creator.create(dict(creation.configuration))
        for step in creation.works:
            creator.do(*step)

    with hooks_watched(_is_never_explained), remembered() as memory:
        try:
            simulation.run({creator.name: work})
        except Violation as error:
            raise CreationError(str(error), simulation.history) from error
        except Exception as error:  # a bug may show as any error
            raise CreationError(traceback.format_exc(), simulation.history) from error
        return CreatedTable(bucket.objects, ledger, simulation.now, simulation.history, memory)


def _is_never_explained(_: DeltaError, __: str) -> bool:
    return False
