"""Poll each table once for all triggers of a process that wait for the table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.exceptions import AirflowRuntimeError

from lakehouse_airflow.errors import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_lib.fleet.registry import RegistryError

if TYPE_CHECKING:
    from lakehouse_lib.store import ObjectStore

_Answer = TypeVar("_Answer")

#: The number of threads for listings. A store that does not answer blocks its thread, so listings do not run in the
#: threads of the event loop, which other triggers need.
_THREADS = 16
#: The number of seconds after which the connection and the registry are read again.
_KEPT_SECONDS = 60.0


@dataclass(frozen=True)
class ListedVersion:
    """The result of a listing.

    Attributes:
        listed_at: the start of the listing (``time.monotonic``).
        version: the latest version; None: there is no table, or the listing failed.
        error: the error of a failed listing; AirflowFailException if a repetition cannot help (``errors.failure``).
    """

    listed_at: float
    version: int | None
    error: AirflowException | None = None


class TablePoll:
    """The listings of a table's log in this process. Listings do not overlap, and all triggers share their results.

    A listing is usually one request to the store. The store stays open for a minute, so a change of the connection or
    of the registry takes effect within a minute. The poll exists as long as a trigger has a reference to it.
    """

    def __init__(self, conn_id: str | None, table: str, registry: str | None) -> None:
        self._conn_id, self._table, self._registry = conn_id, table, registry
        self._hook: _SharedHook | None = None
        self._opener: _SharedHook | None = None  # the hook with the table's connection
        self._store: ObjectStore | None = None
        self._open_until = 0.0
        self._running: Future[ListedVersion] | None = None
        self._last: ListedVersion | None = None
        self._version: int | None = None

    @classmethod
    def of(cls, conn_id: str | None, table: str, registry: str | None = None) -> TablePoll:
        """The poll of a table, which all callers in this process share.

        Args:
            conn_id, registry: as the arguments of ``LakehouseHook``.
        """
        key = (conn_id, table, registry)
        with _lock:
            poll = _polls.get(key)
            if poll is None:
                poll = _polls[key] = cls(*key)
            return poll

    async def look(self, not_before: float) -> ListedVersion:
        """The result of a listing that began at ``not_before`` or later (``time.monotonic``).

        An older listing may lack a version that the caller has seen.
        """
        while self._last is None or self._last.listed_at < not_before:
            if self._running is None or self._running.done():
                self._running = _pool().submit(self._list)
            # A cancelled caller does not cancel the listing, because other triggers may wait for it.
            await asyncio.shield(asyncio.wrap_future(self._running))
        return self._last

    async def run(self, work: Callable[[ObjectStore], _Answer]) -> _Answer:
        """Call ``work`` with the table's store, in a thread. Errors are raised as by ``_as_poll_error``."""

        def in_thread() -> _Answer:
            with _as_poll_error():
                return work(self._open())

        return await asyncio.shield(asyncio.wrap_future(_pool().submit(in_thread)))

    def _list(self) -> ListedVersion:
        from lakehouse_lib.fleet.versions import latest_version

        at = time.monotonic()
        try:
            with _as_poll_error():
                self._version = latest_version(self._open(), self._version)
            self._last = ListedVersion(at, self._version)
        except AirflowException as error:
            # A new exception, because ``error`` refers to the frames of its traceback.
            is_permanent = isinstance(error, AirflowFailException)
            self._last = ListedVersion(
                at, None, (AirflowFailException if is_permanent else AirflowException)(str(error))
            )
        return self._last

    def _open(self) -> ObjectStore:
        store = self._store
        if store is not None and time.monotonic() < self._open_until:
            return store
        self._hook, self._store = _SharedHook.of(self._conn_id, self._registry), None
        try:
            self._opener, location = self._hook.opener(self._table)
        except RegistryError:
            if self._hook.is_new:
                raise
            # The table may have been added to the registry after the hook has read it.
            self._hook = _SharedHook.of(self._conn_id, self._registry, again=True)
            self._opener, location = self._hook.opener(self._table)
        self._store = store = self._opener.store(location)
        self._open_until = min(self._hook.until, self._opener.until)
        return store


class _SharedHook:
    """A hook that reads its connection and the registry once for many tables."""

    def __init__(self, conn_id: str | None, registry: str | None) -> None:
        self._hook, self._registry = LakehouseHook(conn_id, registry=registry), registry
        self._lock = Lock()
        self.until = time.monotonic() + _KEPT_SECONDS
        self.is_new = True

    @classmethod
    def of(cls, conn_id: str | None, registry: str | None, *, again: bool = False) -> _SharedHook:
        """The hook of a connection. A new hook is made after a minute, or with ``again``."""
        with _lock:
            hook = _hooks.get((conn_id, registry))
            if hook is None or again or time.monotonic() >= hook.until:
                hook = _hooks[conn_id, registry] = cls(conn_id, registry)
            return hook

    def store(self, table: str) -> ObjectStore:
        with self._lock:
            return self._hook.store(table)

    def opener(self, table: str) -> tuple[_SharedHook, str]:
        """The shared hook with the connection that opens a table, and the location of the table.

        Each connection has its own lock, so a connection that does not answer blocks only its own tables.
        """
        with self._lock:
            opener, location = self._hook.opener(table), self._hook.uri(table)
            self.is_new = False
        return self if opener is self._hook else _SharedHook.of(opener.conn_id, self._registry), location


@contextmanager
def _as_poll_error() -> Iterator[None]:
    """Raise errors as ``as_task_failure`` does. Errors of Airflow's API, which serves the
    connection, count as temporary."""
    try:
        with as_task_failure():
            yield
    except AirflowRuntimeError as error:
        raise AirflowException(str(error)) from None


_lock = Lock()
_polls: WeakValueDictionary[tuple[str | None, str, str | None], TablePoll] = WeakValueDictionary()
_hooks: WeakValueDictionary[tuple[str | None, str | None], _SharedHook] = WeakValueDictionary()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="lakehouse-poll")
