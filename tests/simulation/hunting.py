"""Mutants: bugs that are put into the library for a while, and the search for a seed that shows each bug."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from unittest import mock

from rich.console import Console
from rich.table import Table

#: The number of seeds within which each mutant must be found.
BUDGET = 2_000

#: The replacements, by owner and name.
Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """``patches`` are the replacements; ``verbs`` are the verbs of actors with which the bug shows soonest."""

    name: str
    patches: Callable[[], list[Patch]]
    verbs: tuple[str, ...]

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Put the bug into the library."""
        with ExitStack() as stack:
            for where, name, what in self.patches():
                stack.enter_context(mock.patch.object(where, name, what))
            yield


def instead(where: Any, name: str, what: Any) -> Callable[[], list[Patch]]:
    return lambda: [(where, name, what)]


class Worlds(Protocol):
    def __call__(self, seed: int, verbs: Sequence[str] = ()) -> str | None:
        """The violation in the world of a seed, whose actors run only ``verbs`` if there are any."""


@dataclass(frozen=True)
class Hunt:
    """The result of a search; ``seed`` and ``violation`` are None if the mutant was not found."""

    tried: int
    seed: int | None
    violation: str | None


def hunt(mutant: Mutant, worlds: Worlds, first: int = 0, budget: int = BUDGET, *, verbs: Sequence[str] = ()) -> Hunt:
    """Run seed after seed until one shows the bug."""
    with mutant.alive():
        for seed in range(first, first + budget):
            violation = worlds(seed, verbs)
            if violation is not None:
                return Hunt(seed - first + 1, seed, violation)
    return Hunt(budget, None, None)


def hunt_all(mutants: Sequence[Mutant], worlds: Worlds, first: int, console: Console) -> int:
    """Search each mutant in worlds of any kind, then in worlds of its verbs, and print the results. Returns how many
    were not found.
    """
    table = Table("mutant", "seed", "tried", "seconds", "what it broke", box=None)
    alive = 0
    for mutant in mutants:
        begun = time.monotonic()
        result = hunt(mutant, worlds, first)
        if result.seed is None:
            result = hunt(mutant, worlds, first, verbs=mutant.verbs)
        alive += result.seed is None
        what = "-" if result.violation is None else result.violation.strip().splitlines()[-1][:110]
        table.add_row(mutant.name, str(result.seed), str(result.tried), f"{time.monotonic() - begun:.1f}", what)
    console.print(table, markup=False)
    console.print(f"{len(mutants) - alive} of {len(mutants)} found, within {BUDGET:,} seeds of each kind")
    return alive
