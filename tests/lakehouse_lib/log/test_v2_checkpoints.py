"""Checkpoints of the V2 spec: reused sidecars, new sidecars, and the effects of a crash or a cleanup."""

from __future__ import annotations

import io
import json
import random

import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.checkpoint import sidecar_reuse as module
from lakehouse_lib.log.checkpoint.sidecar_reuse import plan_sidecars
from lakehouse_lib.log.checkpoint.sidecars import Sidecar
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, ObjectMeta
from lakehouse_lib.transaction.post_commit import checkpoint_snapshot
from tests.checkpoint_files import put_sidecar, put_v2
from tests.days_table import record_reads
from tests.fault_store import FaultStore
from tests.lakehouse_lib.log.v2_checkpoints import META, PROTOCOL, checkpoint, cut, top
from tests.log_builder import add, put, remove
from tests.slow_cases import some_slow
from tests.table_builder import paths_of


@pytest.fixture
def table(tmp_path, small_sidecars):
    """A table with a hundred files in version 0, and its checkpoint with five sidecars."""
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    put(store, 0, PROTOCOL, META, *(add(f"f{n:03d}", stats=f'{{"numRecords":{n}}}') for n in range(100)))
    checkpoint(store)
    return store


def named(store, version=None):
    return {body["path"] for body in top(store, version)["sidecar"]}


def rows(store, name):
    file = pq.ParquetFile(io.BytesIO(store.read(f"{file_names.SIDECARS}/{name}")))
    return file.read().to_pylist()


def contents(store):
    return {meta.path: store.read(meta.path) for meta in store.list_from(file_names.SIDECARS)}


def test_the_top_object_has_everything_but_files(table):
    put(table, 1, {"txn": {"appId": "app", "version": 4}}, remove("f000", deletionTimestamp=9))
    hint = checkpoint(table)
    bodies = top(table)
    assert [body["version"] for body in bodies["checkpointMetadata"]] == [1]
    assert (bodies["add"], bodies["remove"]) == ([], [])
    assert [len(bodies[name]) for name in ("protocol", "metaData", "txn")] == [1, 1, 1]
    listed = {meta.path.rsplit("/", 1)[-1]: meta for meta in table.list_from(file_names.SIDECARS)}
    for body in bodies["sidecar"]:
        assert (body["sizeInBytes"], body["modificationTime"]) == (
            listed[body["path"]].size,
            listed[body["path"]].modified,
        )
        actions = rows(table, body["path"])
        assert all(set(row) == {"add", "remove"} for row in actions)
        assert all((row["add"] is None) != (row["remove"] is None) for row in actions)
    live = [row["add"]["path"] for name in named(table) for row in rows(table, name) if row["add"]]
    assert sorted(live) == paths_of(load_snapshot(table))  # each path once, without removed files
    last = json.loads(table.read(file_names.LAST_CHECKPOINT))
    assert last["v2Checkpoint"]["path"] == hint.top.path.rsplit("/", 1)[-1]
    assert last["size"] == 1 + 1 + 1 + 1 + len(bodies["sidecar"]) + 99 + 1
    assert last["numOfAddFiles"] == 99
    assert last["sizeInBytes"] == hint.top.size + sum(listed[name].size for name in named(table))


@pytest.mark.parametrize("damage", ["torn", "gone"])
def test_a_sidecar_that_was_damaged_after_the_read_is_not_reused(table, damage):
    put(table, 1, add("new"))
    snapshot = load_snapshot(table)
    assert snapshot.file_count == 101  # reads its footers
    victim = f"{file_names.SIDECARS}/{min(named(table))}"
    if damage == "torn":
        table.put(victim, table.read(victim)[:50])
    else:
        table.delete_many([victim])
    checkpoint_snapshot(snapshot)
    assert victim.rsplit("/", 1)[-1] not in named(table, 1)
    cache.CACHE.clear()
    assert paths_of(load_snapshot(table)) == sorted(["new", *(f"f{n:03d}" for n in range(100))])


