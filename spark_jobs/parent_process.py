"""Make the kernel kill this process when the process that started it dies.

As a program, it ties itself to its parent and then becomes another program::

    python -I -S parent_process.py PARENT_PID PROGRAM [ARGUMENT ...]

The tie survives ``exec``, but not ``fork``. So the JVM that spark-submit becomes is tied to the
task, and the driver's Python, which the JVM starts, ties itself to the JVM. Linux only (``prctl(2)``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2


def die_with_parent() -> None:
    """Have the kernel kill this process (SIGKILL) as soon as the thread that started it has ended.

    A parent that is gone already is not noticed: look for it afterwards, in a way that fails without it.

    Raises:
        OSError: the kernel refuses.
    """
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))


@contextmanager
def dying_with_parent() -> Iterator[None]:
    """Like ``die_with_parent`` while the block runs; the earlier setting comes back after it. For one thread."""
    before = ctypes.c_int()
    _prctl(_PR_GET_PDEATHSIG, ctypes.byref(before))
    die_with_parent()
    try:
        yield
    finally:
        _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(before.value))


def tied_to_this_process(command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` so that it is killed as soon as the thread that starts it has ended."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _prctl(option: int, argument: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl fails")


def _become(parent: int, command: Sequence[str]) -> None:
    die_with_parent()
    if os.getppid() != parent:  # it was killed before the kernel knew
        sys.exit(f"{command[0]} is not started, because the process that asked for it is gone")
    try:
        os.execvp(command[0], command)  # noqa: S606 - a list, and no shell
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
