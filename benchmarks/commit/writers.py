"""Writer processes that append to one table concurrently.

``python -m benchmarks.commit.writers CONTESTANT PROCESSES TABLE COMMITS [FOLDER]`` prints a line of JSON as ``runs``
does. ``seconds`` is the time from the start of all writers, after their imports, to the last commit. With a FOLDER
(``s3://bucket/folder``) a copy of the table is put there; its credentials are in the environment.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake

from benchmarks.commit.committers import LibraryCommitter, committer
from benchmarks.commit.runs import copy
from benchmarks.memory import Peak, family


class Refusals:
    """Counts the puts of commits that lost a race."""

    def __init__(self, store: Any) -> None:
        self.count = 0
        self._put = store.put_if_absent
        store.put_if_absent = self._counted

    def _counted(self, path: str, data: bytes) -> bool:
        won: bool = self._put(path, data)
        self.count += not won and path.endswith(".json")
        return won


def work(name: str, table: str, number: int, count: int, line: Connection) -> None:
    """Append ``count`` batches, and send the time of the end and the number of failed tries.

    The process first sends that it is ready, and waits for an answer. If the library gives up a commit, the append is
    repeated.
    """
    from benchmarks.commit.batches import batch

    who = committer(name)
    refusals: list[Refusals] = []
    if isinstance(who, LibraryCommitter):
        fresh = who.store

        def store(table: str) -> Any:
            opened = fresh(table)
            refusals.append(Refusals(opened))
            return opened

        who.store = store  # type: ignore[method-assign]
    batches = [batch(1000 * (number + 1) + index) for index in range(count)]
    given_up = 0
    line.send("ready")
    line.recv()
    for rows in batches:
        while True:
            try:
                who.append(table, rows)
                break
            except Exception as error:
                if type(error).__name__ not in ("CommitFailedError", "TooManyRetriesError"):
                    raise
                given_up += 1
    line.send((time.monotonic(), sum(refusal.count for refusal in refusals), given_up))


def main(name: str, processes: int, source: str, commits: int, folder: str = "") -> None:
    with _remote(source, folder) if folder else nullcontext(str(copy(Path(source)))) as table:
        before = DeltaTable(table).version()
        share = commits // processes
        crew = [_start(name, table, number, share) for number in range(processes)]
        for writer in crew:
            _next_word(*writer)
        with Peak(family) as memory:
            start = time.monotonic()
            for _, line in crew:
                line.send("begin")
            ends = [_next_word(*writer) for writer in crew]
        after = DeltaTable(table)
        done = after.version() - before
        if done != share * processes:
            raise SystemExit(f"the table has {done} commits; expected {share * processes}")
        # delta-rs records in each commit the number of tries before.
        infos = [entry.get("operationMetrics", {}) for entry in after.history()]
        retries = sum(refused for _, refused, _ in ends) + sum(int(info.get("num_retries", 0)) for info in infos)
    seconds = max(moment for moment, _, _ in ends) - start
    more = {
        "rate": done / seconds,
        "retries": retries / done,
        "given_up": sum(tries_given_up for _, _, tries_given_up in ends),
    }
    answer = {"seconds": seconds, "peak_mb": memory.megabytes, "more": more, "count": done, "digest": ""}
    print(json.dumps(answer), flush=True)


def _start(name: str, table: str, number: int, share: int) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=work, args=(name, table, number, share, child_end), daemon=True)
    process.start()
    child_end.close()  # so that the pipe closes when the writer ends
    return process, parent_end


def _next_word(process: BaseProcess, line: Connection) -> Any:
    try:
        return line.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"a writer ended before its last commit, with exit code {process.exitcode}") from None


@contextmanager
def _remote(source: str, folder: str) -> Iterator[str]:
    from lakehouse_lib.store import open_store

    location = f"{folder.rstrip('/')}/commit-{uuid.uuid4()}"
    write_deltalake(location, DeltaTable(source).to_pyarrow_table())
    try:
        yield location
    finally:
        store = open_store(location)
        store.delete_many([meta.path for meta in store.walk()])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