def test_unchanged_sidecars_are_reused(table):
    before, first = contents(table), named(table)
    assert len(first) == 5
    put(table, 1, add("new"))
    checkpoint(table)
    assert first < named(table)
    assert len(named(table)) == 6
    assert {path: data for path, data in contents(table).items() if path in before} == before
    put(table, 2, remove("f025"))
    checkpoint(table)
    gone = named(table, 1) - named(table)
    written_anew = {row["add"]["path"] for name in gone for row in rows(table, name)}
    assert written_anew == {f"f{n:03d}" for n in range(20, 40)} | {"new"}  # a small sidecar is merged with others
    assert len(first & named(table)) == 4
    cut(table, 2)
    assert paths_of(load_snapshot(table)) == sorted({f"f{n:03d}" for n in range(100)} - {"f025"} | {"new"})


def test_appending_reads_no_file_action_of_the_checkpoint_before(table, monkeypatch):
    put(table, 1, *(add(f"new{n}") for n in range(10)))
    cache.CACHE.clear()
    reads = record_reads(monkeypatch)
    checkpoint(table)
    assert not [leaf for leaf, _ in reads if leaf.startswith(("add", "remove"))]
    assert len(named(table)) == 6


@pytest.mark.parametrize("path", ["./f031", "f%30%331", "{root}/f031", "file://{root}/f031"])
def test_a_path_with_another_spelling_is_found(table, path):
    put(table, 1, remove(path.format(root=table.root)))
    checkpoint(table)
    cut(table, 1)
    assert paths_of(load_snapshot(table)) == sorted({f"f{n:03d}" for n in range(100)} - {"f031"})


def test_a_path_that_is_spelled_otherwise_in_a_sidecar_is_found(table):
    put(table, 1, add("./odd"), add("also%6Fdd"))
    checkpoint(table)
    cut(table, 1)
    put(table, 2, remove("odd"), remove("alsoodd"))
    assert len(paths_of(load_snapshot(table))) == 100
    checkpoint(table)
    cut(table, 2)
    assert len(paths_of(load_snapshot(table))) == 100


def test_expired_removes_are_dropped_with_their_sidecar(table):
    put(table, 1, *(remove(f"f{n:03d}", deletionTimestamp=100 + n) for n in range(30)))
    checkpoint(table, since=50)
    put(table, 2, add("x"))
    checkpoint(table, since=110)  # the first ten have expired, but not all of them, so the sidecar stays
    assert len(load_snapshot(table).tombstones) == 30
    adds = {name for name in named(table) if rows(table, name)[0]["add"]}
    put(table, 3, add("y"))
    checkpoint(table, since=125)
    assert len(load_snapshot(table).tombstones) < 30
    put(table, 4, {"txn": {"appId": "a", "version": 1}})
    checkpoint(table, since=500)
    assert len(load_snapshot(table).tombstones) == 0
    assert len(adds & named(table)) >= 3
    cut(table, 4)
    assert len(paths_of(load_snapshot(table))) == 72


def test_removing_a_sixth_of_the_files_rewrites_every_sidecar(table):
    before = named(table)
    put(table, 1, *(remove(f"f{n:03d}") for n in range(0, 100, 6)))
    checkpoint(table)
    assert not before & named(table)
    cut(table, 1)
    assert paths_of(load_snapshot(table)) == [f"f{n:03d}" for n in range(100) if n % 6]


def test_an_empty_table_has_a_checkpoint(tmp_path, small_sidecars):
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    put(store, 0, PROTOCOL, META)
    checkpoint(store)
    assert not named(store)
    put(store, 1, add("a"))
    checkpoint(store)
    put(store, 2, remove("a"))
    checkpoint(store, since=5)
    cut(store, 2)
    assert (paths_of(load_snapshot(store)), named(store)) == ([], set())


