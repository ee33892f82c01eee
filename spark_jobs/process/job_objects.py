"""The objects in a store by which a job communicates with the tasks that wait for the job, on any machines.

The objects are in one folder. ``NAME`` is unique for each submission of a job:

- ``NAME.outcome.json``: the job's last line, its result or its error. The job puts this object once, at its end.
- ``NAME.pulse``: the job replaces this object every ten seconds, and deletes it at its end. If the pulse no longer
  changes, the job has died.
- ``NAME.stop``: a task puts this object to stop the job. The job checks for it before it begins, and at each pulse.

The folder also has an object ``TASK.handle.json`` of each task (``lakehouse_airflow.jobs.job_folder``). The names of
the task's jobs begin with ``TASK-``. No object contains a secret. The error in an outcome may quote a condition,
because the task shows the error. The task deletes the outcome as soon as it has read the outcome.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, ObjectNotFoundError
from lakehouse_lib.operations.results import JOBS_FOLDER as JOBS_FOLDER

if TYPE_CHECKING:
    from lakehouse_lib.store import ObjectStore

#: Seconds between two pulses of a job.
PULSE_SECONDS = 10.0
#: The number of days after which the objects of a task are deleted, if the task was never tried again.
RETENTION_DAYS = 7

_MS_A_DAY = 86_400_000
_OBJECT = re.compile(r"([0-9a-f]{32})(\.handle\.json|-[0-9a-f]{12}\.(outcome\.json|pulse|stop))")
_MOST_BYTES = 64 << 20
_NAME = re.compile(r"[0-9a-f]+-[0-9a-f]+")


class JobObjects:
    """The objects of one submission of a job.

    Args:
        place: the folder of the objects (``job_place``).
        name: the name of the submission: hexadecimal digits, ``-``, and hexadecimal digits.

    Raises:
        InvalidArgumentError: the name is not of this form.
    """

    def __init__(self, place: tuple[ObjectStore, str], name: str) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(
                f"the job's name is {name!r}; expected hexadecimal digits, a hyphen and hexadecimal digits"
            )
        self.store, folder = place
        self.name = name
        kinds = ("outcome.json", "pulse", "stop")
        self._outcome, self._pulse, self._stop = (f"{folder}/{name}.{kind}" for kind in kinds)

    def put_outcome(self, line: Mapping[str, Any]) -> None:
        """Put the job's last line."""
        self.store.put_if_absent(self._outcome, json.dumps(line).encode())

    def outcome(self, job: str) -> dict[str, Any] | None:
        """The last line of the job; None: the job has not ended, or it was killed.

        Args:
            job: the module's name in ``spark_jobs``.

        Raises:
            ValueError: the object is not the last line of this job (docs/job-outcome.schema.json).
        """
        meta = self.store.head(self._outcome)
        if meta is None:
            return None
        if meta.size > _MOST_BYTES:
            raise ValueError(f"the outcome has {meta.size} bytes; expected at most {_MOST_BYTES}")
        try:
            line = json.loads(self.store.read(self._outcome))
        except ObjectNotFoundError:
            return None
        is_line = isinstance(line, dict) and line.get("job") == job
        if not is_line or not (line.get("lakehouse") == "result" or _is_error(line)):
            raise ValueError(f"the object {self._outcome} is not the outcome of a job {job}")
        return dict(line)

    def pulse(self) -> bytes | None:
        """The current pulse, which changes while the job runs; None: the job has not begun, or has ended."""
        try:
            return self.store.read(self._pulse)
        except ObjectNotFoundError:
            return None

    def stop(self) -> None:
        """Ask the job to end."""
        self.store.put(self._stop, b"")

    def is_stopped(self) -> bool:
        """Whether a task has asked the job to end."""
        return self.store.head(self._stop) is not None

    def delete(self) -> None:
        """Delete the objects of a job that has ended."""
        self.store.delete_many([self._outcome, self._pulse, self._stop])

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Renew the pulse while the block runs. If a task asks the job to end, the process exits at once.

        Raises:
            InvalidArgumentError: a task has already asked the job to end.
        """
        if self.is_stopped():
            raise InvalidArgumentError(
                f"the job {self.name} was cancelled before it began", hint="Another try of its task runs the job"
            )
        self._beat()
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(PULSE_SECONDS):
                with suppress(DeltaError):  # a store may fail for a moment
                    if self.is_stopped():
                        os._exit(1)  # at once, so that nothing commits afterwards
                    self._beat()

        thread = threading.Thread(target=renew, name=f"pulse of {self.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with suppress(DeltaError):
                self.store.delete_many([self._pulse])

    def _beat(self) -> None:
        self.store.put(self._pulse, uuid.uuid4().hex.encode())


def job_place(location: str, options: Mapping[str, str] | None) -> tuple[ObjectStore, str]:
    """The store and the folder for the objects at a location.

    The store is that of the parent folder, which is a table or the ``records`` of the registry. The reason is that some
    stores are tested for conditional puts, with an object at the root of the store.
    """
    from lakehouse_lib.store import open_store

    parent, _, folder = location.rstrip("/").rpartition("/")
    return open_store(parent, None if options is None else dict(options)), folder


def delete_old(place: tuple[ObjectStore, str]) -> None:
    """Delete the objects of each task whose objects are all older than RETENTION_DAYS. Other files stay."""
    from lakehouse_lib.log import clock

    store, folder = place
    before = clock.now() - RETENTION_DAYS * _MS_A_DAY
    metas = store.list_from(folder)
    objects = [(match[1], meta) for meta in metas if (match := _OBJECT.fullmatch(meta.path.rpartition("/")[2]))]
    recent = {task for task, meta in objects if meta.modified >= before}
    store.delete_many([meta.path for task, meta in objects if task not in recent])


def _is_error(line: Mapping[str, Any]) -> bool:
    return (
        line.get("lakehouse") == "error"
        and isinstance(line.get("type"), str)
        and isinstance(line.get("message"), str)
        and isinstance(line.get("result", {}), dict)
    )
