"""The steps that a table needs, computed from its log."""

from __future__ import annotations

from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.rewrites import rewrite_step, statistics_step
from lakehouse_lib.fleet.planner.step import Step
from lakehouse_lib.fleet.planner.upkeep import checkpoint_step, cleanup_step, vacuum_step
from lakehouse_lib.log import clock
from lakehouse_lib.snapshot import Snapshot


def steps_of(
    table: str, snapshot: Snapshot, policy: Policy, corrections: Corrections, *, now: int | None = None
) -> list[Step]:
    """The steps that a table needs and that pay, with corrected predictions. Reads no data file.

    A step pays if ``policy.payback_queries * policy.priority`` queries save what it costs. Overdue steps are returned,
    too.

    Args:
        table: its name in the registry, or its location.
        now: ms since the epoch; None: this machine's clock.

    Raises:
        InvalidArgumentError: a column of ``cluster_by`` cannot be Z-ordered, or a property of the table is not valid.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    snapshot.check_writable()
    moment = clock.now() if now is None else now
    steps = [rewrite_step(table, snapshot, policy)]
    if "compute_statistics" in policy.verbs:
        steps.append(statistics_step(table, snapshot))
    if "checkpoint" in policy.verbs:
        steps.append(checkpoint_step(table, snapshot))
    if "vacuum" in policy.verbs:
        steps.append(vacuum_step(table, snapshot, policy, moment))
    if "cleanup" in policy.verbs:
        steps.append(cleanup_step(table, snapshot, policy, moment))
    corrected = [corrections.corrected(step) for step in steps if step is not None]
    limit = policy.payback_queries * policy.priority
    return [step for step in corrected if step.is_overdue or step.payback <= limit]
