"""The data that opening, pruning and refreshing read and keep: only needed data, once, never of a replaced table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib.data_skipping import may_match
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.expressions import parse
from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.checkpoint_files import put_classic
from tests.days_table import META, PROTOCOL, file, record_reads
from tests.log_builder import add, field, metadata, put, remove
from tests.table_builder import paths_of

pytestmark = pytest.mark.slow  # tables of many files


@pytest.fixture
def table(tmp_path):
    """A table of 100 files in a checkpoint of ten row groups, one day each; commit 2 replaces f005 and adds f100."""
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    files = [file(number) for number in range(100)]
    put_classic(store, 1, [*files[:9], PROTOCOL, *files[9:], META], row_group=10)
    put(store, 2, {"commitInfo": {"timestamp": 2}}, remove("f005"), file(100))
    cache.CACHE.clear()
    return store


@pytest.fixture
def reads(monkeypatch):
    return record_reads(monkeypatch)


def _actions(reads):
    return {leaf.split(".")[0] for leaf, _ in reads}


def test_opening_reads_no_file_action(table, reads):
    snapshot = load_snapshot(table)
    assert (snapshot.version, snapshot.metadata.partition_columns) == (2, ("day",))
    assert _actions(reads) == {"metaData", "protocol"}


def test_counting_reads_keys_only(table, reads):
    assert load_snapshot(table).file_count == 100
    leaves = {leaf for leaf, _ in reads if leaf.startswith("add")}
    assert leaves == {"add.path"}


def test_some_columns_are_read_without_the_others(table, reads):
    files = load_snapshot(table).file_columns(["path", "size"])
    assert files.column_names == ["path", "size"]
    assert len(files) == 100
    assert {leaf for leaf, _ in reads if leaf.startswith("add")} == {"add.path", "add.size"}
    reads.clear()


def test_describing_reads_sizes_and_keys_only(table, reads):
    detail = DeltaTable(table.root).detail()
    assert (detail["numFiles"], detail["sizeInBytes"]) == (100, 1_000)
    assert {leaf for leaf, _ in reads if leaf.startswith("add")} == {"add.path", "add.size"}


def test_pruning_reads_the_other_columns_where_a_file_is_kept(table, reads):
    snapshot = load_snapshot(table)
    files = snapshot.prune(parse("id = 333", snapshot.schema))
    assert files["path"].to_pylist() == ["f033"]
    assert {block for leaf, block in reads if leaf == "add.modificationTime"} == {3}
    assert not any(leaf.startswith("add.partitionValues") and block != 3 for leaf, block in reads)
    reads.clear()
    assert snapshot.prune(parse("id = 335", snapshot.schema))["path"].to_pylist() == ["f033"]
    assert not reads


def test_a_partition_is_found_by_its_values_alone(table, reads):
    snapshot = load_snapshot(table)
    files = snapshot.prune(parse("day = date '2026-01-05'", snapshot.schema), ["path", "size"])
    assert sorted(files["path"].to_pylist()) == [f"f{n:03d}" for n in range(40, 50)]
    assert not any(leaf == "add.stats" for leaf, _ in reads)
    assert {block for leaf, block in reads if leaf == "add.size"} <= {4, 5}


def test_partition_values_of_removed_files_may_be_of_a_type_the_column_had(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    put_classic(store, 1, [PROTOCOL, _by("string"), *(add(p, partitionValues={"p": p}) for p in ("old", "7"))])
    put(store, 2, _by("long"), add("new", partitionValues={"p": "7"}))
    snapshot = load_snapshot(store)
    seven = parse("p = 7", snapshot.schema)
    with pytest.raises(LogCorruptedError, match="not a valid long"):
        snapshot.prune(seven)
    put(store, 3, remove("old"))
    assert load_snapshot(store).prune(seven)["path"].to_pylist() == ["7", "new"]
    put(store, 4, remove("7"))
    assert load_snapshot(store).prune(seven)["path"].to_pylist() == ["new"]
    assert load_snapshot(store).prune(parse("p IS NULL", snapshot.schema)).num_rows == 0


def _by(kind):
    """A table with one partition column ``p``."""
    return metadata(field("p", kind), partition_by=["p"])


def test_pruned_files_are_those_of_the_whole_table(table):
    snapshot = load_snapshot(table)
    for condition in (
        "id < 100",
        "id = 55",
        "day = date '2026-01-01' AND id > 50",
        "id IS NULL",
        "id >= 0",
        "text = 'x'",
    ):
        predicate = parse(condition, snapshot.schema)
        keep = may_match(predicate, snapshot.files, snapshot.layout)
        assert snapshot.prune(predicate).to_pylist() == snapshot.files.filter(keep).to_pylist(), condition
    assert "f005" not in paths_of(snapshot)
    assert snapshot.prune(parse("id = 55", snapshot.schema)).num_rows == 0


class _Forgetful(dict):
    """A cache that drops each column right after it is looked up, like another thread that prunes."""

    def __contains__(self, key):
        is_present = super().__contains__(key)
        self.pop(key, None)
        return is_present


def test_columns_that_another_thread_drops_are_read_again(table):
    snapshot = load_snapshot(table)
    before = snapshot.files
    predicate = parse("id < 100", snapshot.schema)
    files = snapshot.prune(predicate)
    rows = snapshot.state.files.base
    assert rows._columns
    rows._columns = _Forgetful(rows._columns)
    assert snapshot.file_columns(FILE_SCHEMA.names).to_pylist() == before.to_pylist()
    rows._bounds.clear()
    assert snapshot.prune(predicate).to_pylist() == files.to_pylist()


def test_a_later_version_shares_the_columns_that_were_read(table, reads):
    snapshot = load_snapshot(table)
    _ = snapshot.files
    reads.clear()
    put(table, 3, remove("f006"), file(101))
    put(table, 4, remove("f101"), remove("f100"), file(5))
    later = snapshot.update()
    assert later.state.files.base is snapshot.state.files.base
    assert paths_of(later) == sorted({f"f{n:03d}" for n in range(100)} - {"f006"})
    assert later.file_count == 99
    assert not reads
    assert paths_of(snapshot) == sorted({f"f{n:03d}" for n in range(101)} - {"f005"})
    assert paths_of(later) == paths_of(load_snapshot(table, 4))


def test_opening_again_reads_new_commits_only(table, reads, monkeypatch):
    for meta in list(table.list_from(file_names.LOG)):
        os.utime(f"{table.root}/{meta.path}", (1, 1))
    _ = load_snapshot(table).files
    reads.clear()
    put(table, 3, file(101))
    read = []
    real = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: read.append(path) or real(self, path))
    assert load_snapshot(table).file_count == 101
    assert not reads
    assert [path for path in read if path.endswith(".json")] == [file_names.commit(3)]


def test_a_table_replaced_in_place_is_not_read_from_the_cache(tmp_path):
    # The first objects are too young to be identified by time; then the time differs, and then the size.
    for name, moment in (("a", None), ("b", None), ("c", 100), ("d", 101), ("ee", 101)):
        shutil.rmtree(tmp_path / file_names.LOG, ignore_errors=True)
        store = put(tmp_path, 0, add(name))
        write_checkpoint(store, 0, load_snapshot(store).state, tombstones_since=0)
        if moment is not None:
            for path in (file_names.commit(0), file_names.checkpoint(0)):
                os.utime(tmp_path / path, (moment, moment))
        assert paths_of(load_snapshot(store)) == [name]


def test_an_open_snapshot_never_mixes_a_checkpoint_with_its_successor(table):
    snapshot = load_snapshot(table)
    before = paths_of(load_snapshot(table))
    _ = snapshot.file_columns(["path"])
    # The checkpoint of the same version is written again, with its files in another order.
    put_classic(table, 1, [PROTOCOL, META, *(file(number) for number in reversed(range(100)))], row_group=10)
    files = snapshot.files
    assert sorted(files["path"].to_pylist()) == before
    for path, stats in zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True):
        assert json.loads(stats)["minValues"]["id"] == int(path[1:]) * 10


# The memory bound of docs/architecture-log.md.

FILES = 200_000


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A checkpoint of 200,000 files, most of which is statistics."""
    store = LocalStore(str(tmp_path_factory.mktemp("big")), fsync=False)
    base = load_snapshot(put(Path(store.root), 0))
    numbers = np.arange(FILES)
    paths = pa.array([f"part-{n:05d}-c000-4f0d-a1b2-{n:012d}.snappy.parquet" for n in numbers])
    stats = pa.array(
        [
            f'{{"numRecords":10,"minValues":{{"id":{n}}},"maxValues":{{"id":{n + 9}}},"nullCount":{{"id":0}},'
            f'"padding":"{n:0250d}"}}'
            for n in numbers
        ]
    )
    columns = {
        "path": paths,
        "size": pa.array(numbers),
        "modificationTime": pa.array(numbers),
        "dataChange": pa.array(np.zeros(FILES, bool)),
        "stats": stats,
    }
    files = pa.Table.from_arrays(
        [columns.get(column.name, pa.nulls(FILES, column.type)) for column in FILE_SCHEMA], schema=FILE_SCHEMA
    )
    write_checkpoint(store, 0, base.with_files(files, base.metadata).state, tombstones_since=0)
    return store, {name: column.nbytes for name, column in columns.items()}


