"""Start a process tree and stop it, even if the process that started this guard is killed.

Run by path: `python airflow_guard.py [--stay] [--grace SECONDS] COMMAND...`. The guard starts COMMAND in a new
session and waits. It stops the tree on SIGTERM or SIGINT, when COMMAND ends, and (without `--stay`) when its standard
input closes: the pipe from the demo closes even if the demo is killed with SIGKILL.

A process belongs to the tree if it descends from COMMAND, is in its session, or has the mark of this run in its
environment (`LAKEHOUSE_DEMO_MARK`). The mark also finds orphaned processes, and those in a session of their own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

import psutil

MARK = "LAKEHOUSE_DEMO_MARK"
# The time that Airflow's components have to end after SIGINT.
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.2


def marked(mark: str) -> list[psutil.Process]:
    """All processes with `mark` in their environment, except this process."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return processes


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL and wait until the processes have ended; psutil never signals a reused process id."""
    dying = []
    for process in processes:
        try:
            process.kill()
            dying.append(process)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(dying, timeout=5)


def kill_marked(mark: str) -> None:
    """Kill all processes with the mark, and repeat, because a process may start another before it is killed."""
    for _ in range(20):
        left = marked(mark)
        if not left:
            return
        kill(left)


def _tree(leader: psutil.Process) -> set[psutil.Process]:
    try:
        tree = {leader, *leader.children(recursive=True)}
    except psutil.NoSuchProcess:
        tree = set()
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader.pid:
                tree.add(process)
        except (ProcessLookupError, PermissionError):
            continue
    return tree


def stop_tree(leader: psutil.Process, mark: str, grace_seconds: float = GRACE_SECONDS) -> None:
    """Interrupt the leader, wait `grace_seconds` for the tree to end, and kill the rest."""
    tree = _tree(leader)
    with contextlib.suppress(psutil.NoSuchProcess):
        # SIGINT, because after SIGTERM `airflow standalone` dies at once and orphans its components.
        leader.send_signal(signal.SIGINT)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline:
        tree |= _tree(leader)
        if not _alive(tree):
            break
        time.sleep(POLL_SECONDS)
    kill(_alive(tree))
    kill_marked(mark)


def _alive(tree: set[psutil.Process]) -> list[psutil.Process]:
    alive = []
    for process in tree:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.NoSuchProcess:
            continue
    return alive


def main(arguments: list[str]) -> int:
    stay = arguments[:1] == ["--stay"]
    command = arguments[1:] if stay else arguments
    grace_seconds = GRACE_SECONDS
    if command[:1] == ["--grace"]:
        grace_seconds, command = float(command[1]), command[2:]
    mark = os.environ[MARK]

    # A signal handler only writes a byte into this pipe; the loop below reads it and does the work.
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(write_end, b"!"))

    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # A shell starts background jobs with SIGINT ignored, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    leader = psutil.Process(child.pid)
    watched = [read_end] if stay else [read_end, sys.stdin.fileno()]
    while child.poll() is None:
        if select.select(watched, [], [], POLL_SECONDS)[0]:
            break
    stop_tree(leader, mark, grace_seconds)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
