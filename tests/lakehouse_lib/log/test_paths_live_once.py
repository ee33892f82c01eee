"""Compactions, checkpoints and commits that make a path live twice are refused by every way to read."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic, put_compaction, put_sidecar, put_v2
from tests.deletion_vector_bytes import inline
from tests.log_builder import Log, put, remove
from tests.replayed_log import Log as ReplayedLog
from tests.replayed_log import in_order
from tests.slow_cases import some_slow

ORDERS = ("oldest first", "newest first")


def actions_of(store, first, last):
    """The actions of these commits, in ascending order."""
    return [
        action
        for version in range(first, last + 1)
        for line in store.read(file_names.commit(version)).splitlines()
        if "commitInfo" not in (action := json.loads(line))
    ]


def concatenate(store, first, last, order):
    """A compaction that is not reconciled: the lines of its commits, one commit after the other."""
    actions = actions_of(store, first, last)
    return put_compaction(store, first, last, actions if order == "oldest first" else actions[::-1])


def reconciled(store, first, last):
    actions = {}
    for action in actions_of(store, first, last):
        ((kind, body),) = action.items()
        vector = json.dumps(body.get("deletionVector"))
        key = (unquote(body["path"]).removeprefix("./"), vector) if kind in ("add", "remove") else kind
        actions.pop(key, None)
        actions[key] = action
    return put_compaction(store, first, last, list(actions.values()))


def ids(root):
    CACHE.clear()
    return sorted(DeltaTable(root).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("first", "last"), some_slow([(2, 5), (1, 6), (0, 6)], 1))
def test_rows_are_those_of_delta_rs_beside_a_compaction_that_is_not_reconciled(tmp_path, order, first, last):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [10 * number + offset for offset in range(4)]}), mode="append")
    table = DeltaTable(tmp_path)
    table.delete("id = 1")
    table.optimize.compact()
    write_deltalake(table, pa.table({"id": [40, 41]}), mode="append")
    table.delete("id = 40")
    path = concatenate(table.store, first, last, order)
    by_delta_rs = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].to_pylist()
    assert ids(tmp_path) == sorted(by_delta_rs)
    assert len(by_delta_rs) == 12
    report = DeltaTable(tmp_path).repair(dry_run=False)
    assert list(report["compactions_wrong"]) == [path]
    assert not (tmp_path / path).exists()
    assert DeltaTable(tmp_path).repair() == DeltaTable(tmp_path).repair() | {"compactions_wrong": {}}


def vectors_log(root):
    """Ten rows in the file f; each of the versions 2 to 4 deletes one more row by a deletion vector."""
    log = Log(root)
    log.file("f", list(range(10)))
    log.commit(log.add("f"))  # version 1
    before = {}
    for deleted in range(3):
        after = {"deletionVector": inline(range(deleted + 1))}
        log.commit(log.remove("f", **before), log.add("f", **after))
        before = after
    return log


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("covered", [[(2, 4)], [(1, 4)], [(2, 3), (3, 4)], [(1, 2), (3, 4)], [(0, 4)]])
def test_deletion_vectors_of_compactions_that_are_not_reconciled(tmp_path, order, covered):
    store = LocalStore(str(vectors_log(tmp_path).root), fsync=False)
    for first, last in covered:
        concatenate(store, first, last, order)
    assert ids(tmp_path) == list(range(3, 10))
    assert DeltaTable(tmp_path).count() == 7


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize("road", ["open", "update"])
def test_a_compaction_without_its_removes_is_skipped(tmp_path, with_checkpoint, road):
    log = vectors_log(tmp_path)
    store = LocalStore(str(tmp_path), fsync=False)
    if with_checkpoint:  # the only source of its version
        put_classic(store, 1, actions_of(store, 0, 1))
        store.delete_many([file_names.commit(0), file_names.commit(1)])
    adds = [action for action in actions_of(store, 2, 4) if "add" in action][-1:]
    path = put_compaction(store, 2, 4, adds)
    table = DeltaTable(tmp_path)
    if road == "update":
        log.commit(log.add(log.file("g", [20])))
        table.update_incremental()
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [*range(3, 10), *[20] * (road == "update")]
    assert list(table.repair()["compactions_wrong"]) == [path]


@given(
    steps=st.lists(st.lists(st.sampled_from("....ardw"), min_size=6, max_size=6), min_size=2, max_size=6),
    pieces=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from(["reconciled", *ORDERS]))),
    at=st.integers(0, 8),
    kind=st.sampled_from(["none", "classic", "v2-json", "v2-parquet"]),
)
def test_compactions_do_not_affect_reads(steps, pieces, at, kind, tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    log = ReplayedLog(root)
    for number, some in enumerate(steps):
        log.commit(some)
        if number == at:
            log.checkpoint(kind)
    expected = {v: in_order(load_snapshot(log.store, v).files) for v in range(log.version + 1)}
    for first, more, order in pieces:
        last = min(first + more, log.version)
        if first < last and order == "reconciled":
            reconciled(log.store, first, last)
        elif first < last:
            concatenate(log.store, first, last, order)
    CACHE.clear()
    assert {v: in_order(load_snapshot(log.store, v).files) for v in expected} == expected
    shutil.rmtree(root)


def test_a_reconciled_compaction_is_read_in_place_of_its_commits(tmp_path):
    log = ReplayedLog(tmp_path)
    for some in ("aaaaaa", "rd.w..", "d.r...", "ar...."):
        log.commit(some)
    expected = in_order(load_snapshot(log.store).files)
    path = reconciled(log.store, 1, 4)
    assert [compaction.path for compaction in load_state(log.store).compactions] == [path]
    assert in_order(load_snapshot(log.store).files) == expected


@pytest.mark.parametrize(("retention", "is_used"), [(None, False), ("interval 30 days", True), ("some days", False)])
def test_a_compaction_that_may_lack_expired_removes(tmp_path, retention, is_used):
    """Delta Kernel omits expired removes from a compaction, so the file would be live again."""
    configuration = {"delta.deletedFileRetentionDuration": retention} if retention is not None else {}
    write_deltalake(tmp_path, pa.table({"id": [1]}), configuration={})
    table = DeltaTable(tmp_path)
    if retention == "some days":
        pass
    log = tmp_path / "_delta_log"
    first = log / f"{0:020}.json"
    text = first.read_text().replace('"configuration":{}', '"configuration":' + json.dumps(configuration))
    first.write_text(text)
    write_deltalake(tmp_path, pa.table({"id": [2]}), mode="overwrite")
    write_deltalake(tmp_path, pa.table({"id": [3]}), mode="append")
    week_ago = first.stat().st_mtime - 8 * 86_400
    for version in range(3):
        os.utime(log / f"{version:020}.json", (week_ago + version, week_ago + version))
    actions = [action for action in actions_of(table.store, 1, 2) if is_used or "remove" not in action]
    path = put_compaction(table.store, 1, 2, actions)
    assert ids(tmp_path) == [2, 3]
    assert [compaction.path for compaction in load_state(table.store).compactions] == [path] * is_used
    assert bool(DeltaTable(tmp_path).repair()["compactions_wrong"]) != is_used


# Checkpoints.


def checkpointed(root, kind="classic"):
    """Eight rows in four files, one of which is in the checkpoint twice. All commits exist."""
    for number in range(4):
        write_deltalake(root, pa.table({"id": [2 * number, 2 * number + 1]}), mode="append")
    store = LocalStore(str(root), fsync=False)
    actions = actions_of(store, 0, 3)
    adds = [action for action in actions if "add" in action]
    head = [action for action in actions if "add" not in action]
    if kind == "classic":
        put_classic(store, 3, [*actions, adds[1]], row_group=3)
    else:
        put_v2(store, 3, "parquet", [*head, put_sidecar(store, adds), put_sidecar(store, adds[1:2])])
    CACHE.clear()
    return store


ROADS = {
    "read": lambda table: table.to_pyarrow_table(),
    "count": lambda table: table.count(),
    "files": lambda table: table.files(),
    "prune": lambda table: table.files("id >= 0"),
    "uris": lambda table: table.file_uris(),
    "actions": lambda table: table.get_add_actions(),
    "delete": lambda table: table.delete("id = 2"),
    "delete all": lambda table: table.delete(),
    "compact": lambda table: table.optimize.compact(),
    "z_order": lambda table: table.optimize.z_order(["id"]),
    "checkpoint": lambda table: table.create_checkpoint(),
    "vacuum": lambda table: table.vacuum(dry_run=True),
    "update": lambda table: (write_deltalake(table.table_uri, pa.table({"id": [9]}), mode="append"), table.files()),
}


@pytest.mark.parametrize("kind", some_slow(["classic", "v2"], 1))
@pytest.mark.parametrize("road", some_slow(list(ROADS), 2))
def test_a_checkpoint_with_a_duplicate_add_is_refused_without_commits(tmp_path, road, kind):
    store = checkpointed(tmp_path, kind)
    store.delete_many([file_names.commit(version) for version in range(3)])
    table = DeltaTable(tmp_path)
    twice = actions_of(store, 3, 3)
    assert twice  # the version's own commit exists
    with pytest.raises(LogCorruptedError, match=r"part-.* is live twice.*repair\(\)") as raised:
        ROADS[road](table)
    assert raised.value.table == str(tmp_path)
    assert raised.value.version == 3
    report = DeltaTable(tmp_path).repair()
    assert len(report["paths_live_twice"]) == 1
    assert len(report["checkpoints_needed"]) == 1
    with pytest.raises(LogCorruptedError, match="is live twice"):
        DeltaTable(tmp_path).repair(dry_run=False)


@pytest.mark.parametrize("kind", ["classic", "v2"])
def test_a_checkpoint_with_a_duplicate_add_is_skipped_for_the_commits(tmp_path, kind):
    checkpointed(tmp_path, kind)
    by_commits = tmp_path.parent / f"{tmp_path.name} by commits"
    shutil.copytree(tmp_path, by_commits, ignore=shutil.ignore_patterns("*checkpoint*"))
    judge = sorted(deltalake.DeltaTable(str(by_commits)).to_pyarrow_table()["id"].to_pylist())
    assert ids(tmp_path) == judge == list(range(8))
    table = DeltaTable(tmp_path)
    table.optimize.compact()
    assert ids(tmp_path) == judge
    table.create_checkpoint()
    assert ids(tmp_path) == judge
    report = DeltaTable(tmp_path).repair(dry_run=False)
    assert list(report["checkpoints_unreadable"])
    assert not report["paths_live_twice"]
    assert DeltaTable(tmp_path).repair()["checkpoints_unreadable"] == {}
    assert ids(tmp_path) == judge


def test_a_duplicate_add_in_a_checkpoint_is_allowed_if_a_commit_removes_it(tmp_path):
    store = checkpointed(tmp_path)
    store.delete_many([file_names.commit(version) for version in range(3)])
    twice = [action["add"] for action in actions_of(store, 3, 3) if "add" in action]
    assert len(twice) == 1
    [path] = {candidate for candidate in _paths(store) if _paths(store).count(candidate) == 2}
    put(store, 4, remove(path))
    assert ids(tmp_path) == [0, 1, 4, 5, 6, 7]


def _paths(store):
    rows = load_snapshot(store).state.files.base
    return rows.columns(["path"])["path"].to_pylist()


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("rewritten", [False, True])
def test_a_wrong_commit_after_a_checkpoint_is_not_checkpointed(tmp_path, policy, rewritten):
    """A file gets a deletion vector, and the remove of its earlier state is missing."""
    log = Log(tmp_path)
    for number in range(4):
        log.commit(log.add(log.file(f"f{number}", [number] * 10)))
    store = LocalStore(str(tmp_path), fsync=False)
    first = tmp_path / file_names.commit(0)
    features = {"readerFeatures": ["deletionVectors", "v2Checkpoint"]}
    features["writerFeatures"] = features["readerFeatures"]
    head, metadata = (json.loads(line) for line in first.read_text().splitlines())
    head["protocol"] |= features
    metadata["metaData"]["configuration"] = {"delta.checkpointPolicy": policy}
    first.write_text(f"{json.dumps(head)}\n{json.dumps(metadata)}\n")
    DeltaTable(tmp_path).create_checkpoint()
    removed = [log.remove("f1")] if rewritten else []
    log.commit(log.add("f2", deletionVector=inline([0])), *removed)
    CACHE.clear()
    table = DeltaTable(tmp_path)
    with pytest.raises(LogCorruptedError, match="'f2' is live twice"):
        table.create_checkpoint()
    assert [meta.path for meta in store.list_from(file_names.LOG) if "5.checkpoint" in meta.path] == []
    for road in ("files", "read", "count", "prune"):
        with pytest.raises(LogCorruptedError, match="'f2' is live twice"):
            ROADS[road](table)
    assert table.repair()["paths_live_twice"] == ["f2"]
    assert DeltaTable(tmp_path, version=4).to_pyarrow_table().num_rows == 40


def test_a_commit_that_duplicates_a_live_path_is_refused(tmp_path):
    log = Log(tmp_path)
    log.commit(log.add(log.file("f", list(range(10)))))
    table = DeltaTable(tmp_path)
    log.commit(log.add("./f", deletionVector=inline([0])))
    with pytest.raises(LogCorruptedError, match="f' is live twice") as raised:
        table.update_incremental()
    assert raised.value.version == 2
    with pytest.raises(LogCorruptedError, match="f' is live twice"):
        DeltaTable(tmp_path)
    assert [path.removeprefix("./") for path in table.repair()["paths_live_twice"]] == ["f"]
    assert table.to_pyarrow_table().num_rows == 10


def test_a_checkpoint_of_ours_need_not_be_compared_again(tmp_path, monkeypatch):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    CACHE.clear()
    from lakehouse_lib.log.checkpoint.rows import CheckpointRows

    monkeypatch.setattr(CheckpointRows, "find_all_repeats", lambda _: pytest.fail("compared"))
    assert len(DeltaTable(tmp_path).files()) == 3


def test_rows_are_compared_by_file_and_not_by_spelling(tmp_path):
    store = checkpointed(tmp_path)
    actions = actions_of(store, 0, 3)
    add = next(action["add"] for action in actions if "add" in action)
    for spelled in (f"./{add['path']}", f"%70{add['path'][1:]}", f"{tmp_path}/{add['path']}"):
        put_classic(store, 3, [*actions, {"add": add | {"path": spelled}}])
        CACHE.clear()
        assert ids(tmp_path) == list(range(8))


def test_fingerprints_differ_for_different_texts_of_any_length():
    from lakehouse_lib.log.replay.duplicate_paths import find_repeated_numbers, find_repeats, fingerprints

    texts = ["".join(some) for length in range(5) for some in itertools.product("ab", repeat=length)]
    texts += [f"{'x' * length}{end}" for length in (55, 56, 57, 63, 64, 65, 100) for end in ("a", "b", "é")]
    column = pa.array([*texts, *texts[::3]]).slice(1)
    expected = [n for n, text in enumerate(column.to_pylist()) if column.to_pylist().count(text) > 1]
    numbers = fingerprints(column)
    assert find_repeats(column).tolist() == find_repeated_numbers([numbers[:20], numbers[20:]]).tolist() == expected
