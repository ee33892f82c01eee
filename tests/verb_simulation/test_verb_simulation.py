"""The short form: some worlds have no violation, a seed replays, and bugs in the verbs are found."""

from __future__ import annotations

import pytest

from tests.simulation.hunting import Mutant, hunt
from tests.verb_simulation.campaign import tally
from tests.verb_simulation.mutants import MUTANTS, violation_of
from tests.verb_simulation.runs import run

COMMITTED = {
    f"{verb}: committed" for verb in ("append", "delete", "mark", "update", "merge", "compact", "z_order", "replace")
}


def test_no_world_breaks_a_promise() -> None:
    total = tally(0, 25)
    assert total.violations == []
    assert set(total.outcomes) >= COMMITTED


@pytest.mark.slow
def test_worlds_come_to_every_end_and_none_breaks_a_promise() -> None:
    total = tally(0, 80)
    assert total.violations == []
    lost = {f"{verb}: ConcurrentDeleteDeleteError" for verb in ("mark", "compact", "z_order")}
    assert COMMITTED | lost | {"append: StoreError"} <= set(total.outcomes)


def test_a_seed_replays() -> None:
    histories = [run(seed).history for seed in range(3)]
    assert [run(seed).history for seed in (2, 1, 0)] == histories[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_is_found(mutant: Mutant) -> None:
    assert hunt(mutant, violation_of, budget=300, verbs=mutant.verbs).seed is not None
