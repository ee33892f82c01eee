"""Version checksums are right or missing, and a wrong checksum never overrides the log."""

import json
import logging
import os
import time
import uuid

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checksum import checksum_of, contradictions, next_checksum, put_checksum, read_checksum
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.protocol.actions import FILE_SCHEMA, DomainMetadata, Protocol, Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.log_builder import add, put
from tests.peers import read_delta_rs, read_duckdb
from tests.table_builder import create


def new_files(sizes):
    """Files that were just written."""
    now = time.time_ns() // 1_000_000 + 1
    return pa.Table.from_pylist(
        [
            {"path": f"{uuid.uuid4()}.parquet", "partitionValues": [], "size": int(size), "modificationTime": now,
             "dataChange": True}
            for size in sizes
        ],
        schema=FILE_SCHEMA,
    )  # fmt: skip


def change(snapshot, sizes=(), removed=None, **more):
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
    transaction.add(new_files(sizes))
    if removed is not None:
        transaction.remove(snapshot.files.filter(removed))
    if "metadata" in more:
        transaction.set_metadata(more["metadata"])
    if "txn" in more:
        transaction.set_transaction("app", more["txn"])
    if "domain" in more:
        transaction.set_domain(more["domain"])
    outcome = transaction.commit()
    assert isinstance(outcome, Committed)
    return load_snapshot(snapshot.store, outcome.version)


def right(store, version):
    """Whether a version's checksum equals the result of a full count."""
    CACHE.clear()
    checksum, truth = read_checksum(store, version), checksum_of(load_state(store, version).state)
    assert checksum is not None
    assert (checksum.size, checksum.files) == (truth.size, truth.files)
    assert (checksum.metadata, checksum.protocol) == (truth.metadata, truth.protocol)
    assert dict(checksum.transactions) == dict(truth.transactions)
    assert dict(checksum.domains) == dict(truth.domains)
    assert checksum.txn_id == read_commit(store, version).info["txnId"]
    return True


def test_a_checksum_has_the_form_of_the_protocol(tmp_path):
    snapshot = change(create(tmp_path), [5, 7], txn=3)
    body = json.loads((tmp_path / file_names.checksum(1)).read_bytes())
    commit = read_commit(snapshot.store, 1)
    assert body == {
        "txnId": commit.info["txnId"],
        "tableSizeBytes": 12,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [snapshot.transactions["app"].to_json()],
        "domainMetadata": [],
        "metadata": snapshot.metadata.to_json(),
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    }
    assert file_names.checksum(1) == "_delta_log/00000000000000000001.crc"


@pytest.mark.slow
@given(
    st.integers(1, 6),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**40), max_size=4),
            st.lists(st.booleans(), max_size=4),
            st.sampled_from(["", "txn", "domain", "metadata", "elsewhere", "lost"]),
        ),
        min_size=1,
        max_size=9,
    ),
)
def test_every_checksum_is_what_a_full_count_gives(tmp_path_factory, interval, commits):
    protocol = Protocol(1, 7, None, frozenset(["domainMetadata"]))
    snapshot = create(tmp_path_factory.mktemp("t"), {"delta.checkpointInterval": str(interval)}, protocol)
    store = snapshot.store
    written = 0
    for sizes, removed, kind in commits:
        if kind == "lost":
            store.delete_many([file_names.checksum(snapshot.version)])
        if kind == "elsewhere":  # a writer that does not write checksums
            put(store, snapshot.version + 1, {"commitInfo": {"txnId": "x"}}, add(str(uuid.uuid4()), size=9))
            snapshot = load_snapshot(store)
            continue
        more = {"txn": snapshot.version} if kind == "txn" else {}
        if kind == "domain":
            more = {"domain": DomainMetadata("d", "{}", removed=bool(sizes))}
        if kind == "metadata":
            more = {"metadata": snapshot.metadata.with_schema(snapshot.metadata.schema_string + " ")}
        mask = (removed + [False] * snapshot.file_count)[: snapshot.file_count]
        before = snapshot
        snapshot = change(snapshot, sizes, pa.array(mask, pa.bool_()), **more)
        had_one = store.head(file_names.checksum(snapshot.version - 1)) is not None
        has_one = store.head(file_names.checksum(snapshot.version)) is not None
        assert has_one or not had_one or before.timestamp >= time.time_ns() // 1_000_000 - 2
        if snapshot.version % interval == 0:
            assert has_one
        written += has_one
    for version in range(snapshot.version + 1):
        if store.head(file_names.checksum(version)) is not None:
            assert right(store, version)


