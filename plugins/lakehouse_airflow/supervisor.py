"""The process of Airflow that has started this task, and without which the task counts as failed."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException

from spark_jobs.parent_process import dying_with_parent


@contextmanager
def dying_with_supervisor() -> Iterator[None]:
    """While the block runs, the kernel kills this task as soon as its supervisor is gone, at whatever moment.

    Airflow starts a task anew whose supervisor has gone silent, and the old one would go on beside it until it next has
    something to say. A task without a supervisor of its own (``dag.test()``) is left alone.

    Raises:
        AirflowException: the supervisor is gone already.
    """
    from airflow.sdk.execution_time import task_runner  # a task has it already, and nothing else needs it

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
