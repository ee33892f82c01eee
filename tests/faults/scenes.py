"""Scenes that run in a separate process: a full disk, folders without write permission, a clock that jumps."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
from deltalake import DeltaTable as Peer

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.faults.private_mounts import small_disk

NOBODY = 65534


def rows(number: int, count: int = 200) -> pa.Table:
    """Rows of append ``number``: unique ids, and text that takes space."""
    ids = range(number * count, (number + 1) * count)
    return pa.table({"id": list(ids), "text": [f"{row_id:040d}" for row_id in ids]})


class Tried(NamedTuple):
    """The result of a verb.

    Attributes:
        error: the verb's error; "" if it succeeded.
        is_delta_error: whether the error is a DeltaError.
        version: the table's version afterwards.
    """

    verb: str
    error: str
    is_delta_error: bool
    version: int


def attempt(table: Path, verb: str, work: Callable[[], Any]) -> Tried:
    """Run a verb and record its error."""
    try:
        work()
    except Exception as error:
        return Tried(
            verb, f"{type(error).__name__}: {error}", isinstance(error, DeltaError), DeltaTable(table).version()
        )
    return Tried(verb, "", True, DeltaTable(table).version())


# --- a full disk


class Filled(NamedTuple):
    """The result of appends on a full disk.

    Attributes:
        fault: how the disk was limited.
        tried: the results of appends, with ever more space.
        our_ids, delta_rs: the ids that our reader and delta-rs read in the end.
        expected: the ids of the appends that succeeded.
        freed: whether an append succeeded once there was space.
        left_over: objects in the log's folder that were not part of the log while the disk was full.
    """

    fault: str
    tried: list[Tried]
    our_ids: list[int]
    delta_rs: list[int]
    expected: list[int]
    freed: Tried
    left_over: list[str]


def fill_disk(folder: Path, limit_files: bool = False) -> Filled:
    """Append to a table again and again, while the disk has space for one page, then two pages, and so on.

    Args:
        limit_files: limit the size of a file instead, because small disks need mounts.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    mounted = not limit_files and small_disk(folder, 1 << 20)
    table = folder / "table"
    # Write a checkpoint every second commit, so that checkpoints meet the full disk too.
    write_deltalake(table, rows(0), configuration={"delta.checkpointInterval": "2"})
    written, tried = [0], []
    for number in range(1, 40):
        with _room(folder, number // 2 * page if mounted else number * 512, mounted):
            result = attempt(table, "append", lambda number=number: write_deltalake(table, rows(number), mode="append"))
        tried.append(result)
        written += [] if result.error else [number]
    left_over = sorted(path.name for path in (table / "_delta_log").iterdir() if path.name.endswith(".tmp"))
    number = 1000
    freed = attempt(table, "append", lambda: write_deltalake(table, rows(number), mode="append"))
    written += [] if freed.error else [number]
    our_ids, peer = (
        sorted(content["id"].to_pylist()) for content in (DeltaTable(table).to_pyarrow_table(), _peer(table))
    )
    expected = [row_id for number in written for row_id in rows(number)["id"].to_pylist()]
    fault = "a tmpfs of 1 MiB" if mounted else "RLIMIT_FSIZE"
    return Filled(fault, tried, our_ids, peer, sorted(expected), freed, left_over)


@contextmanager
def _room(folder: Path, size: int, mounted: bool) -> Iterator[None]:
    """Make space for so many bytes on the disk, or in a file."""
    if not mounted:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return
    filler = folder / "filler"
    status = os.statvfs(folder)
    with filler.open("wb") as out:
        out.write(bytes(max(0, status.f_bavail * status.f_frsize - size)))
    try:
        yield
    finally:
        filler.unlink()


def _peer(table: Path) -> pa.Table:
    return Peer(str(table)).to_pyarrow_table()


# --- folders without write permission


def write_where_it_is_forbidden(table: Path, elsewhere: Path) -> list[Tried]:
    """Run every verb as a user who may read everything and write little.

    Args:
        elsewhere: a folder without write permission, for a new table.
    """
    other = table.with_name("before")
    write_deltalake(other, rows(0))  # imports everything while this process may still read the environment
    everything(other)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    tried = everything(table)
    try:
        write_deltalake(elsewhere / "new", rows(0))
    except Exception as error:
        tried.append(Tried("create", f"{type(error).__name__}: {error}", isinstance(error, DeltaError), -1))
    else:
        tried.append(Tried("create", "", True, 0))
    return tried


def everything(table: Path) -> list[Tried]:
    """All verbs that write, one after the other."""

    def opened() -> DeltaTable:
        return DeltaTable(table)

    verbs: dict[str, Callable[[], Any]] = {
        "append": lambda: write_deltalake(table, rows(7), mode="append"),
        "overwrite": lambda: write_deltalake(table, rows(8), mode="overwrite"),
        "delete": lambda: opened().delete("id = 3"),
        "delete all": lambda: opened().delete(),
        "compact": lambda: opened().optimize.compact(),
        "z_order": lambda: opened().optimize.z_order(["id"]),
        "checkpoint": lambda: opened().create_checkpoint(),
        "vacuum": lambda: opened().vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
        "read": lambda: opened().to_pyarrow_table(),
    }
    return [attempt(table, verb, work) for verb, work in verbs.items()]


# --- a clock that jumps


@contextmanager
def clock_off_by(seconds: float) -> Iterator[None]:
    """Shift this process's wall clock; files keep the kernel's time."""
    now_ns = time.time_ns

    def shifted_ns() -> int:
        return now_ns() + int(seconds * 1e9)

    def shifted() -> float:
        return shifted_ns() / 1e9

    with mock.patch.object(time, "time", shifted), mock.patch.object(time, "time_ns", shifted_ns):
        yield


def commit_while_the_clock_jumps(table: Path, jumps: list[float]) -> list[Tried]:
    """Append at each of these offsets in seconds; the commit files get the same wrong time."""
    tried = []
    for number, offset in enumerate(jumps):
        with clock_off_by(offset):
            tried.append(
                attempt(table, f"{offset:+.0f} s", lambda n=number: write_deltalake(table, rows(n), mode="append"))
            )
            moment = time.time()
        for path in (table / "_delta_log").glob(f"{tried[-1].version:020d}.*"):
            os.utime(path, (moment, moment))
    return tried
