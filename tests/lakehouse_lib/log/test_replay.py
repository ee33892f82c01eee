"""Reconciliation and commit files: incomplete lines, deletion vectors, spellings of a path, unknown actions."""

import json
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import DeltaError, LogCorruptedError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.read import read_checkpoint
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.commits.commit_file import parse_commit
from lakehouse_lib.log.replay.file_keys import file_keys
from lakehouse_lib.log.replay.replay import replay, state_of
from lakehouse_lib.log.segment import load_segment
from lakehouse_lib.protocol.actions import DomainMetadata, Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.log_builder import add, lines, put, remove
from tests.table_builder import files, paths_of


def test_the_newest_action_of_a_file_wins(tmp_path):
    put(tmp_path, 0, add("a"), add("b"), add("c"))
    put(tmp_path, 1, remove("a"), add("d"))
    put(tmp_path, 2, add("a", size=20), remove("b"))
    snapshot = load_snapshot(LocalStore(str(tmp_path)))
    assert paths_of(snapshot) == ["a", "c", "d"]
    assert snapshot.files.filter(pa.compute.equal(snapshot.files["path"], "a"))["size"].to_pylist() == [20]
    assert snapshot.tombstones["path"].to_pylist() == ["b"]


def test_spellings_of_a_path_are_one_file(tmp_path):
    put(tmp_path, 0, add("a%20b"), add("x"))
    store = put(tmp_path, 1, remove(f"file://{tmp_path}/a%20b"), remove(f"{tmp_path}/x"))
    assert paths_of(load_snapshot(store)) == []


def test_a_path_with_another_deletion_vector_is_another_file(tmp_path):
    def dv(n):
        return {"storageType": "i", "pathOrInlineDv": f"dv{n}", "sizeInBytes": 1, "cardinality": 1}

    first = parse_commit(json.dumps(add("a", deletionVector=dv(1))).encode(), 0, "t")
    lines = [json.dumps(remove("a", deletionVector=dv(1))), json.dumps(add("a", deletionVector=dv(2)))]
    second = parse_commit("\n".join(lines).encode(), 1, "t")
    store = LocalStore(str(tmp_path))
    state = replay(state_of(None, store), [first, second], store)
    assert state.files.table["deletionVector"].to_pylist()[0]["pathOrInlineDv"] == "dv2"
    assert len(state.files) == len(state.tombstones) == 1


def test_a_plain_file_has_one_key_beside_files_with_deletion_vectors(tmp_path):
    store = LocalStore(str(tmp_path))
    body = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    mixed = parse_commit(lines(add("a"), add("b", deletionVector=body)), 0, "t").adds
    assert file_keys(mixed, store).to_pylist() == ["a", "b\x00ux@1"]
    assert file_keys(files("a"), store).to_pylist() == ["a"]


def test_unknown_actions_and_fields_are_ignored(tmp_path):
    store = put(tmp_path, 0, add("a", inventedField={"x": 1}), {"inventedAction": {"y": 2}})
    assert paths_of(load_snapshot(store)) == ["a"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"add": {"path": "b", "si', "line 4 .*incomplete"),
        ("not json", "line 4 .*incomplete"),
        ("[1]", "line 4 .*incomplete"),
        ('{"add": {"size": 3}}', "line 4 .*without path"),
        ('{"add": {"path": "b", "size": "big"}}', "line 4 .*without partitionValues"),
        ('{"add": {"path": "b", "partitionValues": 3}}', "line 4 .*partitionValues is 3"),
        ('{"metaData": {"id": "x"}}', "line 4 .*metaData"),
        ('{"protocol": {"minReaderVersion": []}}', "line 4 .*protocol"),
        ('{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}', "2 protocol actions"),
        ('{"txn": {"appId": "a"}}', "line 4 .*txn"),
        ("[" * 100_000, "incomplete"),
    ],
)
def test_the_error_of_an_invalid_line_names_file_version_and_line(tmp_path, line, what):
    store = put(tmp_path, 0, add("a"))
    store.put(file_names.commit(0), store.read(file_names.commit(0)) + b"\n" + line.encode())
    with pytest.raises(LogCorruptedError, match=rf"{what}.*table {tmp_path}, version 0") as caught:
        load_snapshot(store)
    assert file_names.commit(0) in str(caught.value)


