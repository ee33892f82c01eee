"""The triggers that wait for a table in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.polling import TablePoll


class TableTrigger(BaseTrigger):
    """Fires once, when a table meets a condition.

    The event has the facts of the condition, or ``{"error": text}`` for a permanent error. An error that may be
    temporary (a failing store; ``failures.failure`` decides) is logged, and the trigger continues to poll.

    Triggers of one table and connection share one listing (``TablePoll``). The condition is checked at the first
    listing, and then after each new version.

    Args:
        table: a table's name in the registry, or its location.
        condition: of ``lakehouse_lib.fleet.conditions.to_dict``.
        lakehouse_conn_id: the table's connection, which the trigger reads, so that it holds no secrets.
        poke_interval: seconds between two listings.
    """

    def __init__(
        self,
        *,
        table: str,
        condition: Mapping[str, Any],
        poke_interval: float,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.table = table
        self.condition = dict(condition)
        self.poke_interval = poke_interval
        self.lakehouse_conn_id = lakehouse_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "condition": self.condition,
                "poke_interval": self.poke_interval,
                "lakehouse_conn_id": self.lakehouse_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        poll = TablePoll.of(self.lakehouse_conn_id, self.table)
        checked_version = None
        not_before = time.monotonic()
        while True:
            look = await poll.look(not_before)
            facts, error = None, look.error
            try:
                if look.version is not None and look.version != checked_version:
                    facts = await self._check(poll, look.version)
            except AirflowException as caught:
                error = caught
            if error is None:
                checked_version = look.version
            elif isinstance(error, AirflowFailException):
                facts = {"error": str(error)}
            else:
                self.log.warning("table %s: %s; the next poke is in %s s", self.table, error, self.poke_interval)
            if facts is not None:
                yield TriggerEvent(facts)
                return
            # Half an interval, so that triggers that began at different times come to share each listing.
            not_before = look.at + self.poke_interval / 2
            await asyncio.sleep(look.at + self.poke_interval - time.monotonic())

    async def _check(self, poll: TablePoll, version: int) -> dict[str, Any] | None:
        from lakehouse_lib.fleet.conditions import condition_of

        condition = condition_of(self.condition)
        return await poll.run(lambda store: condition.check(store, version))
