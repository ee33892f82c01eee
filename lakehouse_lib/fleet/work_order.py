"""A work order: the verbs that a plan has chosen for a table, as plain values that another process can carry out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lakehouse_lib.engine.balanced_shares import balanced_shares
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.planner.step import Step
from lakehouse_lib.fleet.planner.verbs import VERBS, Verb
from lakehouse_lib.json_text import excerpt

_RUN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class WorkOrder:
    """The verbs that a plan has chosen for a table.

    An order does not contain the arguments of the verbs. The process that runs it takes the arguments from the table's
    policy. So an edited order cannot change a retention.

    Attributes:
        run: the id of the maintenance run.
        planned_at: ms since the epoch.
        table: the table's name in the registry, or its location.
        limits: verb -> the bytes that the verb may read (``max_bytes``), if the plan has chosen parts of its step;
            None: no limit.
        bytes: the bytes that the verbs will read and write, by prediction.
    """

    run: str
    planned_at: int
    table: str
    limits: Mapping[Verb, int | None]
    bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, values: Any) -> WorkOrder:
        """The order with the values of ``to_dict``.

        Raises:
            InvalidArgumentError: a value is not valid.
        """
        try:
            order = cls(**values)
            limits = dict(order.limits)
            valid = (
                isinstance(order.run, str)
                and _RUN.fullmatch(order.run) is not None
                and _is_number(order.planned_at)
                and isinstance(order.table, str)
                and set(limits) <= set(VERBS)
                and all(limit is None or _is_number(limit) for limit in limits.values())
                and _is_number(order.bytes)
            )
        except (TypeError, ValueError):
            valid = False
        if not valid:
            raise InvalidArgumentError(
                f"the work order is {excerpt(values)}; expected run, planned_at, table, limits and bytes of a plan",
                hint="Plan again",
            )
        return order


def orders_of(run: str, planned_at: int, steps: tuple[Step, ...]) -> list[WorkOrder]:
    """The orders for these steps, one for each table, the table with the first step first."""
    by_table: dict[str, list[Step]] = {}
    for step in steps:
        by_table.setdefault(step.table, []).append(step)
    return [
        WorkOrder(
            run,
            planned_at,
            table,
            {step.verb: step.arguments.get("max_bytes") for step in chosen},
            sum(step.bytes for step in chosen),
        )
        for table, chosen in by_table.items()
    ]


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def shares(orders: Sequence[WorkOrder], most: int) -> list[list[WorkOrder]]:
    """The orders for each of several processes, so that each process has about the same bytes.

    Args:
        most: the largest number of processes, at least 1.
    """
    return [[orders[item] for item in share] for share in balanced_shares([order.bytes for order in orders], most)]