def test_sidecars_of_other_writers_are_reused(tmp_path, small_sidecars):
    """Other writers may mix adds and removes, and spell paths in any way."""
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    put(store, 0, PROTOCOL, META)
    put(store, 1, add("a"))
    first = put_sidecar(store, [add(f"f{n}") for n in range(30)] + [remove("gone", deletionTimestamp=9)])
    second = put_sidecar(store, [add("h"), remove("gone too", deletionTimestamp=9)])
    third = put_sidecar(store, [add("./i")], f"file://{store.root}/_delta_log/_sidecars/{{name}}")
    put_v2(store, 1, "json", [PROTOCOL, META, first, second, third])
    cut(store, 1)
    put(store, 2, remove("f3", deletionTimestamp=9), remove("i", deletionTimestamp=9), add("gone too"))
    checkpoint(store)
    assert not {sidecar["sidecar"]["path"] for sidecar in (first, second, third)} & named(store)
    put(store, 3, add("j"))
    checkpoint(store)
    cut(store, 3)
    assert paths_of(load_snapshot(store)) == sorted({f"f{n}" for n in range(30)} - {"f3"} | {"h", "gone too", "j"})
    assert sorted(load_snapshot(store).tombstones["path"].to_pylist()) == ["f3", "gone", "i"]


def test_a_snapshot_that_is_kept_open_builds_on_the_newest_checkpoint(table):
    snapshot = load_snapshot(table)
    for version in range(1, 5):
        put(table, version, *(add(f"new{version}-{n}") for n in range(10)))
        snapshot = snapshot.update()
        before = named(table)
        checkpoint(table, snapshot=snapshot)
        assert len(before & named(table)) >= 5
    assert snapshot.checkpoint_version == 0
    cut(table, 4)
    assert len(paths_of(load_snapshot(table))) == 140


def test_a_checkpoint_of_an_older_version_reuses_no_sidecar(table):
    """A newer checkpoint exists, so a cleanup may delete the sidecars."""
    put(table, 1, add("a"))
    put(table, 2, add("b"))
    checkpoint(table)
    first = named(table, 0)
    checkpoint(table, snapshot=load_snapshot(table, 1))
    assert not first & named(table, 1)
    assert len(paths_of(load_snapshot(table, 1))) == 101


@pytest.mark.parametrize("at", ["_sidecars/", ".checkpoint.", "_last_checkpoint"])
@pytest.mark.parametrize("before", some_slow([True, False], 1))
def test_a_crash_at_any_call_loses_nothing(table, at, before):
    put(table, 1, add("new"), remove("f000"))
    expected = paths_of(load_snapshot(table))

    def fail(path):
        if at in path:
            raise StoreError("the disk is full, or the answer was lost", table=table.root)

    with pytest.raises(StoreError, match="the disk is full"):
        checkpoint(FaultStore(table.root, **{"before" if before else "after": {"put": fail}}))
    cache.CACHE.clear()
    assert paths_of(load_snapshot(table)) == expected
    complete = at == "_last_checkpoint" or (at == ".checkpoint." and not before)
    assert load_snapshot(table).checkpoint_version == (1 if complete else 0)
    checkpoint(table)
    cut(table, 1)
    assert paths_of(load_snapshot(table)) == expected
    assert load_snapshot(table).checkpoint_version == 1


def test_sidecars_of_a_cleaned_up_checkpoint_are_not_reused(table):
    old = named(table)
    put(table, 1, add("new"))

    def clean(put, path, data):
        """A cleanup that started before deletes the old checkpoint as soon as the new one exists, and then its
        sidecars."""
        replaced = [meta.path for meta in table.list_from(file_names.LOG) if ".checkpoint." in meta.path]
        put(path, data)
        if ".checkpoint." in path and replaced:
            table.delete_many(replaced)

    checkpoint(FaultStore(table.root, instead={"put": clean}))
    assert not old & named(table)
    table.delete_many([f"{file_names.SIDECARS}/{name}" for name in old])
    cut(table, 1)
    assert len(paths_of(load_snapshot(table))) == 101
    assert len([meta for meta in table.list_from(file_names.LOG) if ".checkpoint." in meta.path]) == 1


