"""Upkeep of the log after commits and by verbs: cleanup after checkpoints; failures are only logged."""

import logging
import os

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable

import lakehouse_lib
from lakehouse_lib import DeltaTable, PostCommitHookProperties, write_deltalake
from lakehouse_lib.errors import (
    InvalidArgumentError,
    RetentionError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.operations.upkeep.repair import repair
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import optimistic_transaction, post_commit
from tests.log_builder import put
from tests.log_histories import DAY, WEEK, all_seen
from tests.peers import files_delta_rs, plain, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

DAYS = DAY / 1000


def grow(path, count, **more):
    for number in range(count):
        write_deltalake(path, pa.table({"id": np.arange(number, number + 2)}), mode="append", **more)


def age(path, days):
    """Make the log so many days older, with one version a minute."""
    for file in (path / "_delta_log").rglob("*"):
        if file.is_file():
            seconds = file.stat().st_mtime - days * DAYS
            os.utime(file, (seconds, seconds))


def files_of(path, version):
    return DeltaTable(path, version=version).files()["path"].to_pylist()


def versions_in(path):
    return [commit.version for commit in list_commits(LocalStore(str(path)))]


def test_a_commit_with_a_checkpoint_cleans_up(tmp_path):
    grow(tmp_path, 11, configuration=WEEK)
    age(tmp_path, 9)
    grow(tmp_path, 9)
    assert versions_in(tmp_path) == list(range(20))
    grow(tmp_path, 1)  # version 20 writes a checkpoint, and the checkpoint of 10 has expired
    assert versions_in(tmp_path) == list(range(10, 21))
    with pytest.raises(VersionNotFoundError, match="cleaned up"):
        DeltaTable(tmp_path, version=9)
    assert read_delta_rs(tmp_path, 10).equals(read_duckdb(tmp_path, 10))
    assert read_delta_rs(tmp_path).equals(read_duckdb(tmp_path))


def test_a_cleanup_that_fails_never_fails_the_commit(tmp_path, monkeypatch, caplog):
    grow(tmp_path, 11, configuration=WEEK)
    age(tmp_path, 9)
    grow(tmp_path, 9)
    monkeypatch.setattr(LocalStore, "delete_many", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
    with caplog.at_level(logging.WARNING):
        grow(tmp_path, 1)
    assert "log cleanup failed after version 20" in caplog.text
    assert "read-only" in caplog.text
    assert versions_in(tmp_path) == list(range(21))
    assert DeltaTable(tmp_path).snapshot.checkpoint_version == 20


def test_a_commit_without_a_checkpoint_does_not_clean_up(tmp_path):
    """As in delta-rs, whose intervals end one version earlier."""
    for package, last in ((lakehouse_lib, 20), (deltalake, 19)):
        root = tmp_path / package.__name__
        for number in range(21):
            hooks = package.PostCommitHookProperties(create_checkpoint=number != last - 10)
            package.write_deltalake(
                root,
                pa.table({"id": [number]}),
                mode="append",
                configuration={"delta.checkpointInterval": "10"},
                post_commithook_properties=hooks,
            )
        checkpoints = [path.name for path in (root / "_delta_log").glob("*.checkpoint.parquet")]
        assert checkpoints == [f"{last:020d}.checkpoint.parquet"]


def verbs(path, hooks):
    table = DeltaTable(path)
    return {
        "write": lambda: write_deltalake(table, pa.table({"id": [1]}), mode="append", post_commithook_properties=hooks),
        "delete": lambda: table.delete("id = 1", post_commithook_properties=hooks),
        "update": lambda: table.update({"id": "id + 1"}, post_commithook_properties=hooks),
        "merge": lambda: (
            table.merge(pa.table({"id": [1, 900]}), "source.id = target.id", post_commithook_properties=hooks)
            .when_not_matched_insert_all()
            .execute()
        ),
        "compact": lambda: table.optimize.compact(post_commithook_properties=hooks),
        "z_order": lambda: table.optimize.z_order(["id"], post_commithook_properties=hooks),
        "create": lambda: DeltaTable.create(
            path, table.schema(), mode="overwrite", configuration=WEEK, post_commithook_properties=hooks
        ),
        "repair": lambda: table.repair(dry_run=False, post_commithook_properties=hooks),
    }


@pytest.mark.parametrize(
    "verb", some_slow(["write", "merge", "compact", "create", "delete", "update", "z_order", "repair"], 4)
)
def test_a_commit_cleans_up_if_the_hook_is_enabled(tmp_path, verb):
    """Without a checkpoint of its own, and although the property says no."""
    grow(tmp_path, 12, configuration={**WEEK, "delta.enableExpiredLogCleanup": "false"})
    age(tmp_path, 9)
    grow(tmp_path, 2)
    missing = DeltaTable(tmp_path).files()["path"][0].as_py()
    if verb == "repair":
        (tmp_path / missing).unlink()
    verbs(tmp_path, PostCommitHookProperties(cleanup_expired_logs=True))[verb]()
    assert versions_in(tmp_path) == list(range(10, 15))


def test_a_commit_does_not_clean_up_if_the_hook_is_disabled(tmp_path):
    grow(tmp_path, 11, configuration=WEEK)
    age(tmp_path, 9)
    grow(tmp_path, 9)
    grow(tmp_path, 1, post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False))
    assert versions_in(tmp_path) == list(range(21))
    assert DeltaTable(tmp_path).snapshot.checkpoint_version == 20


@pytest.mark.parametrize("arguments", [{"create_checkpoint": None}, {"cleanup_expired_logs": "true"}])
def test_hooks_of_other_types_are_refused(arguments):
    with pytest.raises(InvalidArgumentError, match="expected True") as refused:
        PostCommitHookProperties(**arguments)
    assert refused.value.code == "DELTA_INVALID_COMMIT_PROPERTIES"


def test_hooks_of_the_deltalake_package_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"post_commithook_properties is .* of type deltalake"):
        grow(tmp_path / "t", 1, post_commithook_properties=deltalake.PostCommitHookProperties())
    assert not (tmp_path / "t").exists()


