"""Find out by its pulse whether the job of an earlier try still runs, on any machine."""

from __future__ import annotations

import time

from spark_jobs.process.job_objects import PULSE_SECONDS, JobObjects

#: A job counts as dead if its pulse has not changed for 90 seconds, or has not begun after 600 seconds.
_SECONDS_WITHOUT_PULSE, _SECONDS_TO_BEGIN = 90.0, 600.0


class Pulse:
    """The state of a job, judged by the changes of its pulse. The clocks of machines are not compared."""

    def __init__(self, objects: JobObjects) -> None:
        self._objects = objects
        self._last = objects.pulse()
        # Before its first pulse, a job may fetch its packages.
        self._seconds = _SECONDS_WITHOUT_PULSE if self._last else _SECONDS_TO_BEGIN
        self._change = self._look = time.monotonic()

    def is_due(self) -> bool:
        """Whether the pulse has to be read again."""
        return time.monotonic() - self._look >= PULSE_SECONDS

    def lives(self) -> bool:
        """Whether the job runs. Reads the pulse only if that ``is_due``."""
        now = time.monotonic()
        if not self.is_due():
            return True
        self._look = now
        pulse = self._objects.pulse()
        if pulse is None and self._last is not None:
            return False  # a job deletes its pulse when it ends
        if pulse != self._last:
            self._last, self._change, self._seconds = pulse, now, _SECONDS_WITHOUT_PULSE
        return now - self._change < self._seconds
