"""The trigger that waits for a table's version in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook


def reached(
    version: int | None,
    *,
    baseline_version: int | None,
    target_version: int | None,
    allow_recreation: bool,
) -> bool:
    """Whether a table's latest version ends the wait: it is later than the baseline and at least the target.

    Both are optional. Without a table (None) the wait goes on. A version below the baseline means that the table was
    recreated.

    Raises:
        ValueError: the table was recreated, and ``allow_recreation`` is False.
    """
    if version is None:
        return False
    if baseline_version is not None and version < baseline_version:
        if not allow_recreation:
            raise ValueError(
                f"its version is {version}, below the baseline {baseline_version}, so the table was recreated. "
                "Set allow_recreation=True to accept its version, or give a baseline of the new table"
            )
    elif baseline_version is not None and version == baseline_version:
        return False
    return target_version is None or version >= target_version


class TableVersionTrigger(BaseTrigger):
    """Fires once, when a table's version ends the wait (``reached``).

    The event is ``{"version", "baseline_version"}``, or ``{"error": text}`` for a permanent error. An error that may be
    temporary (a failing store; ``failures.failure`` decides) is logged, and the trigger continues to poll. It is not
    raised, because a retried task without a baseline would start from a later version.

    Args:
        table: a table's name in the registry, or its location.
        lakehouse_conn_id: the table's connection, read at each poke, so that the trigger holds no secrets. Keys of an
            assumed role are cached for all triggers of the process (``session_keys``).
        poke_interval: seconds between two pokes.
    """

    def __init__(
        self,
        *,
        table: str,
        baseline_version: int | None,
        target_version: int | None,
        allow_recreation: bool,
        poke_interval: float,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.table = table
        self.baseline_version = baseline_version
        self.target_version = target_version
        self.allow_recreation = allow_recreation
        self.poke_interval = poke_interval
        self.lakehouse_conn_id = lakehouse_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "baseline_version": self.baseline_version,
                "target_version": self.target_version,
                "allow_recreation": self.allow_recreation,
                "poke_interval": self.poke_interval,
                "lakehouse_conn_id": self.lakehouse_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            try:
                # A listing may take long on a slow disk, and would block all other triggers of the process.
                version = await asyncio.to_thread(self._version)
                done = reached(
                    version,
                    baseline_version=self.baseline_version,
                    target_version=self.target_version,
                    allow_recreation=self.allow_recreation,
                )
            except AirflowFailException as error:
                yield TriggerEvent({"error": str(error)})
                return
            except AirflowException as error:
                self.log.warning("table %s: %s; the next poke is in %s s", self.table, error, self.poke_interval)
                done = False
            except ValueError as error:
                yield TriggerEvent({"error": f"table {self.table}: {error}"})
                return
            if done:
                yield TriggerEvent({"version": version, "baseline_version": self.baseline_version})
                return
            await asyncio.sleep(self.poke_interval)

    def _version(self) -> int | None:
        with as_task_failure():
            return LakehouseHook(self.lakehouse_conn_id).version(self.table)