def test_most_commits_do_not_list_the_log_for_a_cleanup(tmp_path, monkeypatch):
    grow(tmp_path, 9)
    monkeypatch.setattr(post_commit, "clean_up", lambda *_: pytest.fail("nothing has expired"))
    grow(tmp_path, 12)


def test_the_verb_names_the_files_and_deletes_them(tmp_path):
    grow(tmp_path, 21, configuration=WEEK)
    age(tmp_path, 9)
    table = DeltaTable(tmp_path, version=3)
    dry = table.cleanup_metadata(dry_run=True)
    assert versions_in(tmp_path) == list(range(21))
    assert table.cleanup_metadata() == dry != []
    assert versions_in(tmp_path) == [20]
    assert table.cleanup_metadata() == []
    assert len(DeltaTable(tmp_path).to_pyarrow_table()) == 42


def test_delta_rs_deletes_the_same_commits(tmp_path):
    for name in ("ours", "theirs"):
        grow(tmp_path / name, 15, configuration=WEEK)
        age(tmp_path / name, 30)
    DeltaRsTable(str(tmp_path / "theirs")).cleanup_metadata()
    DeltaTable(tmp_path / "ours").cleanup_metadata()
    assert versions_in(tmp_path / "ours") == versions_in(tmp_path / "theirs") == list(range(10, 15))


def test_a_log_retention_below_that_of_files_is_refused_and_logged(tmp_path, caplog):
    grow(tmp_path, 11, configuration={"delta.logRetentionDuration": "interval 1 day"})
    age(tmp_path, 9)
    table = DeltaTable(tmp_path)
    with pytest.raises(RetentionError):
        table.cleanup_metadata()
    grow(tmp_path, 9)
    age(tmp_path, 9)
    with caplog.at_level(logging.WARNING):
        grow(tmp_path, 1)
    assert "log cleanup failed after version 20" in caplog.text
    assert "RetentionError" in caplog.text
    assert versions_in(tmp_path) == list(range(21))
    assert table.cleanup_metadata(enforce_retention_duration=False)


