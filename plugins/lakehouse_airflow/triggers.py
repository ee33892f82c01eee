"""Waiting for a table's version outside a worker."""

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
    """Whether a table's latest version (None: no table) is what is waited for.

    That is: later than the baseline, if there is one, and at least the target, if there is one. A table that is not
    there is waited for. A version before the baseline means that the table was made anew.

    Raises:
        ValueError: made anew, and ``allow_recreation`` is False.
    """
    if version is None:
        return False
    if baseline_version is not None and version < baseline_version:
        if not allow_recreation:
            raise ValueError(
                f"its version is {version}, which is before the baseline {baseline_version}: it was made anew. "
                "Set allow_recreation=True to take that for a change, or give a baseline of the new table"
            )
    elif baseline_version is not None and version == baseline_version:
        return False
    return target_version is None or version >= target_version


class TableVersionTrigger(BaseTrigger):
    """Fires once, when a table's version is what is waited for (``reached``).

    The event is ``{"version", "baseline_version"}``, or ``{"error": text}`` when waiting on cannot help. What may pass
    by the rule of ``failures`` (a failing store) is logged and looked at again, for as long as the sensor waits: a task
    that was retried would take the version of then for its baseline, where it was given none.

    Args:
        table: a table's name in the registry, or its location.
        lakehouse_conn_id: its connection, looked up at each look: the trigger keeps no secret, and none grows old. What
            an assumed role gave is the process's (``session_keys``), for all its triggers.
        poke_interval: seconds between two looks.
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
                # A listing may take long on a slow disk, and one triggerer serves every waiting task.
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
                self.log.warning("table %s: %s; looking again in %s s", self.table, error, self.poke_interval)
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
