"""The folder in a store for the objects of a task's jobs, and the handle by which a later try finds a job."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakehouse_airflow.errors import JobError
from lakehouse_airflow.jobs.machine import kill_group, start_time, this_machine
from spark_jobs.process.command_line import TRY_OPTIONS
from spark_jobs.process.job_objects import JobObjects, delete_old, job_place

if TYPE_CHECKING:
    from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class Handle:
    """Where a job of a task runs.

    Attributes:
        name: the name of the job's objects.
        command: the ``digest`` of the job; a try with another digest does not wait for the job.
        machine, process, started: machine, id and start time of the job's process (``jobs.machine``), which leads a
            process group.
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
    def is_on_this_machine(self) -> bool:
        """Whether the job was started on this machine."""
        return self.machine == this_machine()

    def lives(self) -> bool:
        """Whether the process of the job is running on this machine."""
        return start_time(self.process) == self.started

    def kill(self) -> None:
        """Kill the process group of the job, if it is running on this machine."""
        kill_group(self.process, self.started)


class JobFolder:
    """The folder of the jobs of one task.

    The handle is in the store and not in Airflow's task state, because users may edit task states, and Airflow 3.1 and
    3.2 have none.

    Args:
        location: a location in a store, which jobs of other tasks may use, too.
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
        """A new name for a submission of the task."""
        return f"{self._task}-{uuid.uuid4().hex[:12]}"

    def handle(self) -> Handle | None:
        """The handle of the task's last submission; None if there is none."""
        self._bytes = self._read_handle()
        try:
            return None if self._bytes is None else Handle(**json.loads(self._bytes))
        except (TypeError, ValueError):  # a handle of another release, which is replaced
            return None

    def put_handle(self, handle: Handle) -> None:
        """Replace the handle that ``handle`` has returned, even if an earlier try has deleted that handle meanwhile.

        Raises:
            AirflowException: another try of the task has replaced the handle.
        """
        body = json.dumps(asdict(handle)).encode()
        store, _ = self.place()
        if not store.put_if_match(self._handle, body, self._bytes):
            stored = self._read_handle()
            is_put = stored == body or (stored is None and store.put_if_match(self._handle, body, None))
            if not is_put:
                raise JobError("another try of this task has started the job, so this try does not start it")
        self._bytes = body

    def is_replaced(self) -> bool:
        """Whether another try of the task has replaced the handle that this try has put or read."""
        return self._bytes is not None and self._read_handle() not in (None, self._bytes)

    def forget(self, name: str) -> None:
        """Delete the objects of a job that has ended, and the handle if it is the handle of this job.

        If another try waits for the job, nothing is deleted, because that try deletes the objects. The handle is
        deleted first, because a cleared task that finds both handle and outcome takes the old outcome as its own
        outcome.

        Raises:
            DeltaError: the handle could not be deleted. The outcome stays, and the next try reads it.
        """
        from lakehouse_lib.errors import DeltaError

        if self.is_replaced():
            return
        handle = None if self._bytes is None else self.handle()
        if handle is not None and handle.name == name:
            self.place()[0].delete_many([self._handle])
        with suppress(DeltaError):  # ``delete_old`` deletes them after RETENTION_DAYS
            self.objects(name).delete()

    def _read_handle(self) -> bytes | None:
        from lakehouse_lib.errors import ObjectNotFoundError

        try:
            return self.place()[0].read(self._handle)
        except ObjectNotFoundError:
            return None

    def delete_old(self) -> None:
        """Delete old objects of all tasks in the folder (``job_objects.delete_old``). Ignores errors of the store."""
        from lakehouse_lib.errors import DeltaError

        with suppress(DeltaError):  # the next job tries again
            delete_old(self.place())


def digest(job: str, arguments: Sequence[str], private_files: Mapping[str, str]) -> str:
    """The digest of a job's command line and of its private files except ``TRY_OPTIONS``.

    Args:
        private_files: the texts by the option that names the file.
    """
    files = sorted((name, text) for name, text in private_files.items() if name not in TRY_OPTIONS)
    return hashlib.sha256(json.dumps([job, *arguments, files]).encode()).hexdigest()
