"""The machine and the process of a job, so that another try of its task finds it again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_START_TIME, _STATE = 19, 0  # fields of /proc/PID/stat after the name


def this_machine() -> str:
    """An id of this boot of the machine and of the container. Processes with the same id share their process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - not a path


def start_time(process: int) -> int | None:
    """The start time of a process of this machine, in ticks since the boot; None: the process has ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in ("Z", "X") else int(fields[_START_TIME])


def kill_group(process: int, started: int) -> None:
    """Kill the process group that ``process`` leads, if this process was started at ``started`` (``start_time``)."""
    if start_time(process) == started:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