def test_a_file_that_may_be_live_already_prevents_a_checksum(tmp_path):
    """An add may change a file that is live already; the commit alone does not show it."""
    snapshot = change(create(tmp_path), [1])
    files = snapshot.files
    # The file system's clock is some milliseconds behind the clock that the test uses.
    place = files.column_names.index("modificationTime")
    files = files.set_column(place, files.schema.field(place), pa.chunked_array([[snapshot.timestamp]], pa.int64()))
    transaction = OptimisticTransaction(snapshot, snapshot.store, "COMPUTE STATS", {})
    transaction.add(files)
    assert transaction.commit() == Committed(2, 1)
    assert read_checksum(snapshot.store, 1).files == load_snapshot(snapshot.store).file_count == 1
    assert read_checksum(snapshot.store, 2) is None


def test_a_removed_file_of_unknown_size_prevents_a_checksum(tmp_path):
    snapshot = change(create(tmp_path), [1, 2])
    previous = read_checksum(snapshot.store, 1)
    commit = read_commit(change(snapshot, [3], pa.array([True, False])).store, 2)
    assert next_checksum(previous, commit, newer_than=snapshot.timestamp).size == 5
    unknown = commit.removes.set_column(5, "size", pa.nulls(1, pa.int64()))
    lost = type(commit)(2, commit.adds, unknown, commit.changes)
    assert next_checksum(previous, lost, newer_than=snapshot.timestamp) is None


def test_a_new_deletion_vector_is_the_same_file(tmp_path):
    snapshot = change(create(tmp_path), [4, 6])
    previous = read_checksum(snapshot.store, 1)
    row = snapshot.files.slice(0, 1)
    vector = {"storageType": "i", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 1, "cardinality": 1}
    position = row.column_names.index("deletionVector")
    marked = row.set_column(
        position, FILE_SCHEMA.field("deletionVector"), pa.array([vector], FILE_SCHEMA[position].type)
    )
    commit = read_commit(change(snapshot, [], pa.array([True, False])).store, 2)
    replaced = type(commit)(2, marked, commit.removes, commit.changes)
    checksum = next_checksum(previous, replaced, newer_than=2**60)
    assert (checksum.files, checksum.size) == (2, 10)


def test_no_checksum_is_ever_overwritten(tmp_path):
    snapshot = change(create(tmp_path), [1])
    other = checksum_of(load_state(snapshot.store, 0).state)
    assert not put_checksum(snapshot.store, 1, other)
    assert right(snapshot.store, 1)


def test_too_many_transactions_are_left_out(tmp_path):
    snapshot = create(tmp_path)
    checksum = checksum_of(snapshot.state)
    many = {str(number): Transaction(str(number), 1) for number in range(101)}
    body = type(checksum)(0, 0, checksum.metadata, checksum.protocol, many, {}).to_json()
    assert "setTransactions" not in body
    assert body["domainMetadata"] == []


def test_the_cost_of_a_checksum_does_not_depend_on_the_table_size(tmp_path, monkeypatch):
    """With a checkpoint, only the previous checksum and the commit are read."""
    snapshot = change(create(tmp_path, {"delta.checkpointInterval": "2"}), [1] * 50)
    snapshot = change(snapshot, [1])
    assert snapshot.checkpoint_version == 2
    old = time.time() - 60  # if the commit file is young, the log is checked again
    os.utime(tmp_path / file_names.commit(2), (old, old))
    snapshot = load_snapshot(snapshot.store)
    read = []
    original = type(snapshot.store).read
    monkeypatch.setattr(type(snapshot.store), "read", lambda self, path: read.append(path) or original(self, path))
    monkeypatch.setattr(type(snapshot.store), "open_input", lambda *_: pytest.fail("a checkpoint is read"))
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
    transaction.add(new_files([1]))
    assert transaction.commit() == Committed(3, 1)
    assert file_names.checksum(2) in read
    monkeypatch.undo()
    assert right(snapshot.store, 3)


