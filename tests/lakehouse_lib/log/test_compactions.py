"""Log compactions: a reader reads one instead of the commits that it has the actions of."""

from __future__ import annotations

import json
import os

import pytest

from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.segment import Compaction, load_segment
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.checkpoint_files import put_classic, put_compaction
from tests.lakehouse_lib.log.five_versions import files_of, head, state_of
from tests.log_builder import remove
from tests.peers import plain, read_duckdb
from tests.table_builder import paths_of


def _compacted(store, start, end):
    """Write a log compaction of the commits ``start`` to ``end``, reconciled."""
    actions = {}
    for number in range(start, end + 1):
        for line in store.read(file_names.commit(number)).splitlines():
            action = json.loads(line)
            ((kind, body),) = action.items()
            if kind != "commitInfo":
                actions[body.get("path", kind)] = action
    return put_compaction(store, start, end, list(actions.values()))


def test_a_compaction_replaces_its_commits_in_reads(table, monkeypatch):
    expected = {version: state_of(table, version) for version in range(5)}
    _compacted(table, 0, 1)
    _compacted(table, 1, 4)
    _compacted(table, 2, 3)
    read = []
    real = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: read.append(path) or real(self, path))
    assert {version: state_of(table, version) for version in range(5)} == expected
    assert [d.version for d in load_segment(table).deltas] == [1, 3, 4]
    read.clear()
    CACHE.clear()
    load_snapshot(table)
    assert [path for path in read if path.endswith(".json")] == [
        file_names.compaction(0, 1),
        file_names.compaction(2, 3),
        file_names.commit(4),
    ]
    assert load_snapshot(table, 0).update().version == 4


def test_a_compaction_keeps_removes_of_files_before_it(table):
    put_classic(table, 1, [*head(), *files_of(table, 1)])
    _compacted(table, 2, 4)
    table.delete_many([file_names.commit(0), file_names.commit(1)])
    assert isinstance(load_segment(table).deltas[0], Compaction)
    assert paths_of(load_snapshot(table)) == sorted(
        {f"f{v}-{n}.parquet" for v in range(5) for n in range(3)} - {"f1-0.parquet", "f0-1.parquet"}
    )
    assert sorted(load_snapshot(table).tombstones["path"].to_pylist()) == ["f0-1.parquet", "f1-0.parquet"]
    assert plain(DeltaTable(table.root).to_pyarrow_table()).equals(read_duckdb(table.root))


@pytest.mark.parametrize("broken", [b"", b"{", b'{"add": {"size": 1}}\n', "duplicate"])
def test_an_unreadable_compaction_is_skipped(table, broken):
    expected = state_of(table)
    path = _compacted(table, 0, 3)
    table.put(path, table.read(path) * 2 if broken == "duplicate" else broken)
    assert state_of(table) == expected


def test_a_compaction_that_does_not_fit_is_ignored(table):
    expected = state_of(table)
    put_classic(table, 2, [*head(), *files_of(table, 2)])
    _compacted(table, 1, 3)  # starts before the checkpoint
    put_compaction(table, 4, 9, [remove("f0-0.parquet")])  # ends after the log
    put_compaction(table, 3, 3, [remove("f0-0.parquet")])  # replaces one commit only
    assert [d.version for d in load_segment(table).deltas] == [3, 4]
    assert state_of(table) == expected


def test_a_compaction_has_the_time_of_its_last_commit(table):
    before = load_snapshot(table).timestamp
    os.utime(f"{table.root}/{_compacted(table, 0, 4)}", (1, 1))
    assert load_snapshot(table).timestamp == before


def test_a_domain_that_a_compaction_removes_stays_removed(table):
    put_classic(table, 1, [*head(), *files_of(table, 1)])
    gone = {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}
    put_compaction(table, 2, 3, [gone, remove("f1-0.parquet")])
    assert load_snapshot(table).domains == {}
