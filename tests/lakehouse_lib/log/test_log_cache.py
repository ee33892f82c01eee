"""The cache of logs in a process: bounded in bytes, and as fast with many entries as with few."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.cache import ENTRY, LogCache
from lakehouse_lib.log.checkpoint.read import read_checkpoint
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.segment import load_segment
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, ObjectMeta
from tests.checkpoint_files import put_sidecar, put_v2
from tests.days_table import META, file
from tests.log_builder import add, put
from tests.table_builder import paths_of

STORE = LocalStore("/t")


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cache.CACHE.clear()
    yield
    cache.CACHE.clear()


def meta(name: object) -> ObjectMeta:
    return ObjectMeta(str(name), 1, 1)


def test_the_cache_stays_within_its_bound() -> None:
    bounded = LogCache(bound=3 * (ENTRY + 30))
    for number in range(10):
        assert bounded.get(STORE, [meta(number)], lambda number=number: number, lambda _: 30) == number
        assert bounded.nbytes == min(number + 1, 3) * (ENTRY + 30)
    assert bounded.get(STORE, [meta(9)], lambda: "again", lambda _: 30) == 9
    assert bounded.get(STORE, [meta(0)], lambda: "again", lambda _: 30) == "again"
    bounded.forget(STORE, [meta(9)])
    assert bounded.get(STORE, [meta(9)], lambda: "anew", lambda _: 30) == "anew"
    bounded.clear()
    assert bounded.nbytes == 0


def test_young_objects_are_not_cached() -> None:
    young = ObjectMeta("young", 1, int(time.time() * 1000))
    assert [LogCache().get(STORE, [young], lambda n=n: n, lambda _: 1) for n in (1, 2)] == [1, 2]


def test_growing_entries_evict_other_entries() -> None:
    bounded = LogCache(bound=20 * ENTRY)
    grown = [[0], [0]]
    for number, size in enumerate(grown):
        bounded.get(STORE, [meta(number)], lambda size=size: size, lambda size: size[0], grows=True)
    grown[0][0] = grown[1][0] = 12 * ENTRY
    # Both a request for another object and one for these objects drop the older entry.
    bounded.get(STORE, [meta("other")], lambda: None, lambda _: 0)
    assert bounded.nbytes == 14 * ENTRY
    assert bounded.get(STORE, [meta(1)], lambda: [1], lambda size: size[0], grows=True) is grown[1]
    grown[1][0] = 30 * ENTRY
    bounded.get(STORE, [meta(1)], lambda: [1], lambda size: size[0], grows=True)
    assert bounded.nbytes == 0


@pytest.mark.parametrize("grows", [False, True])
def test_the_cost_of_a_hit_does_not_depend_on_the_number_of_entries(grows: bool) -> None:
    measured = []
    full = LogCache()
    for _ in range(2):
        measured.clear()
        for number in range(1_000):
            full.get(STORE, [meta(number)], lambda n=number: n, lambda n: measured.append(n) or 0, grows=grows)
    assert len(measured) == (4_000 if grows else 0)


def test_threads_that_read_at_once_share_one_value() -> None:
    shared = LogCache()

    def slowly() -> str:
        shared.get(STORE, [meta(1)], lambda: "first", lambda _: 1)
        return "second"

    assert [shared.get(STORE, [meta(1)], slowly, lambda _: 1) for _ in range(2)] == ["first"] * 2
    assert shared.nbytes == ENTRY + 1


@pytest.mark.slow
def test_the_bound_covers_the_memory_of_the_process() -> None:
    """Commits with one file each, whose columns are small compared with their Arrow objects."""
    program = """
        from lakehouse_lib.log.commits.action_lines import read_actions
        from lakehouse_lib.log.cache import LogCache
        from lakehouse_lib.log.commits.commit_file import CommitActions, commit_nbytes
        from lakehouse_lib.store import LocalStore
        from lakehouse_lib.store import ObjectMeta

        def resident():
            with open("/proc/self/statm") as numbers:
                return int(numbers.read().split()[1]) * 4096

        def commit(number):
            actions = read_actions([LINE])
            return CommitActions(number, actions.adds, actions.removes, actions.changes)

        LINE = %r
        commits = LogCache(bound=16 << 20)
        for number in range(-50, 1_500):
            if number == 0:
                commits.clear()
                before = resident()
            meta = ObjectMeta(str(number), 1, 1)
            commits.get(LocalStore("/t"), [meta], lambda: commit(number), commit_nbytes)
        print(resident() - before)
    """
    line = json.dumps(file(1)).encode()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) % line], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) < 24 << 20


def test_a_sidecar_that_was_put_back_is_read(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), fsync=False)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"]}
    sidecar = put_sidecar(store, [file(1), file(2)])
    put_v2(store, 0, "json", [{"protocol": protocol | {"writerFeatures": ["v2Checkpoint"]}}, META, sidecar])
    put(store, 1, file(3))
    for listed_object in [*store.list_from(file_names.LOG), *store.list_from(file_names.SIDECARS)]:
        os.utime(tmp_path / listed_object.path, (1, 1))
    held = load_snapshot(store)
    path = f"{file_names.SIDECARS}/{sidecar['sidecar']['path']}"
    data = store.read(path)
    store.put(path, b"torn")
    with pytest.raises(LogCorruptedError, match="cannot be read"):
        _ = held.files
    store.put(path, data)
    assert paths_of(load_snapshot(store)) == paths_of(held) == ["f001", "f002", "f003"]
    # The same without a failed read: the sidecar gets another modification time.
    cache.CACHE.clear()
    held = load_snapshot(store)
    os.utime(tmp_path / path, (2, 2))
    assert paths_of(load_snapshot(store)) == paths_of(held) == ["f001", "f002", "f003"]


def test_a_checkpoint_counts_with_its_footers_and_keys(tmp_path: Path) -> None:
    paths = [f"part-{number:060d}" for number in range(1_000)]
    store = put(tmp_path, 0, *map(add, paths))
    write_checkpoint(store, 0, load_snapshot(store).state, tombstones_since=0)
    checkpoint = load_segment(store).checkpoint
    assert checkpoint is not None
    state = read_checkpoint(store, checkpoint)
    footers = state.nbytes
    assert footers > 10_000
    assert state.files.find(pa.array(paths[7:8])).tolist() == [7]
    assert state.nbytes - footers >= 2 * sum(map(len, paths))


def test_a_forked_child_has_a_free_and_empty_cache() -> None:
    cache.CACHE.get(STORE, [meta(1)], lambda: "parent", lambda _: 1)
    cache.CACHE._lock.acquire()  # as a thread of the parent does in the middle of a change
    try:
        child = os.fork()
        if not child:
            signal.alarm(10)
            value = cache.CACHE.get(STORE, [meta(1)], lambda: "child", lambda _: 1)
            os._exit(0 if value == "child" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        cache.CACHE._lock.release()
    assert cache.CACHE.get(STORE, [meta(1)], lambda: "again", lambda _: 1) == "parent"
