"""The folder in a store where a task's jobs have their objects, and the handle by which a later try finds the job."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowException

from lakehouse_airflow.jobs.machine import kill_group, start_time, this_machine
from spark_jobs.command_line import TRY_OPTIONS
from spark_jobs.process.job_objects import JobObjects, delete_old, job_place

if TYPE_CHECKING:
    from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class Handle:
    """Where a job of a task runs.

    Attributes:
        name: the name of its objects.
        command: a digest of its command line and conditions; a try with another digest does not wait for it.
        machine, process, started: machine, id and start time of its process (``jobs.machine``), which leads a process
            group.
        adopter: the name of another try's submission, if that try waits for the job now.
    """

    name: str
    command: str
    machine: str
    process: int
    started: int
    adopter: str = ""

    def __post_init__(self) -> None:
        texts, numbers = (self.name, self.command, self.machine, self.adopter), (self.process, self.started)
        if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
            raise TypeError("a field of the handle has the wrong type")
        if self.process <= 1:
            raise ValueError("the handle has no process of a job")

    @property
    def is_here(self) -> bool:
        """Whether the job was started on this machine."""
        return self.machine == this_machine()

    def lives(self) -> bool:
        """Whether the process of a job on this machine is running."""
        return start_time(self.process) == self.started

    def kill(self) -> None:
        """Kill the process group of a job on this machine."""
        kill_group(self.process, self.started)


class JobFolder:
    """The folder of the jobs of one task.

    The handle is in the store and not in Airflow's task state, because users may edit task states, and Airflow 3.1 and
    3.2 have none.

    Args:
        location: a location in a store. Jobs of other tasks may use it, too.
        options: the options of the store.
        task: the id of the task in its run (``task_application``); None: no other try finds the job.
    """

    def __init__(self, location: str, options: Mapping[str, str] | None, task: str | None) -> None:
        self.location = location
        self._options = options
        self._task = hashlib.sha256((task or uuid.uuid4().hex).encode()).hexdigest()[:32]
        self._handle = f"{location.rstrip('/').rpartition('/')[2]}/{self._task}.handle.json"
        self._bytes: bytes | None = None

    def place(self) -> tuple[ObjectStore, str]:
        """The store and the folder of the objects."""
        return job_place(self.location, self._options)

    def objects(self, name: str) -> JobObjects:
        """The objects of a submission."""
        return JobObjects(self.place(), name)

    def new_name(self) -> str:
        """The name of another submission of the task."""
        return f"{self._task}-{uuid.uuid4().hex[:12]}"

    def handle(self) -> Handle | None:
        """The handle of the task's last submission; None without one."""
        self._bytes = self._stored()
        try:
            return None if self._bytes is None else Handle(**json.loads(self._bytes))
        except (TypeError, ValueError):  # of another release; it is replaced
            return None

    def put_handle(self, handle: Handle) -> None:
        """Replace the handle that ``handle`` has returned. An earlier try may have deleted it at its end.

        Raises:
            AirflowException: another try of the task has replaced it.
        """
        body = json.dumps(asdict(handle)).encode()
        store, _ = self.place()
        if not store.put_if_match(self._handle, body, self._bytes):
            stored = self._stored()
            is_put = stored == body or (stored is None and store.put_if_match(self._handle, body, None))
            if not is_put:
                raise AirflowException("another try of this task has started its job, so this try starts none")
        self._bytes = body

    def is_replaced(self) -> bool:
        """Whether another try of the task has replaced the handle that this try has put or read."""
        return self._bytes is not None and self._stored() not in (None, self._bytes)

    def forget(self, name: str) -> None:
        """Delete the objects of a job that has ended and, if it is the task's last one, the handle.

        If another try waits for the job, that try will delete them. The handle is deleted first, because a cleared task
        would take the outcome of a job with a handle for its own.

        Raises:
            DeltaError: the handle is not deleted; the next try reads the outcome.
        """
        from lakehouse_lib.errors import DeltaError

        if self.is_replaced():
            return
        handle = None if self._bytes is None else self.handle()
        if handle is not None and handle.name == name:
            self.place()[0].delete_many([self._handle])
        with suppress(DeltaError):  # deleted after RETENTION_DAYS
            self.objects(name).delete()

    def _stored(self) -> bytes | None:
        from lakehouse_lib.errors import ObjectNotFoundError

        try:
            return self.place()[0].read(self._handle)
        except ObjectNotFoundError:
            return None

    def delete_old(self) -> None:
        """Delete the objects of tasks that were never tried again (``job_objects.delete_old``)."""
        from lakehouse_lib.errors import DeltaError

        with suppress(DeltaError):  # the next job deletes them
            delete_old(self.place())


def digest(job: str, arguments: Sequence[str], private_files: Mapping[str, str]) -> str:
    """The digest of what a job does: its command line, and its private files without ``TRY_OPTIONS``.

    Args:
        private_files: the texts by the option that names the file.
    """
    files = sorted((name, text) for name, text in private_files.items() if name not in TRY_OPTIONS)
    return hashlib.sha256(json.dumps([job, *arguments, files]).encode()).hexdigest()
