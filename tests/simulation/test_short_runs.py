"""The short form of the simulation for `make test`: some runs, and all orders of some pairs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.simulation.campaign import tally
from tests.simulation.choosers import NO_FAULTS
from tests.simulation.exploration import explore
from tests.simulation.runs import plan_of, run
from tests.simulation.scenarios import PAIRS
from tests.slow_cases import some_slow

_SCENARIOS = {scenario.name: scenario for scenario in PAIRS}


def test_no_run_violates_a_guarantee() -> None:
    total = tally(0, 25)
    assert total.violations == []
    assert len(total.shapes) > 22
    assert total.outcomes["committed"] > 25
    assert {"ConcurrentAppendError", "ConcurrentTransactionError", "append: StoreError"} <= set(total.outcomes)


@pytest.mark.slow
def test_a_seed_repeats_a_run_in_another_process() -> None:
    seeds = range(3)
    digests = [run(seed).digest for seed in seeds]
    assert [run(seed).digest for seed in reversed(seeds)] == digests[::-1]
    program = "from tests.simulation.runs import run\nfor seed in range(3): print(run(seed).digest)"
    environment = os.environ | {"PYTHONHASHSEED": "1" if sys.flags.hash_randomization else "random"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == digests, done.stderr


@pytest.mark.parametrize(
    ("name", "outcomes"),
    some_slow(
        [
            ("append 0 | append 0", 1),
            ("delete 0 | append 0", 2),
            ("deliver | deliver", 2),
            ("create | create", 2),
            ("insert 1 from 0 | insert 0 from 1, WriteSerializable", 2),
            ("append 0 on an expired version | cleanup", 2),
            ("append 0 | cleanup up to a torn checkpoint", 1),
        ],
        5,
    ),
)
def test_every_order_of_two_writers(name: str, outcomes: int) -> None:
    exploration = explore(_SCENARIOS[name])
    assert exploration.violation is None
    assert exploration.is_complete
    assert exploration.orders == len(exploration.shapes)
    assert len(exploration.outcomes) == outcomes


@pytest.mark.slow
def test_runs_without_faults_have_no_store_errors() -> None:
    for seed in range(10):
        report = run(replace(plan_of(seed), fault_rates=NO_FAULTS))
        assert report.violation is None
        assert not any(outcome.endswith("StoreError") or outcome == "unknown" for outcome in report.outcomes)
