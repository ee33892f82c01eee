"""Mutants: bugs that are put into the library for a while, and the search for a seed that shows each bug."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from unittest import mock

from rich.console import Console

#: The number of seeds within which each mutant must be found, in runs whose actors run only its verbs.
BUDGET = 500

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


class SeedRun(Protocol):
    def __call__(self, seed: int, verbs: Sequence[str] = ()) -> str | None:
        """The violation in the run of a seed, whose actors run only ``verbs`` if there are any."""


@dataclass(frozen=True)
class Hunt:
    """The result of a search; ``seed`` and ``violation`` are None if the mutant was not found."""

    tried: int
    seed: int | None
    violation: str | None


def hunt(mutant: Mutant, run_seed: SeedRun, first: int = 0, budget: int = BUDGET, *, verbs: Sequence[str] = ()) -> Hunt:
    """Run seed after seed until one shows the bug.

    Raises:
        RuntimeError: the replacement itself fails, so it is not the bug that is named.
    """
    with mutant.alive():
        for seed in range(first, first + budget):
            violation = run_seed(seed, verbs)
            if violation is None:
                continue
            if "mutants.py" in violation.rpartition('  File "')[2]:  # the innermost frame
                raise RuntimeError(f"the mutant {mutant.name!r} fails at seed {seed}: {violation}")
            return Hunt(seed - first + 1, seed, violation)
    return Hunt(budget, None, None)


def hunt_all(mutants: Sequence[Mutant], run_seed: SeedRun, first: int, console: Console) -> int:
    """Search each mutant in runs of its verbs, and print each result. Returns how many were not found."""
    missing = []
    console.print("   seed  seconds  mutant: what it broke")
    for mutant in mutants:
        begun = time.monotonic()
        result = hunt(mutant, run_seed, first, verbs=mutant.verbs)
        if result.violation is None:
            missing.append(mutant.name)
            what, seed = "NOT FOUND", "-"
        else:
            what, seed = result.violation.strip().splitlines()[-1][:110], str(result.seed)
        console.print(f"{seed:>7}  {time.monotonic() - begun:7.1f}  {mutant.name}: {what}", markup=False)
    console.print(f"{len(mutants) - len(missing)} of {len(mutants)} found, each within {BUDGET:,} seeds")
    for name in missing:
        console.print(f"not found: {name}", markup=False)
    return len(missing)
