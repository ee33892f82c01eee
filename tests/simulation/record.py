"""The record of a campaign that takes several sittings: a file keeps the finished runs, and the next sitting
continues.

Only runs of the same code count together. So the file has a digest of the files that runs load. Files that no run
loads (another store, an engine) may change meanwhile.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.simulation.campaign import Tally

_ROOT = Path(__file__).parents[2]
#: A program that makes enough runs to import all files that runs import, and prints the files.
_LOADING = """
import sys
from tests.simulation.campaign import tally
tally(0, 100)
print(*(one.__file__ for one in list(sys.modules.values()) if getattr(one, "__file__", None)), sep="\\n")
"""


class RecordError(Exception):
    """A record with which the campaign cannot continue."""


@dataclass
class Record:
    """The results of a campaign so far.

    Attributes:
        total: the result of the finished pieces.
        done: the first seeds of these pieces.
        seconds: the time of all sittings.
        sittings: the number of sittings, this one included.
    """

    path: Path | None
    first: int
    count: int
    total: Tally = field(default_factory=Tally)
    done: set[int] = field(default_factory=set)
    seconds: float = 0
    sittings: int = 1

    def add(self, start: int, piece: Tally) -> None:
        self.total.merge(piece)
        self.done.add(start)

    def save(self, seconds: float) -> None:
        """Replace the file, if there is one.

        Args:
            seconds: the time of this sitting so far.
        """
        if self.path is None:
            return
        total = self.total
        said = {
            **_identity(self.first, self.count),
            "seconds": self.seconds + seconds,
            "sittings": self.sittings,
            "done": sorted(self.done),
            "seeds": total.seeds,
            "calls": total.calls,
            "versions": total.versions,
            "outcomes": total.outcomes,
            "violations": total.violations,
            "shapes": base64.b64encode(np.array(sorted(total.shapes), np.uint64).tobytes()).decode(),
        }
        aside = self.path.with_name(f"{self.path.name}.tmp")
        aside.write_text(json.dumps(said))
        aside.replace(self.path)


@contextmanager
def open_record(path: Path | None, first: int, count: int) -> Iterator[Record]:
    """The record of this campaign, for one process at a time: a new record, or that of the sittings before.

    Args:
        path: None: no record is kept.

    Raises:
        RecordError: the file is not a record, or has other seeds or runs of other code; or another process has it
            open.
        OSError: the file cannot be written.
    """
    if path is None:
        yield Record(None, first, count)
        return
    with _lock_of(path).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecordError(f"another process has {path} open") from error
        yield _read(path, first, count) if path.exists() else Record(path, first, count)


def _lock_of(path: Path) -> Path:
    if not path.parent.is_dir() or path.is_dir():
        raise RecordError(f"{path} cannot be created; pass a file in an existing folder")
    return path.with_name(f"{path.name}.lock")


def _read(path: Path, first: int, count: int) -> Record:
    try:
        said = json.loads(path.read_text())
        identity = {name: said[name] for name in _identity(first, count)}
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path} is not a valid record: {error}") from error
    for name, expected in _identity(first, count).items():
        if identity[name] != expected:
            raise RecordError(
                f"{path} has the {name} {identity[name]}; expected {expected}: "
                "delete it to start again, or pass another file"
            )
    total = Tally(
        said["seeds"],
        said["calls"],
        said["versions"],
        set(np.frombuffer(base64.b64decode(said["shapes"]), np.uint64).tolist()),
        Counter(said["outcomes"]),
        [(seed, violation) for seed, violation in said["violations"]],
    )
    return Record(path, first, count, total, set(said["done"]), said["seconds"], said["sittings"] + 1)


def _identity(first: int, count: int) -> dict[str, object]:
    """The values that must be equal for runs to count together."""
    versions = f"Python {platform.python_version()}, pyarrow {pa.__version__}"
    return {"first seed": first, "number of seeds": count, "code": code_of_runs(), "libraries": versions}


@cache
def code_of_runs() -> str:
    """A digest of ``files_of_runs``."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files_of_runs():
        digest.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def files_of_runs() -> list[Path]:
    """The project's own files that runs load, sorted."""
    done = subprocess.run([sys.executable, "-c", _LOADING], cwd=_ROOT, capture_output=True, text=True, check=True)
    files = {path for path in map(Path, done.stdout.splitlines()) if path.is_relative_to(_ROOT)}
    return sorted(path for path in files if ".venv" not in path.parts)
