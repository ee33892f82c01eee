"""A commit that cannot be read is never written, because the table could not be opened afterwards."""

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import DeltaProtocolError, InvalidArgumentError
from lakehouse_lib.log.commits import action_lines
from lakehouse_lib.log.commits import commit_file as module
from lakehouse_lib.log.commits.commit_file import CommitActions, parse_commit, serialize
from lakehouse_lib.protocol.actions import (
    CHANGE_FILE_SCHEMA,
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.log_builder import SCHEMA
from tests.table_builder import append, create, files

MOST = 400

PATHS = st.sampled_from(["a", "b", "c", "", "ü" * 5, "x" * MOST])
VECTORS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "storageType": st.sampled_from(["u", "i", "p", "x", None]),
            "pathOrInlineDv": st.sampled_from(["v", "w", None]),
            "offset": st.sampled_from([None, 1, -1]),
            "sizeInBytes": st.sampled_from([10, None]),
            "cardinality": st.sampled_from([1, -1]),
        }
    ),
)


def tables(schema):
    row = st.fixed_dictionaries(
        {
            "path": PATHS,
            "size": st.sampled_from([1, 0, -1, None]),
            "dataChange": st.sampled_from([True, True, False, None]),
            "deletionVector": VECTORS,
            "stats": st.sampled_from([None, '{"numRecords":1}', "s" * MOST]),
        }
        | ({"modificationTime": st.sampled_from([1, 1, None])} if schema is FILE_SCHEMA else {})
    )
    return st.lists(row, max_size=3).map(lambda rows: pa.Table.from_pylist(rows, schema=schema))


COMMITS = st.builds(
    CommitActions,
    st.just(3),
    tables(FILE_SCHEMA),
    tables(TOMBSTONE_SCHEMA),
    st.just(CHANGE_FILE_SCHEMA.empty_table()),
    st.one_of(st.none(), st.builds(Metadata, st.just("t"), st.sampled_from([SCHEMA, "s" * MOST]))),
    st.one_of(
        st.none(),
        st.builds(
            Protocol,
            st.integers(0, 3),
            st.integers(0, 7),
            st.sampled_from([None, frozenset(["a"])]),
            st.sampled_from([None, frozenset(["a"])]),
        ),
    ),
    st.lists(st.builds(Transaction, PATHS, st.integers(-1, 1)), max_size=1).map(tuple),
    st.lists(st.builds(DomainMetadata, PATHS, PATHS), max_size=1).map(tuple),
    st.fixed_dictionaries(
        {"timestamp": st.just(1)},
        optional={
            "inCommitTimestamp": st.sampled_from([-1, 0, 253_402_300_799_999, 253_402_300_800_000, 1.5]),
            "note": st.sampled_from(["n", "\ud800", float("inf"), "n" * MOST, b"bytes"]),
        },
    ),
)


def written(commit):
    try:
        return serialize(commit, "t")
    except InvalidArgumentError as error:
        return error


@given(COMMITS)
def test_every_committed_action_is_readable_or_refused(commit):
    with pytest.MonkeyPatch.context() as patch:
        for where in (action_lines, module):
            patch.setattr(where, "MAX_LINE_BYTES", MOST)
        data = written(commit)
    if isinstance(data, InvalidArgumentError):
        assert "(table t, version 3)" in str(data)
        assert data.hint
        assert len(str(data)) < 1000
        return
    parsed_commit = parse_commit(data, 3, "t")
    assert max(map(len, data.split(b"\n"))) <= MOST
    assert set(parsed_commit.adds["path"].to_pylist()) == set(commit.adds["path"].to_pylist())
    assert set(parsed_commit.removes["path"].to_pylist()) == set(commit.removes["path"].to_pylist())
    assert (parsed_commit.transactions, parsed_commit.domains, parsed_commit.info) == (
        commit.transactions,
        commit.domains,
        commit.info,
    )


@pytest.fixture
def table(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}), configuration={"delta.enableInCommitTimestamps": "true"})
    return DeltaTable(tmp_path / "t")


def listed(table):
    return sorted(meta.path for meta in table.store.list_from("_delta_log"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            CommitProperties(custom_metadata={"x": "y" * (65 << 20)}),
            r"commitInfo line has 68\d* bytes.*version 1\).*less custom_metadata",
        ),
        (
            CommitProperties(app_transactions=(Transaction("a" * (65 << 20), 1),)),
            r"txn line has 68\d* bytes.*version 1\).*shorter name",
        ),
    ],
    ids=["custom metadata", "application"],
)
def test_a_line_longer_than_readers_accept_is_refused(table, properties, message):
    before = listed(table)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        write_deltalake(table, pa.table({"id": [2]}), mode="append", commit_properties=properties)
    assert len(str(caught.value)) < 1000
    assert listed(table) == before
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    assert DeltaTable(table.table_uri).count() == 2


def test_a_clock_after_the_year_9999_is_refused(table, monkeypatch):
    before = listed(table)
    with monkeypatch.context() as patch:
        now = time.time_ns()
        patch.setattr(time, "time_ns", lambda: now + 9_000 * 365 * 86_400 * 10**9)
        with pytest.raises(InvalidArgumentError, match=r"inCommitTimestamp is 28\d{13}.*version 1\).*clock right"):
            write_deltalake(table, pa.table({"id": [2]}), mode="append")
    assert listed(table) == before
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    assert DeltaTable(table.table_uri).count() == 2


def test_a_file_that_one_commit_adds_and_removes_is_refused(tmp_path):
    snapshot = append(create(tmp_path / "t"), "a")
    transaction = OptimisticTransaction(snapshot, snapshot.store, "X", {})
    transaction.add(files("a"))
    transaction.remove(files("a"))
    with pytest.raises(InvalidArgumentError, match=rf"adds and removes 'a' at once.*{tmp_path}/t, version 2\).*once"):
        transaction.commit()
    assert load_snapshot(snapshot.store).version == 1


@pytest.mark.slow
def test_metadata_nested_too_deep_is_refused(table):
    value = []
    metadata = {"x": value}
    properties = CommitProperties(custom_metadata=metadata)
    for _ in range(100_000):
        value.append([])
        value = value[0]
    with pytest.raises(InvalidArgumentError, match="cannot be written as JSON"):
        CommitProperties(custom_metadata=metadata)
    # The commit refuses a value that has grown since the check.
    with pytest.raises(InvalidArgumentError, match=r"cannot be written as JSON.*version 1\)"):
        write_deltalake(table, pa.table({"id": [2]}), mode="append", commit_properties=properties)


def test_a_domain_is_refused_without_the_feature(tmp_path):
    snapshot = create(tmp_path / "t")
    transaction = OptimisticTransaction(snapshot, snapshot.store, "X", {})
    transaction.set_domain(DomainMetadata("mine", "{}"))
    with pytest.raises(
        DeltaProtocolError, match=rf"'mine'.*writer version 2.*{tmp_path}/t, version 0\).*domainMetadata"
    ):
        transaction.commit()
    assert load_snapshot(snapshot.store).version == 0


def test_a_domain_is_written_with_the_feature(tmp_path):
    listing = Protocol(1, 7, None, frozenset(["domainMetadata"]))
    snapshot = create(tmp_path / "t", protocol=listing)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "X", {})
    transaction.set_domain(DomainMetadata("mine", "{}"))
    assert transaction.commit() == Committed(1, 1)
    assert load_snapshot(snapshot.store).domains["mine"].configuration == "{}"
