"""The steps that a table needs, computed from its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.plan import part_within
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.rewrites import rewrite_steps, statistics_step
from lakehouse_lib.fleet.planner.step import Step
from lakehouse_lib.fleet.planner.upkeep import checkpoint_step, cleanup_step, vacuum_step
from lakehouse_lib.log import clock
from lakehouse_lib.snapshot import Snapshot


def steps_of(
    table: str,
    snapshot: Snapshot,
    policy: Policy,
    corrections: Corrections,
    *,
    budget: Budget | None = None,
    now: int | None = None,
) -> list[Step]:
    """The steps that a table needs and that pay, with corrected predictions. Reads no data file.

    A step pays if ``policy.payback_queries * policy.priority`` queries save at least its cost. Overdue steps are
    returned, too. Of the steps that rewrite files, the first step that pays is returned, and, if the whole budget is
    too small for every part of it, also the next step that pays.

    Args:
        table: the table's name in the registry, or its location.
        budget: the budget of the run; None: no limit.
        now: ms since the epoch; None: this machine's clock.

    Raises:
        InvalidArgumentError: a column of ``cluster_by`` cannot be Z-ordered, or a property of the table is not valid.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    snapshot.check_writable()
    limit = policy.payback_queries * policy.priority

    def pays(step: Step) -> bool:
        return step.is_overdue or step.payback <= limit

    rewrites = filter(pays, map(corrections.corrected, rewrite_steps(table, snapshot, policy)))
    others = map(corrections.corrected, _other_steps(table, snapshot, policy, clock.now() if now is None else now))
    return [*_rewrites_within(rewrites, budget or Budget()), *filter(pays, others)]


def _rewrites_within(rewrites: Iterable[Step], budget: Budget) -> Iterator[Step]:
    """The rewrites up to the first of which a part fits the budget. A reason names the rewrites before it."""
    too_large = ""
    for step in rewrites:
        yield replace(step, reason=step.reason + too_large)
        if part_within(step, budget.most_bytes, budget.most_seconds) is not None:
            return
        too_large += f"; the budget is too small for {step.verb}"


def _other_steps(table: str, snapshot: Snapshot, policy: Policy, moment: int) -> Iterator[Step]:
    if "compute_statistics" in policy.verbs and (step := statistics_step(table, snapshot)):
        yield step
    if "checkpoint" in policy.verbs and (step := checkpoint_step(table, snapshot)):
        yield step
    if "vacuum" in policy.verbs and (step := vacuum_step(table, snapshot, policy, moment)):
        yield step
    if "cleanup" in policy.verbs and (step := cleanup_step(table, snapshot, policy, moment)):
        yield step