def test_every_hundredth_version_is_found_by_readers_that_know_classic_names_only(table):
    for version in range(1, 101):
        put(table, version, {"txn": {"appId": "a", "version": version}})
    assert table.head(file_names.checkpoint(0)) is not None
    checkpoint(table)
    data = table.read(file_names.checkpoint(100))
    uuid_named = [
        m.path for m in table.list_from(file_names.LOG) if m.path.startswith(f"{file_names.LOG}/{100:020d}.checkpoint.")
    ]
    assert len(uuid_named) == 2
    assert all(table.read(path) == data for path in uuid_named)
    cut(table, 100)
    assert len(paths_of(load_snapshot(table))) == 100


def test_a_checkpoint_that_a_cleanup_deletes_immediately_is_not_an_error(table):
    """The version has expired, and the object with the classic name is a copy of the deleted object."""

    def clean(path):
        if ".checkpoint." in path:
            table.delete_many([path])

    checkpoint(FaultStore(table.root, after={"head": clean}))
    assert len(paths_of(load_snapshot(table))) == 100


# The plan.


def _sidecar(number, adds=0, removes=0, **more):
    return Sidecar(ObjectMeta(f"s{number}", 1, 1), adds, removes, **more)


def test_small_sidecars_neither_pile_up_nor_are_written_again_and_again(monkeypatch):
    full, small = module.FULL, module.FULL // 2
    draw = random.Random(5)
    sidecars: list[Sidecar] = []
    written = total = 0
    for number in range(3_000):
        new = draw.choice([1, 10, draw.randrange(1, 500), draw.randrange(1, 20_000) if number % 50 == 0 else 3])
        plan = plan_sidecars(sidecars, new_adds=new, new_removes=0)
        pending = new + sum(sidecar.adds for sidecar in plan.rewritten)
        pieces = [full] * (pending // full) + [pending % full] * bool(pending % full)
        sidecars = [*plan.unchanged, *(_sidecar(f"{number}-{n}", rows) for n, rows in enumerate(pieces))]
        written, total = written + pending, total + new
        assert sum(sidecar.adds for sidecar in sidecars) == total
        assert sum(sidecar.adds < small for sidecar in sidecars) <= 16
    assert written < 16 * total


def test_the_removed_share_decides_which_sidecars_are_rewritten():
    sidecars = [
        _sidecar(0, 50_000),
        _sidecar(1, 50_000, stale=True),
        _sidecar(2, 0, 40_000),
        _sidecar(3, 0, 40_000, stale=True),
        _sidecar(4, 0, 40_000, expired=True),
        _sidecar(5, 40_000, 10_000, expired=True),
        _sidecar(6, 0, 40_000, expired=True, stale=True),
    ]
    plan = plan_sidecars(sidecars, new_adds=5, new_removes=5)
    assert [sidecar.meta.path for sidecar in plan.unchanged] == ["s0", "s2", "s5"]
    assert [sidecar.meta.path for sidecar in plan.rewritten] == ["s1", "s3"]


def test_a_mixed_sidecar_is_not_merged_and_each_kind_is_merged_separately():
    sidecars = [_sidecar(0, 10), _sidecar(1, 10, 10), _sidecar(2, 0, 10), _sidecar(3, 15), _sidecar(4, 61)]
    assert [sidecar.meta.path for sidecar in plan_sidecars(sidecars, new_adds=5, new_removes=0).rewritten] == [
        "s0",
        "s3",
    ]
    assert [sidecar.meta.path for sidecar in plan_sidecars(sidecars, new_adds=0, new_removes=5).rewritten] == ["s2"]
    assert not plan_sidecars(sidecars, new_adds=0, new_removes=0).rewritten
