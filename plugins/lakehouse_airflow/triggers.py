"""The triggers that wait for a table in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from lakehouse_airflow.polling import TablePoll
from lakehouse_airflow.registry import registry_of

#: The key of the version in the state of the watched asset.
_VERSION_KEY = "lakehouse_version"


class TableTrigger(BaseTrigger):
    """Fires once, when a table meets a condition.

    The event is the result of the condition's ``check``, or ``{"error": text}`` after a permanent error. If an error
    may be temporary (``errors.failure`` decides), such as a failing store, it is logged, and the trigger continues to
    poll.

    Triggers of one table and connection share one listing (``TablePoll``). The condition is checked at the first
    listing, and then after each new version.

    Args:
        table: a table's name in the registry, or its location.
        condition: the condition, as ``lakehouse_lib.fleet.conditions.to_dict`` returns it.
        lakehouse_conn_id: as the argument of ``LakehouseHook``. Airflow stores only this id, and no secrets.
        poke_interval: seconds between two listings.
        registry: the path or URI of the registry; None: the registry of the process that makes the trigger. Airflow
            stores it, because the triggerer may have another registry or none.
    """

    def __init__(
        self,
        *,
        table: str,
        condition: Mapping[str, Any],
        poke_interval: float,
        lakehouse_conn_id: str | None = None,
        registry: str | None = None,
    ) -> None:
        super().__init__()
        self.table = table
        self.condition = dict(condition)
        self.poke_interval = poke_interval
        self.lakehouse_conn_id = lakehouse_conn_id
        self.registry = registry_of(table) if registry is None else registry

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "condition": self.condition,
                "poke_interval": self.poke_interval,
                "lakehouse_conn_id": self.lakehouse_conn_id,
                "registry": self.registry,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        poll = TablePoll.of(self.lakehouse_conn_id, self.table, self.registry)
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
            # Also accept a listing that another trigger begins in the second half of the interval. So triggers that
            # began at different times share listings.
            not_before = look.listed_at + self.poke_interval / 2
            await asyncio.sleep(look.listed_at + self.poke_interval - time.monotonic())

    async def _check(self, poll: TablePoll, version: int) -> dict[str, Any] | None:
        from lakehouse_lib.fleet.conditions import condition_of

        condition = condition_of(self.condition)
        return await poll.run(lambda store: condition.check(store, version))


class TableVersionEventTrigger(BaseEventTrigger):
    """Fires whenever the rows of a table have changed, for an ``AssetWatcher``.

    The event is ``{"table", "from_version", "to_version"}``. It covers all commits since the last check of the table.
    Compaction and Z-order change no rows, so they fire no event. If the table is created with rows or recreated,
    ``from_version`` is -1. Errors are logged, and the trigger continues to poll.

    At its first start, the trigger waits for the next version. It stores the last checked version in the state of the
    watched asset. After a restart of the triggerer, it continues from the stored version. Before Airflow 3.3.2, and if
    several assets have this trigger, nothing is stored, and the trigger waits for the next version again.

    If the triggerer is killed right after an event, the event is repeated.

    Args:
        table: a table's name in the registry, or its location.
        lakehouse_conn_id: as the argument of ``LakehouseHook``.
        poke_interval: seconds between two listings, which all triggers of a table share.
        registry: as the argument of ``TableTrigger``.
    """

    def __init__(
        self,
        *,
        table: str,
        poke_interval: float = 60.0,
        lakehouse_conn_id: str | None = None,
        registry: str | None = None,
    ) -> None:
        super().__init__()
        self.table = table
        self.poke_interval = poke_interval
        self.lakehouse_conn_id = lakehouse_conn_id
        self.registry = registry_of(table) if registry is None else registry

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "poke_interval": self.poke_interval,
                "lakehouse_conn_id": self.lakehouse_conn_id,
                "registry": self.registry,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        poll = TablePoll.of(self.lakehouse_conn_id, self.table, self.registry)
        stored = cursor = await self._stored_version()
        not_before = time.monotonic()
        while True:
            look = await poll.look(not_before)
            error, latest = look.error, -1 if look.version is None else look.version
            if error is None and cursor is None:
                cursor = latest
            if error is None and latest != cursor:
                try:
                    changed = await self._changed_rows(poll, cursor)
                except AirflowException as caught:
                    error = caught
                else:
                    cursor = latest
                    if changed is not None:
                        first, cursor = changed
                        yield TriggerEvent({"table": self.table, "from_version": first, "to_version": cursor})
            if error is not None:
                self.log.warning("table %s: %s; the next poke is in %s s", self.table, error, self.poke_interval)
            not_before = look.listed_at + self.poke_interval / 2
            await asyncio.sleep(look.listed_at + self.poke_interval - time.monotonic())
            # The version is stored after the sleep, because Airflow stores the event a moment after it is fired.
            if cursor is not None and cursor != stored and await self._store_version(cursor):
                stored = cursor

    async def _changed_rows(self, poll: TablePoll, since: int) -> tuple[int, int] | None:
        from lakehouse_lib.fleet.versions import changed_rows

        return await poll.run(lambda store: changed_rows(store, since))

    @property
    def _state(self) -> Any:
        """The state of the watched asset; None before Airflow 3.3.2."""
        state = getattr(self, "asset_state_store", None)
        return state if hasattr(state, "aget") else None

    async def _stored_version(self) -> int | None:
        while self._state is not None:
            try:
                value = await self._state.aget(_VERSION_KEY)
                return value if isinstance(value, int) else None
            except ValueError:  # several assets have this trigger
                return None
            except AirflowRuntimeError as error:  # Airflow's API may be unavailable for a while
                self.log.warning("table %s: the stored version is unknown: %s", self.table, error)
                await asyncio.sleep(self.poke_interval)
        return None

    async def _store_version(self, version: int) -> bool:
        """Store the version. False: Airflow's API has failed, so the caller has to try again.

        True also if the version cannot be stored, because Airflow is too old or several assets have this trigger.
        """
        try:
            if self._state is not None:
                await self._state.aset(_VERSION_KEY, version)
        except ValueError:  # as above
            return True
        except AirflowRuntimeError as error:
            self.log.warning("table %s: the version %d is not stored: %s", self.table, version, error)
            return False
        return True
