"""Make the kernel kill this process when its parent process dies. Linux only (``prctl(2)``).

As a program, this module sets its parent death signal and then executes another program::

    python -I -S parent.py PARENT_PID GATE PROGRAM [ARGUMENT ...]

The setting survives ``exec``, but not ``fork``. spark-submit becomes a JVM by ``exec``, so the JVM dies with the task.
The JVM starts the driver's Python, which makes its own setting and dies with the JVM.

GATE is the descriptor of a pipe, or ``-`` for none. With a gate, this program waits for a byte in the pipe, and then
executes PROGRAM, which outlives the parent. If the parent dies before it has written the byte, PROGRAM is not executed.
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
    """Make the kernel kill this process (SIGKILL) as soon as the thread that started it ends.

    The setting has no effect if the parent has already died, so check the parent afterwards.

    Raises:
        OSError: the kernel refuses the setting.
    """
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))


@contextmanager
def dying_with_parent() -> Iterator[None]:
    """Call ``die_with_parent`` for the block, and restore the earlier setting of the current thread after it."""
    before = ctypes.c_int()
    _prctl(_PR_GET_PDEATHSIG, ctypes.byref(before))
    die_with_parent()
    try:
        yield
    finally:
        _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(before.value))


def tied_to_this_process(command: Sequence[str], gate: int | None = None) -> list[str]:
    """The command line that runs ``command``, which the kernel kills as soon as the thread that has started it ends.

    Args:
        gate: the reading end of a pipe that the command inherits. The command is executed after this process has
            written a byte into the pipe, and from then on the kernel does not kill it. None: the command is executed at
            once.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), "-" if gate is None else str(gate), *command]


def _prctl(option: int, argument: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _become(parent: int, gate: str, command: Sequence[str]) -> None:
    die_with_parent()
    is_orphan = os.getppid() != parent  # the parent died before the setting took effect
    if gate != "-":
        is_orphan = is_orphan or os.read(int(gate), 1) == b""
        os.close(int(gate))
    if is_orphan:
        sys.exit(f"{command[0]} is not started, because the parent process is gone")
    if gate != "-":
        _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(0))
    try:
        os.execvp(command[0], command)  # noqa: S606 - a list, and no shell
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
