"""The plan of a maintenance run: which steps of a fleet are run within a budget, and in which order.

The functions have no side effects. Steps with the most gain per cost come first. The weight of a deferred step grows
with time, so that no step waits forever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.step import Effect, Step
from lakehouse_lib.operations.optimize.limit import in_turn, parts_within

#: The days in which the weight of a waiting step doubles.
_DOUBLED_AFTER_DAYS = 3.0
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Candidate:
    """A step that the plan may choose.

    Attributes:
        priority: a factor by which the gain is multiplied.
        waiting_since: when a plan first deferred the step, in ms since the epoch; None: no plan has deferred it.
    """

    step: Step
    priority: float = 1.0
    waiting_since: int | None = None

    def weight(self, now: int) -> float:
        """Gain per cost, with the priority and the time that the step has waited."""
        step = self.step
        days = 0.0 if self.waiting_since is None else max(0, now - self.waiting_since) / _DAY_MS
        ratio = step.predicted.gain / max(step.cost, 1)
        return float(ratio * self.priority * 2 ** min(days / _DOUBLED_AFTER_DAYS, 500))


@dataclass(frozen=True)
class Plan:
    """The steps of a run in their order, and the steps that do not fit the budget.

    Attributes:
        steps: the steps to run; a step may be a part of its candidate's step.
        deferred: the steps that wait for a later run. If ``steps`` has a part of a step, the whole step is also here.
    """

    steps: tuple[Step, ...]
    deferred: tuple[Step, ...]


def choose(candidates: Iterable[Candidate], budget: Budget, now: int) -> Plan:
    """Choose the steps of a run, greedily by weight.

    If a step exceeds the rest of the budget, as many of its parts as fit are chosen, in the order of ``limit.in_turn``.
    If a step without parts exceeds the rest of the budget, it is deferred, and the next step is tried.

    Args:
        now: ms since the epoch.

    Raises:
        InvalidArgumentError: the budget is too small for any part of any step (``DELTA_BUDGET_TOO_SMALL``).
    """
    ordered = sorted(candidates, key=lambda each: (-each.weight(now), each.step.table, each.step.verb))
    bytes_left, seconds_left = budget.most_bytes, budget.most_seconds
    steps: list[Step] = []
    deferred: list[Step] = []
    for candidate in ordered:
        step = candidate.step
        part = part_within(step, bytes_left, seconds_left)
        if part is not step:
            deferred.append(step)
        if part is None:
            continue
        steps.append(part)
        bytes_left -= part.bytes
        seconds_left -= part.predicted.seconds
    if deferred and not steps:
        smallest = min(deferred, key=lambda step: step.bytes)
        raise InvalidArgumentError(
            f"the budget is {_text(budget)}; expected enough for one step, such as {smallest.verb} of "
            f"{smallest.table} with {smallest.bytes} bytes and {smallest.predicted.seconds:.0f} seconds",
            hint="Raise the budget, or leave it out",
            code="DELTA_BUDGET_TOO_SMALL",
        )
    return Plan(tuple(steps), tuple(deferred))


def part_within(step: Step, bytes_left: float, seconds_left: float) -> Step | None:
    """The step if it fits the limits, else a step with as many of its parts as fit; None: no part fits.

    Args:
        bytes_left: a limit for the predicted bytes to read and write.
        seconds_left: a limit for the predicted duration.
    """
    if step.bytes <= bytes_left and step.predicted.seconds <= seconds_left:
        return step
    if step.parts is None or not step.bytes:
        return None
    share = min(1.0, seconds_left / step.predicted.seconds) if step.predicted.seconds else 1.0
    limit = min(bytes_left, share * step.bytes)
    parts, factors = step.parts, _factors(step.parts.effect(), step.predicted)

    def totals(read: NDArray[np.int64], written: NDArray[np.int64]) -> NDArray[np.int64]:
        # Truncated as in Effect.scaled, so that the part has these bytes by prediction.
        corrected = (read * factors.get("bytes_read", 1.0)).astype(np.int64)
        return corrected + (written * factors.get("bytes_written", 1.0)).astype(np.int64)

    def part_with(most_read: int) -> Step | None:
        """The step with the parts that fit together, if at most ``most_read`` bytes are read."""
        fits = (sizes <= limit) & (parts.bytes_read <= most_read)
        order = in_turn(parts.files_removed, parts.bytes_read, parts.oldest, fits)
        read, written = np.cumsum(parts.bytes_read[order]), np.cumsum(parts.bytes_written[order])
        within = (totals(read, written) <= limit) & (read <= most_read)
        return part_reading(step, int(read[within].max(initial=0)))

    sizes = totals(parts.bytes_read, parts.bytes_written)
    unlimited = np.iinfo(np.int64).max
    part = part_with(unlimited)
    if part is None or part.bytes <= limit:
        return part
    # The verb has only a limit of the bytes to read, by which it has chosen a part that exceeds the budget. So the
    # limit must be below each of these parts.
    return part_with(int(parts.bytes_read[sizes > limit].min(initial=unlimited)) - 1)


def part_reading(step: Step, max_bytes: int) -> Step | None:
    """A step with the parts that a rewrite chooses for ``max_bytes``; None: it chooses none, or the step has no parts.

    Args:
        max_bytes: a limit for the bytes to read, which are known exactly (``limit.parts_within``).
    """
    parts = step.parts
    if parts is None:
        return None
    rows = parts_within(parts.files_removed, parts.bytes_read, parts.oldest, max_bytes)
    if not len(rows):
        return None
    chosen = parts.effect(rows)
    part = replace(
        step,
        uncorrected=chosen,
        arguments={**step.arguments, "max_bytes": max_bytes},
        predicted=chosen.scaled(_factors(parts.effect(), step.predicted)),
        reason=f"{step.reason}; {len(rows)} of {len(parts.bytes_read)} parts are within the budget",
        parts=None,
        partitions=parts.partitions(rows),
    )
    seconds = step.predicted.seconds * part.bytes / max(step.bytes, 1)
    return replace(part, predicted=replace(part.predicted, seconds=seconds))


def _factors(whole: Effect, corrected: Effect) -> dict[str, float]:
    """The factor by which each number of a step was corrected."""
    after = corrected.to_dict()
    return {name: after[name] / value for name, value in whole.to_dict().items() if value and name != "seconds"}


def _text(budget: Budget) -> str:
    limits = [
        f"{value:g} {name}"
        for name, value in (("bytes", budget.bytes), ("seconds", budget.seconds))
        if value is not None
    ]
    return " and ".join(limits)
