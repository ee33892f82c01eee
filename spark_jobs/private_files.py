"""Private files that a job gets from the process that submits it, in memory and on no disk.

Storage options hold secrets and predicates a person's keys, so they are neither on a command line nor in the
environment, and a file would stay when its owner is killed. They are in anonymous memory instead (``memfd_create``),
which is gone with the last process that has it open. It is the standard input of spark-submit and of the JVM that
spark-submit becomes; the driver's Python is a child of that JVM and opens it through ``/proc``.

On a job's command line such a file is named ``private:NAME``. Jobs that are run by hand name files instead.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "private:"
_MEMORY = "lakehouse-private-files"


def private_path(name: str) -> str:
    """The path that names the private file ``name`` on a job's command line."""
    return _PREFIX + name


def is_private(path: str) -> bool:
    """Whether a path on a job's command line names a private file."""
    return path.startswith(_PREFIX)


@contextmanager
def in_memory(files: Mapping[str, str]) -> Iterator[int]:
    """Put files (name to text) into anonymous memory; the descriptor is to be the standard input of spark-submit."""
    descriptor = os.memfd_create(_MEMORY)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(json.dumps(dict(files)).encode())
        yield descriptor
    finally:
        os.close(descriptor)


def read_private(path: str) -> str:
    """The text of a private file of this job.

    Raises:
        OSError: no task has submitted this job, or the process that did is gone, or it gave no such file.
    """
    memory = Path(f"/proc/{os.getppid()}/fd/0")
    files: dict[str, str] = json.loads(memory.read_bytes()) if _MEMORY in str(memory.readlink()) else {}
    name = path.removeprefix(_PREFIX)
    if name not in files:
        raise FileNotFoundError(errno.ENOENT, "the process that submitted this job gave it no such file")
    return files[name]
