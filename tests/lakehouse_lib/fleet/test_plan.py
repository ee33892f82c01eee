"""The plan of a maintenance run: the steps and the parts within its budget, and their order."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.plan import Candidate, choose, part_reading, part_within
from lakehouse_lib.fleet.planner.step import Effect, Parts, Step
from lakehouse_lib.fleet.runs import RunRecord, Status, StepRecord


def rewrite(parts: Parts, factor: float = 1.0) -> Step:
    """A step of one second with these parts. The bytes that it writes are corrected by a factor."""
    predicted = replace(parts.effect().scaled({"bytes_written": factor}), seconds=1.0)
    return Step("t", "optimize", 0, {}, "files are small", predicted, uncorrected=parts.effect(), parts=parts)


def parts_of(read: list[int], written: list[int], oldest: list[int]) -> Parts:
    counts, read_, written_ = np.ones(len(read), np.int64), np.array(read, np.int64), np.array(written, np.int64)
    return Parts(2 * counts, counts, read_, written_, 10**9 * counts, np.array(oldest, np.int64))


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=20),
    st.floats(0.1, 3),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_parts_are_within_the_budget_and_are_chosen_again_by_the_bytes_to_read(
    sizes: list[tuple[int, float, int]], factor: float, share: float, seconds: float
) -> None:
    written = [int(size * live_share) for size, live_share, _ in sizes]
    step = rewrite(parts_of([size for size, _, _ in sizes], written, [time for _, _, time in sizes]), factor)
    left = int(step.bytes * share)
    part = part_within(step, left, seconds)
    if part is None or part is step:
        return
    assert part.bytes <= left
    assert part.predicted.seconds <= seconds * (1 + 1e-9)
    assert part_reading(step, part.arguments["max_bytes"]) == part


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0, 9]), st.integers(0, 3)), min_size=3, max_size=6),
            st.sampled_from([1.0, 0.3, 2.5]),
            st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 30),
    st.none() | st.floats(0.1, 4),
)
def test_a_plan_never_exceeds_its_budget(
    tables: list[tuple[list[tuple[int, int, int]], float, bool]], limit: int, seconds: float | None
) -> None:
    """Before, a limit of the bytes to read could also choose a part that was too large by the bytes to write."""
    candidates = []
    for number, (sizes, factor, has_parts) in enumerate(tables):
        read, written, oldest = (list(column) for column in zip(*sizes, strict=True))
        step = replace(rewrite(parts_of(read, [*map(min, read, written)], oldest), factor), table=str(number))
        candidates.append(Candidate(step if has_parts else replace(step, parts=None)))
    candidates.append(Candidate(Step("t", "vacuum", 0, {}, "", Effect(files_removed=1, seconds=0.05))))
    plan = choose(candidates, Budget(limit, seconds), 0)
    assert sum(step.bytes for step in plan.steps) <= limit
    assert sum(step.predicted.seconds for step in plan.steps) <= (seconds or math.inf) * (1 + 1e-9)


def test_a_limit_of_the_bytes_to_read_chooses_no_part_that_exceeds_the_budget() -> None:
    """Before, the limit of 8 bytes for the second and third part chose the first, which reads and writes 12."""
    part = part_within(rewrite(parts_of([6, 4, 4], [6, 0, 0], [0, 1, 1])), 10, 1e9)
    assert part is not None
    assert (part.bytes, part.arguments["max_bytes"]) == (4, 4)


def test_a_plan_stays_within_its_budget_and_has_the_steps_without_bytes() -> None:
    """The first part has more bytes to write than the average."""
    step = rewrite(parts_of([100, 100], [100, 0], [0, 0]))
    vacuum = Step("t", "vacuum", 0, {}, "", Effect(files_removed=1, bytes_freed=10))
    plan = choose([Candidate(vacuum), Candidate(step)], Budget(bytes=150), 0)
    assert (plan.steps, plan.deferred) == ((vacuum,), (step,))


def test_a_waiting_step_is_planned_eventually() -> None:
    large = Step("large", "optimize", 0, {}, "", Effect(bytes_read=100, bytes_written=100, query_bytes=10**9))
    small = Step("small", "optimize", 0, {}, "", Effect(bytes_read=100, bytes_written=100, query_bytes=10**7))
    budget = Budget(bytes=250)
    now = 100 * 86_400_000

    def chosen(days: float) -> list[str]:
        since = now - int(days * 86_400_000)
        return [step.table for step in choose([Candidate(large), Candidate(small, 1.0, since)], budget, now).steps]

    assert chosen(0) == chosen(19) == ["large"]
    assert chosen(21) == ["small"]  # 2 ** (21 / 3) is 128, more than the hundredfold gain


def test_the_oldest_part_gets_its_turn_before_new_small_parts() -> None:
    """Before, the parts with the smallest files were always chosen first, so a large part could wait forever."""
    part = part_within(rewrite(parts_of([10, 10, 90, 10], [0] * 4, [5, 6, 1, 7])), 100, 1e9)
    assert part is not None
    assert (part.predicted.bytes_read, part.predicted.files_removed) == (100, 4)


def test_a_part_that_exceeds_the_budget_does_not_keep_the_others_waiting() -> None:
    parts = replace(parts_of([1000, 50], [0, 0], [0, 1]), files_removed=np.array([1000, 2]))
    part = part_within(rewrite(parts), 100, 1e9)
    assert part is not None
    assert part.predicted.bytes_read == 50


def test_a_part_of_a_step_shortens_its_waiting_time_by_the_same_share(tmp_path: Path) -> None:
    """Before, the rest of a step waited from the start again, however small the part was."""
    record, day = RunRecord(str(tmp_path)), 86_400_000
    whole, part = Effect(bytes_read=600, bytes_written=400), Effect(bytes_read=60, bytes_written=40)
    now = 100 * day
    rows: list[tuple[str, Status, int, Effect]] = [
        ("a", "deferred", 50 * day, whole),
        ("b", "deferred", 60 * day, whole),
        ("b", "done", 60 * day, part),
    ]
    for run, status, moment, effect in rows:
        record.append([StepRecord(run, "t", "optimize", status, "", moment, 0, 0, effect, effect, effect)])
    assert record.waiting(now) == {("t", "optimize"): 51 * day}