def test_an_empty_commit_file_is_a_corrupt_log(tmp_path):
    store = put(tmp_path, 0, add("a"))
    store.put(file_names.commit(1), b"")
    with pytest.raises(LogCorruptedError, match="version 1"):
        load_snapshot(store)


def test_a_log_without_metadata_is_an_error(tmp_path):
    store = LocalStore(str(tmp_path))
    store.put(file_names.commit(0), lines(add("a")))
    with pytest.raises(LogCorruptedError, match=r"no (protocol|metaData)"):
        load_snapshot(store)


def test_transactions_and_domains_keep_the_latest(tmp_path):
    put(tmp_path, 0, {"txn": {"appId": "s", "version": 5}}, {"domainMetadata": {"domain": "d", "configuration": "1"}})
    put(tmp_path, 1, {"txn": {"appId": "s", "version": 3}}, {"domainMetadata": {"domain": "e", "configuration": "2"}})
    store = put(tmp_path, 2, {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    snapshot = load_snapshot(store)
    assert snapshot.transactions == {"s": Transaction("s", 3)}
    assert snapshot.domains == {"e": DomainMetadata("e", "2")}


actions = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("abcdef")), max_size=8, unique_by=lambda a: a[1]
)


@given(commits=st.lists(actions, min_size=1, max_size=8), cut=st.integers(0, 7))
def test_any_cut_by_a_checkpoint_or_an_update_gives_the_same_table(tmp_path_factory, commits, cut):
    root = tmp_path_factory.mktemp("t")
    expected: set[str] = set()
    for version, commit in enumerate(commits):
        store = put(root, version, *({"add": add, "remove": remove}[kind](path) for kind, path in commit))
        if version == 0 or commit:
            expected |= {p for kind, p in commit if kind == "add"}
            expected -= {p for kind, p in commit if kind == "remove"}
        else:
            put(store, version, {"commitInfo": {}})
    cut = min(cut, len(commits) - 1)
    whole = load_snapshot(store)
    earlier = load_snapshot(store, cut)
    assert set(paths_of(whole)) == expected
    assert paths_of(earlier.update()) == paths_of(whole)
    write_checkpoint(store, cut, earlier.state, tombstones_since=-1)
    again = load_snapshot(store)
    assert again.checkpoint_version == cut
    assert paths_of(again) == paths_of(whole)
    assert sorted(again.tombstones["path"].to_pylist()) == sorted(whole.tombstones["path"].to_pylist())


def test_a_checkpoint_keeps_everything_but_expired_removes(tmp_path):
    put(
        tmp_path,
        0,
        add("k%20=1/a", partitionValues={"k ": None, "m": "ü"}, stats='{"numRecords":3}', tags={"t": "1"}),
        {"txn": {"appId": "s", "version": 5, "lastUpdated": 7}},
        {"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}},
    )
    store = put(tmp_path, 1, remove("old", deletionTimestamp=5), remove("new", deletionTimestamp=50), remove("none"))
    snapshot = load_snapshot(store)
    write_checkpoint(store, 1, snapshot.state, tombstones_since=10)
    state = state_of(read_checkpoint(store, load_segment(store).checkpoint), store)
    assert state.files.table.to_pylist() == snapshot.files.to_pylist()
    assert state.tombstones.table["path"].to_pylist() == ["new"]
    assert (state.transactions, state.domains) == (snapshot.transactions, snapshot.domains)
    assert (state.metadata, state.protocol) == (snapshot.metadata, snapshot.protocol)


@given(st.binary(max_size=200))
def test_every_invalid_commit_raises_a_delta_error(data):
    with suppress(DeltaError):
        parse_commit(data, 0, "t")
