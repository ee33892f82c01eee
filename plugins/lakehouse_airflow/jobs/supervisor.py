"""The Airflow process that started this task; when it dies, Airflow counts the task as failed."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException

from spark_jobs.parent_process import dying_with_parent


@contextmanager
def dying_with_supervisor() -> Iterator[None]:
    """While the block runs, the kernel kills this task as soon as its supervisor dies.

    Airflow retries a task whose supervisor sends no heartbeat; the old process would run beside the retry until its
    next message. A task without a supervisor of its own (``dag.test()``) is left alone.

    Raises:
        AirflowException: the supervisor is gone already.
    """
    from airflow.sdk.execution_time import task_runner  # imported already in a task, and needed nowhere else

    connection = getattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket", None)
    if not isinstance(connection, socket.socket):
        yield
        return
    with dying_with_parent():
        if _is_closed(connection):
            raise AirflowException("the supervisor of this task is gone, so nothing more is started")
        yield


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other end is closed. What it has sent stays unread."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))
