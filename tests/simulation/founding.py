"""The table that actors find: made in good weather by one of their kind, in a world of its own, so that whatever begins
alike has to be made once."""

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
    """A verb of an actor's, and the seed of what it chooses."""

    verb: str
    seed: str


@dataclass(frozen=True)
class Founding:
    """What decides how the table is.

    Attributes:
        configuration: its properties.
        works: what happens to it.
    """

    configuration: tuple[tuple[str, str], ...]
    terms: Terms
    works: tuple[Work, ...]


@dataclass(frozen=True)
class Founded:
    """A table, when it is done, the calls that it took, and what was parsed meanwhile."""

    objects: dict[str, Stored]
    ledger: Ledger
    now: float
    history: list[Step]
    memory: Memory


class FoundingError(Exception):
    """A promise was broken before the actors came."""

    def __init__(self, what: str, history: list[Step]) -> None:
        super().__init__(what)
        self.what, self.history = what, history


def found(founding: Founding) -> Founded:
    """Make the table.

    Raises:
        FoundingError: something went wrong, where nothing should.
    """
    world = World(Seeded("founding", CALM), "founding")
    ledger = Ledger(lambda: world.now, founding.terms)
    bucket = Bucket(ledger.watch)
    founder = Actor("founder", SimulatedStore(world, bucket, "founder"), ledger)

    def work() -> None:
        founder.create(dict(founding.configuration))
        for one in founding.works:
            founder.do(*one)

    with hooks_watched(_is_never_explained), remembered() as memory:
        try:
            world.run({founder.name: work})
        except Violation as error:
            raise FoundingError(str(error), world.history) from error
        except Exception as error:  # a bug shows as any error there is
            raise FoundingError(traceback.format_exc(), world.history) from error
        return Founded(bucket.objects, ledger, world.now, world.history, memory)


def _is_never_explained(_: DeltaError, __: str) -> bool:
    return False