def _peak(store, work):
    """The most bytes that Arrow allocated, in a process that opens the table and does ``work``."""
    program = f"""
        import pyarrow as pa
        from lakehouse_lib.expressions import parse
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store
        snapshot = load_snapshot(open_store({store.root!r}))
        {work}
        print(pa.default_memory_pool().max_memory())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.parametrize(
    ("work", "columns", "multiple"),
    [
        ("", [], 0),
        ("snapshot.file_count", [], 0),
        ("snapshot.file_columns(['path'])", ["path"], 3),
        ("snapshot.file_columns(['size', 'modificationTime'])", ["size", "modificationTime"], 3),
        ("snapshot.files", ["path", "size", "modificationTime", "dataChange", "stats"], 2),
        ("snapshot.prune(parse('id = 5', snapshot.schema), ['path'])", ["path", "stats"], 2),
    ],
)
def test_an_open_table_costs_a_small_multiple_of_the_columns_it_uses(big, work, columns, multiple):
    store, sizes = big
    allowed = multiple * sum(sizes[name] for name in columns) + (8 << 20)
    assert sum(sizes.values()) > 8 * (8 << 20)
    assert _peak(store, work) < allowed


def test_pruning_keeps_the_bounds_and_not_the_statistics(big):
    store, sizes = big
    snapshot = load_snapshot(store)
    before = pa.total_allocated_bytes()
    assert len(snapshot.prune(parse("id = 5", snapshot.schema), ["path"])) == 6
    size = snapshot.state.files.base.nbytes
    assert size < sum(sizes.values())
    assert pa.total_allocated_bytes() - before < 2 * size + (8 << 20)
