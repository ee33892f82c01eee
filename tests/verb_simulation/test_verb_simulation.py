"""The short form: some runs have no violation, a seed replays, and bugs in the verbs are found."""

from __future__ import annotations

import pytest

from tests.simulation.hunting import Mutant, hunt
from tests.verb_simulation.campaign import tally
from tests.verb_simulation.mutants import MUTANTS, violation_of
from tests.verb_simulation.runs import run

VERBS = [
    "append",
    "delete",
    "mark",
    "update",
    "merge",
    "insert",
    "correct",
    "compact",
    "z_order",
    "replace",
    "restore",
    "constrain",
    "alter",
]
COMMITTED = {f"{verb}: committed" for verb in VERBS}


def test_no_run_violates_a_guarantee() -> None:
    total = tally(0, 15)
    assert total.violations == []
    assert len(COMMITTED & set(total.outcomes)) >= 8


@pytest.mark.slow
def test_runs_have_every_outcome_and_violate_no_guarantee() -> None:
    total = tally(0, 80)
    assert total.violations == []
    assert set(total.outcomes) >= COMMITTED | {
        "replace partitions: committed",
        "unconstrain: committed",
        "mark: ConcurrentDeleteDeleteError",
        "compact: ConcurrentDeleteDeleteError",
        "restore: ConcurrentAppendError",
        "constrain: ConstraintViolatedError",
        "constrain: MetadataChangedError",
        "update: MetadataChangedError",
        "append: StoreError",
    }


@pytest.mark.slow
def test_a_seed_repeats_a_run() -> None:
    histories = [run(seed).history for seed in range(3)]
    assert [run(seed).history for seed in (2, 1, 0)] == histories[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_found(mutant: Mutant) -> None:
    assert hunt(mutant, violation_of, verbs=mutant.verbs).seed is not None
