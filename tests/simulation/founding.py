"""The table that actors find. An actor creates it without faults in a separate world, once for all equal plans."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse_lib.errors import DeltaError
from tests.simulation.actors import Actor
from tests.simulation.choosers import CALM, Seeded
from tests.simulation.hooks import hooks_watched
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.shortcuts import Memory, remembered
from tests.simulation.store import Bucket, SimulatedStore, Stored
from tests.simulation.world import Step, World


class Work(NamedTuple):
    """A verb of an actor, and the seed of its choices."""

    verb: str
    seed: str


@dataclass(frozen=True)
class Founding:
    """The choices that determine the table.

    Attributes:
        configuration: the table's properties.
        works: the verbs that are run on it.
    """

    configuration: tuple[tuple[str, str], ...]
    terms: Terms
    works: tuple[Work, ...]


@dataclass(frozen=True)
class Founded:
    """A finished table, the number of calls that it took, and the objects that were parsed meanwhile."""

    objects: dict[str, Stored]
    ledger: Ledger
    now: float
    history: list[Step]
    memory: Memory


class FoundingError(Exception):
    """A violation happened before the actors began."""

    def __init__(self, what: str, history: list[Step]) -> None:
        super().__init__(what)
        self.what, self.history = what, history


def found_table(founding: Founding) -> Founded:
    """Create the table.

    Raises:
        FoundingError: an error without a fault.
    """
    world = World(Seeded("founding", CALM), "founding")
    ledger = Ledger(lambda: world.now, founding.terms)
    bucket = Bucket(ledger.watch)
    founder = Actor("founder", SimulatedStore(world, bucket, "founder"), ledger)

    def work() -> None:
        founder.create(dict(founding.configuration))
        for step in founding.works:
            founder.do(*step)

    with hooks_watched(_is_never_explained), remembered() as memory:
        try:
            world.run({founder.name: work})
        except Violation as error:
            raise FoundingError(str(error), world.history) from error
        except Exception as error:  # a bug may show as any error
            raise FoundingError(traceback.format_exc(), world.history) from error
        return Founded(bucket.objects, ledger, world.now, world.history, memory)


def _is_never_explained(_: DeltaError, __: str) -> bool:
    return False
