"""Commit properties of the caller: values that could not be read back are refused before anything is written."""

import json
import time

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.errors import ConcurrentTransactionError, InvalidArgumentError
from lakehouse_lib.log.replay.transaction_retention import unexpired_transactions
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.peers import parquet_files
from tests.table_builder import create

ROWS = pa.table({"id": [1, 2]})


@pytest.mark.parametrize("version", [2**63, -(2**63) - 1, 1.5, "7", True, None])
def test_a_version_that_is_not_a_long_is_refused(version):
    with pytest.raises(InvalidArgumentError, match=r"version of a transaction of 'job' is .*64 bits"):
        Transaction("job", version)


@pytest.mark.parametrize("time", ["now", 1.5, True, 2**63])
def test_a_time_that_is_not_a_long_is_refused(time):
    with pytest.raises(InvalidArgumentError, match=r"last_updated of a transaction of 'job' is .*milliseconds"):
        Transaction("job", 1, time)


@pytest.mark.parametrize("app_id", [None, 7, b"job"])
def test_an_application_id_that_is_not_a_string_is_refused(app_id):
    with pytest.raises(InvalidArgumentError, match="Give the name of the job"):
        Transaction(app_id, 7)


@pytest.mark.parametrize("retries", [-1, 1.5, "7", True])
def test_retries_that_are_not_a_number_are_refused(retries):
    with pytest.raises(InvalidArgumentError, match="max_commit_retries is"):
        CommitProperties(max_commit_retries=retries)


@pytest.mark.parametrize(
    "transactions", [Transaction("job", 1), [("job", 1)], "job", [deltalake.Transaction("job", 1)], iter([])]
)
def test_transactions_come_in_a_list(transactions):
    # An iterator would be empty when the commit reads it.
    with pytest.raises(InvalidArgumentError, match=r"app_transactions is .*lakehouse_lib.Transaction"):
        CommitProperties(app_transactions=transactions)


@pytest.mark.parametrize("second", [1, 2])
def test_two_transactions_of_one_application_are_refused(tmp_path, second):
    with pytest.raises(
        InvalidArgumentError, match=rf"versions 1 and {second} of the application 'job'.*one transaction"
    ):
        CommitProperties(app_transactions=[Transaction("job", 1), Transaction("other", 1), Transaction("job", second)])


def test_a_transaction_and_its_properties_agree_on_an_application(tmp_path):
    snapshot = create(tmp_path)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "X", {})
    transaction.set_transaction("job", 1)
    with pytest.raises(InvalidArgumentError, match=rf"versions 1 and 2 of the application 'job'.*{tmp_path}"):
        transaction.set_transaction("job", 2)
    with pytest.raises(InvalidArgumentError, match=rf"versions 1 and 3 of the application 'job'.*{tmp_path}"):
        transaction.commit(CommitProperties(app_transactions=(Transaction("job", 3),)))
    assert transaction.commit(CommitProperties(app_transactions=(Transaction("job", 1),))) == Committed(1, 1)


@pytest.mark.parametrize("app_id", ["é" * 10_240, "", "a\x00b", "line\nbreak"])
def test_any_string_is_an_application_id(tmp_path, app_id):
    once = CommitProperties(app_transactions=[Transaction(app_id, 2**63 - 1)])
    write_deltalake(tmp_path, ROWS, mode="append", commit_properties=once)
    DeltaTable(tmp_path).create_checkpoint()
    with pytest.raises(ConcurrentTransactionError) as refusal:
        write_deltalake(tmp_path, ROWS, mode="append", commit_properties=once)
    assert len(str(refusal.value)) < 500 + len(str(tmp_path))
    for reader in (DeltaTable, deltalake.DeltaTable):
        assert reader(str(tmp_path)).transaction_version(app_id) == 2**63 - 1
        assert reader(str(tmp_path)).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize(
    "metadata", [{"x": float("nan")}, {"x": "\ud800"}, {"x": object()}, {"x": b"bytes"}, {("a", "b"): 1}, ["x"], "x"]
)
def test_metadata_that_is_not_json_is_refused(metadata):
    with pytest.raises(InvalidArgumentError, match="metadata"):
        CommitProperties(custom_metadata=metadata)


