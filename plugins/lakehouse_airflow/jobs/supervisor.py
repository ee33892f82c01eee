"""Tie a task to its supervisor, the Airflow process that started the task: if the supervisor dies, the task dies."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse_airflow.errors import JobError
from spark_jobs.process.parent import dying_with_parent


@contextmanager
def dying_with_supervisor() -> Iterator[None]:
    """While the block runs, the kernel kills this task if its supervisor dies.

    Airflow retries a task whose supervisor sends no heartbeat. Without this function, the old process would run at the
    same time as the retry, until it sends its next message to the supervisor. In a task without a supervisor
    (``dag.test()``), this function does nothing.

    Raises:
        AirflowException: the supervisor has already died.
    """
    from airflow.sdk.execution_time import task_runner  # tasks have imported it; other processes do not need it

    connection = getattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket", None)
    if not isinstance(connection, socket.socket):
        yield
        return
    with dying_with_parent():
        if _is_closed(connection):
            raise JobError("the supervisor of this task has died, so the job was not started")
        yield


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other end of the connection is closed. Reads nothing from it."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))