def test_a_table_with_an_unknown_writer_feature_is_refused(tmp_path):
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["columnMappingUsageTracking"]}
    put(tmp_path, 0, {"protocol": protocol})
    for verb in (DeltaTable(tmp_path).cleanup_metadata, DeltaTable(tmp_path).repair):
        with pytest.raises(UnsupportedFeatureError, match="columnMappingUsageTracking"):
            verb()


def test_a_version_with_an_unknown_writer_feature_gets_no_checkpoint(tmp_path, monkeypatch, caplog):
    """The checkpoint would lack the actions of an unknown feature that another writer has added since the commit."""
    grow(tmp_path, 10)
    hooks = post_commit.run_hooks
    added = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "unheardOf"]}

    def after_another_commit(*arguments):
        put(tmp_path, 11, {"protocol": added}, {"unheardOf": {"id": 1}})
        hooks(*arguments)

    monkeypatch.setattr(optimistic_transaction, "run_hooks", after_another_commit)
    with caplog.at_level(logging.WARNING):
        grow(tmp_path, 1)
    assert "checkpoint failed after version 10" in caplog.text
    assert not list((tmp_path / "_delta_log").glob("*checkpoint*"))


def test_a_version_that_a_cleanup_has_overtaken_gets_no_checkpoint(tmp_path, monkeypatch, caplog):
    """Another writer has committed, written a checkpoint and cleaned up the log since the commit."""
    grow(tmp_path, 2, configuration={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    write_checkpoint = post_commit.checkpoint_snapshot

    def overtaken(snapshot):
        monkeypatch.undo()
        put(tmp_path, 3, {"commitInfo": {}})
        DeltaTable(tmp_path).create_checkpoint()
        snapshot.store.delete_many([file_names.commit(version) for version in range(3)])
        write_checkpoint(snapshot)

    monkeypatch.setattr(post_commit, "checkpoint_snapshot", overtaken)
    with caplog.at_level(logging.WARNING):
        grow(tmp_path, 1)
    assert caplog.text == ""
    assert DeltaTable(tmp_path).snapshot.checkpoint_version == 3


@pytest.mark.slow
def test_daily_cleanups_keep_the_needed_shared_sidecars(tmp_path):
    """Checkpoints of the V2 spec share sidecars. Each day a cleanup deletes the oldest, but never a needed sidecar."""
    configuration = WEEK | {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "3"}
    store = LocalStore(str(tmp_path))
    states = {}
    for day in range(20):
        grow(tmp_path, 2, configuration=configuration)
        if day % 4 == 1:
            DeltaTable(tmp_path).delete(f"id = {day % 3}")
        if day % 5 == 4:
            DeltaTable(tmp_path).cleanup_metadata()
        CACHE.clear()
        versions = versions_in(tmp_path)
        for version, state in all_seen(store, {versions[0], *versions[-3:]}).items():
            assert isinstance(state, tuple)
            assert states.setdefault(version, state[1:3]) == state[1:3]
        age(tmp_path, 1)
    assert versions[0] > 10
    sidecars = [meta.path for meta in store.list_from(file_names.SIDECARS)]
    assert sidecars
    assert repair(DeltaTable(tmp_path).snapshot).is_sound
    for version in (versions[0], None):
        assert files_delta_rs(tmp_path, version) == {tmp_path / path for path in files_of(tmp_path, version)}
        assert read_duckdb(tmp_path, version).equals(plain(DeltaTable(tmp_path, version=version).to_pyarrow_table()))


def test_a_checkpoint_is_written_though_the_one_before_was_replaced(tmp_path):
    """Two writers may write a checkpoint of the same version, so an open checkpoint may be replaced."""
    grow(tmp_path, 4, configuration={"delta.checkpointInterval": "3"})
    table = DeltaTable(tmp_path)
    path = tmp_path / file_names.checkpoint(3)
    path.write_bytes(path.read_bytes())
    os.utime(path, (1, 1))
    table.create_checkpoint()
    grow(tmp_path, 3)
    assert DeltaTable(tmp_path).snapshot.checkpoint_version == 6
    assert read_delta_rs(tmp_path).equals(read_duckdb(tmp_path))