VERBS = {
    "append": lambda path, properties: write_deltalake(path, ROWS, mode="append", commit_properties=properties),
    "first write": lambda path, properties: write_deltalake(path / "new", ROWS, commit_properties=properties),
    "create": lambda path, properties: DeltaTable.create(path / "new", ROWS.schema, commit_properties=properties),
    "delete": lambda path, properties: DeltaTable(path).delete("id = 1", commit_properties=properties),
    "compact": lambda path, properties: DeltaTable(path).optimize.compact(commit_properties=properties),
    "z-order": lambda path, properties: DeltaTable(path).optimize.z_order(["id"], commit_properties=properties),
    "repair": lambda path, properties: DeltaTable(path).repair(dry_run=False, commit_properties=properties),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("properties", [{"who": "me"}, {}, "me", 5, deltalake.CommitProperties()], ids=repr)
def test_properties_of_another_type_are_refused_before_a_write(tmp_path, verb, properties):
    for _ in range(2):
        write_deltalake(tmp_path, ROWS, mode="append")
    before = parquet_files(tmp_path)
    with pytest.raises(InvalidArgumentError, match=rf"commit_properties is .*{tmp_path}.*lakehouse_lib.CommitProp"):
        VERBS[verb](tmp_path, properties)
    assert parquet_files(tmp_path) == before
    assert DeltaTable(tmp_path).version() == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("userId", 5),
        ("userName", ["a"]),
        ("userMetadata", {"a": 1}),
        ("clusterId", 7),
        ("tags", ["a"]),
        ("tags", {"a": 1}),
        ("job", "nightly"),
        ("notebook", "x"),
        ("lastManifestCommit", 3),
        ("readVersion", "x"),
        ("inCommitTimestamp", 5),
        ("version", "1.2.3"),
    ],
)
def test_metadata_that_other_readers_refuse_is_refused(name, value):
    with pytest.raises(InvalidArgumentError, match=rf"custom_metadata has {name} = "):
        CommitProperties(custom_metadata={name: value})


def test_metadata_with_names_of_the_protocol_keeps_their_types(tmp_path):
    metadata = {
        "userId": "5",
        "userName": None,
        "userMetadata": json.dumps({"a": 1}),
        "clusterId": "7",
        "tags": {"a": "b"},
        "job": {"jobId": "5"},
        "notebook": {"notebookId": "6"},
    }
    write_deltalake(tmp_path, ROWS, commit_properties=CommitProperties(custom_metadata=metadata))
    (our_entry,) = DeltaTable(tmp_path).history()
    (delta_rs_entry,) = deltalake.DeltaTable(tmp_path).history()
    assert metadata.items() <= our_entry.items()
    assert (delta_rs_entry["userId"], delta_rs_entry["tags"]) == ("5", {"a": "b"})


def test_metadata_cannot_replace_fields_of_the_commit(tmp_path):
    write_deltalake(tmp_path, ROWS)
    metadata = {"operation": "LIES", "timestamp": "never", "txnId": 7, "who": "we"}
    write_deltalake(tmp_path, ROWS, mode="append", commit_properties=CommitProperties(custom_metadata=metadata))
    entry = DeltaTable(tmp_path).history(1)[0]
    assert (entry["operation"], entry["who"]) == ("WRITE", "we")
    assert isinstance(entry["timestamp"], int)
    assert deltalake.DeltaTable(str(tmp_path)).history(1)[0]["operation"] == "WRITE"


def test_transactions_expire_after_the_retention_of_the_table(tmp_path, caplog):
    days = {"young": 1, "old": 3, "undated": None}
    now = int(time.time() * 1000)
    for number, (name, age) in enumerate(days.items()):
        updated = None if age is None else now - age * 86_400_000
        transaction = Transaction(name, number, updated)
        write_deltalake(
            tmp_path,
            pa.table({"a": [number]}),
            mode="append",
            configuration={"delta.setTransactionRetentionDuration": "interval 2 days"} if not number else None,
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )
    # A transaction without a time gets that of its commit.
    table = DeltaTable(tmp_path)
    assert [table.transaction_version(name) for name in days] == [0, None, 2]
    table.create_checkpoint()
    checkpoint = pq.read_table(tmp_path / f"_delta_log/{2:020}.checkpoint.parquet", columns=["txn"])["txn"]
    assert {entry["appId"] for entry in checkpoint.to_pylist() if entry} == {"young", "undated"}
    again = DeltaTable(tmp_path)
    assert [again.transaction_version(name) for name in days] == [0, None, 2]
    again.alter.unset_table_properties(["delta.setTransactionRetentionDuration"])
    assert DeltaTable(tmp_path).transaction_version("old") is None
    assert caplog.messages == []
    both = {"a": Transaction("a", 1), "b": Transaction("b", 1, 0)}
    assert unexpired_transactions(both, {"delta.setTransactionRetentionDuration": "soon"}, now) == both
