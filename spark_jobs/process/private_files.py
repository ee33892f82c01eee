"""Private files, which a job gets in memory from the process that submits the job. They are never on a disk.

Storage options contain secrets, and predicates may contain a person's keys. These texts must not be on a command line
or in the environment. A file on a disk would remain if the process were killed. So the texts are in anonymous memory
(``memfd_create``), which the kernel frees when the last process closes it. This memory is the standard input of
spark-submit and of the JVM that spark-submit becomes. The driver's Python is a child of that JVM and opens the memory
through ``/proc``. On Spark Connect, no JVM is started: the memory is the standard input of the job's Python process.

On a job's command line, ``private:NAME`` names a private file. A job that is started by hand gets paths of files on a
disk instead.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_PREFIX = "private:"
_MEMORY = "lakehouse-private-files"
_files: ContextVar[Mapping[str, str] | None] = ContextVar("private files of a job in this process", default=None)


def private_path(name: str) -> str:
    """The path of the private file ``name`` on a job's command line."""
    return _PREFIX + name


def is_private(path: str) -> bool:
    """Whether a path on a job's command line is that of a private file."""
    return path.startswith(_PREFIX)


@contextmanager
def in_memory(files: Mapping[str, str]) -> Iterator[int]:
    """Put files (name -> text) into anonymous memory. Yields the descriptor for the standard input of spark-submit."""
    descriptor = os.memfd_create(_MEMORY)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(json.dumps(dict(files)).encode())
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def in_this_process(files: Mapping[str, str]) -> Iterator[None]:
    """Until the block ends, ``files`` (name -> text) are the private files of a job that runs in this process."""
    token = _files.set(files)
    try:
        yield
    finally:
        _files.reset(token)


def read_private(path: str) -> str:
    """The text of a private file of this job.

    Raises:
        OSError: the job was not submitted by a task, the submitting process is gone, or it did not pass this file.
    """
    files = _files.get()
    if files is None:
        files = _in_memory("self") or _in_memory(os.getppid()) or {}
    name = path.removeprefix(_PREFIX)
    if name not in files:
        raise FileNotFoundError(errno.ENOENT, "the process that submitted this job did not pass this file")
    return files[name]


def _in_memory(process: int | str) -> dict[str, str] | None:
    """The files in the standard input of a process; None: the standard input is not memory of ``in_memory``."""
    memory = Path(f"/proc/{process}/fd/0")
    return json.loads(memory.read_bytes()) if _MEMORY in str(memory.readlink()) else None