def test_a_checksum_that_cannot_be_written_fails_no_commit(tmp_path, monkeypatch, caplog):
    snapshot = change(create(tmp_path), [1])
    original = type(snapshot.store).put_if_absent

    def refuse(self, path, data):
        if path.endswith(".crc"):
            raise OSError(28, "No space left on device")
        return original(self, path, data)

    monkeypatch.setattr(type(snapshot.store), "put_if_absent", refuse)
    with caplog.at_level(logging.WARNING):
        assert change(snapshot, [2]).version == 2
    assert "checksum failed after version 2" in caplog.text


# Wrong checksums.


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"numFiles": 3}, "numFiles is 3; expected 2"),
        ({"tableSizeBytes": 13}, "tableSizeBytes is 13; expected 12"),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}, "the protocol differs"),
        ({"metadata": None}, "cannot be read"),
        ({"setTransactions": [{"appId": "b", "version": 1}]}, "setTransactions differ"),
        ({"domainMetadata": [{"domain": "b", "configuration": ""}]}, "domainMetadata differ"),
        ({"numProtocol": 2}, "numProtocol is 2"),
    ],
)
def test_a_checksum_that_contradicts_the_log_is_logged_and_ignored(tmp_path, caplog, wrong, said):
    change(create(tmp_path), [5, 7])
    path = tmp_path / file_names.checksum(1)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | wrong))
    with caplog.at_level(logging.WARNING):
        snapshot = load_snapshot(LocalStore(str(tmp_path), fsync=False))
    assert said in caplog.text
    assert "repair" in caplog.text
    assert (snapshot.version, snapshot.file_count) == (1, 2)
    # A checksum that is known to be wrong is not used for the next one.
    change(snapshot, [1])
    assert snapshot.store.head(file_names.checksum(2)) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"numFiles": 1}', b"null"])
def test_an_unreadable_checksum_is_logged_and_ignored(tmp_path, caplog, data):
    snapshot = change(create(tmp_path), [5])
    (tmp_path / file_names.checksum(1)).write_bytes(data)
    with pytest.raises(LogCorruptedError, match=r"0001\.crc cannot be read"):
        read_checksum(snapshot.store, 1)
    with caplog.at_level(logging.WARNING):
        assert load_snapshot(snapshot.store).file_count == 1
        assert change(snapshot, [1]).version == 2
    assert "cannot be read" in caplog.text


def test_a_correct_checksum_logs_nothing(tmp_path, caplog):
    snapshot = change(create(tmp_path), [5, 7], txn=1)
    with caplog.at_level(logging.WARNING):
        again = load_snapshot(snapshot.store)
    assert not caplog.records
    assert contradictions(read_checksum(snapshot.store, 1), again.state, counting=True) == []


# Checksums of other writers.


def rows(count):
    return pa.table({"id": np.arange(count)})


def test_the_verbs_write_correct_checksums_and_others_read_the_table(tmp_path):
    for number in range(12):
        write_deltalake(tmp_path, rows(number + 1), mode="append")
    table = DeltaTable(tmp_path)
    table.delete("id > 5")
    table.optimize.compact()
    write_deltalake(tmp_path, rows(3), mode="overwrite")
    latest = DeltaTable(tmp_path).version()
    assert all(right(table.store, version) for version in range(1, latest + 1))
    assert read_delta_rs(tmp_path).equals(read_duckdb(tmp_path))
    DeltaRsTable(str(tmp_path)).delete("id = 1")
    write_deltalake(tmp_path, rows(2), mode="append")
    for version in range(latest + 1, DeltaTable(tmp_path).version() + 1):
        if table.store.head(file_names.checksum(version)) is not None:
            checksum = read_checksum(table.store, version)
            assert contradictions(checksum, load_state(table.store, version).state, counting=True) == []
