"""After a purge no file below the folder has the rows; pyarrow reads each file to check it."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib import DeltaTable as LakehouseTable
from lakehouse_lib.errors import InvalidPredicateError, RetentionError, UnsupportedFeatureError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.privacy.purge import LOG_NOTE, prove, purge
from lakehouse_lib.store import ObjectStore
from tests.log_builder import put
from tests.peers import files_delta_rs, parquet_files, read_delta_rs
from tests.table_builder import longs

IS_3 = "customer = 3"
NOW = timedelta(0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table: versions 0-3 append five customers each (3 is in two of them), 4 deletes 3, 5 compacts."""
    root = tmp_path / "orders"
    for customers in ([0, 1, 2, 3, 4], [3, 5, 6, 7, 8], [9, 10, 11, 12, 13], [14, 15, 16, 17, 18]):
        write_deltalake(root, pa.table({"customer": customers, "comment": ["c"] * 5}), mode="append")
    DeltaTable(root).delete("customer = 3")
    DeltaTable(root).optimize.compact()
    return root


def rows_of_3(root: Path) -> dict[str, int]:
    """The number of matching rows in each file, read by pyarrow."""
    counts = {}
    for file in parquet_files(root):
        column = pq.ParquetFile(file).read(columns=["customer"])["customer"]
        rows = pc.sum(pc.equal(column.cast(pa.string()), "3")).as_py()
        if rows:
            counts[str(file.relative_to(root.resolve()))] = rows
    return counts


def test_a_purge_deletes_only_files_with_the_rows(table: Path) -> None:
    holding, all_files, before = rows_of_3(table), parquet_files(table), read_delta_rs(table)
    assert len(holding) == 2
    report = purge(str(table), IS_3)
    assert set(report.files) == set(holding)
    assert report.rows == 2
    assert report.bytes > 0
    assert (report.version, report.read_version) == (None, 5)
    assert all_files - parquet_files(table) == {table.resolve() / name for name in holding}
    assert read_delta_rs(table) == before
    json.dumps(report.to_dict())


def test_lost_versions_are_listed_and_the_others_are_readable(table: Path) -> None:
    assert purge(str(table), IS_3).versions_lost == (0, 1, 2, 3)
    for version in range(6):
        if version < 4:
            with pytest.raises(OSError, match=r"(?i)not found|no such file"):
                read_delta_rs(table, version)
        else:
            assert read_delta_rs(table, version).num_rows == 18


def test_lost_versions_of_a_log_that_begins_at_a_checkpoint(table: Path) -> None:
    DeltaTable(table, version=2).create_checkpoint()
    for version in range(2):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert purge(str(table), IS_3).versions_lost == (2, 3)


def test_a_concurrent_cleanup_reduces_the_lost_versions(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DeltaTable(table, version=2).create_checkpoint()

    def list_and_lose(store: ObjectStore) -> list[Commit]:
        commits = list_commits(store)
        store.delete_many([file_names.commit(version) for version in range(2)])
        return commits

    monkeypatch.setattr("lakehouse_lib.privacy.purge.list_commits", list_and_lose)
    assert purge(str(table), IS_3).versions_lost == (2, 3)


def test_versions_that_a_concurrent_cleanup_deletes_are_not_listed_as_lost(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaTable(table).create_checkpoint()

    def read_and_lose(store: ObjectStore, version: int, *, size: int) -> CommitActions:
        if version == 2:  # the added file is read, and the removed file is gone
            store.delete_many([file_names.commit(version) for version in range(5)])
        return read_commit(store, version, size=size)

    monkeypatch.setattr("lakehouse_lib.privacy.purge.read_commit", read_and_lose)
    assert purge(str(table), IS_3).versions_lost == ()


def test_an_object_that_is_deleted_during_a_proof_is_ignored(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table / "_temporary").mkdir()
    (table / "_temporary" / "task_0001").write_bytes(b"PAR1")

    def list_and_lose(store: ObjectStore) -> pa.Table:
        objects = list_objects(store)
        (table / "_temporary" / "task_0001").unlink(missing_ok=True)
        return objects

    monkeypatch.setattr("lakehouse_lib.privacy.purge.list_objects", list_and_lose)
    assert prove(str(table), "customer = 99").clean


def test_a_dry_run_deletes_nothing_and_gives_the_same_report(table: Path) -> None:
    all_files = parquet_files(table)
    planned = purge(str(table), IS_3, dry_run=True)
    assert parquet_files(table) == all_files
    done = purge(str(table), IS_3)
    assert (planned.files, planned.rows, planned.versions_lost) == (done.files, done.rows, done.versions_lost)
    assert (planned.dry_run, done.dry_run) == (True, False)


def test_live_rows_prevent_a_purge(table: Path) -> None:
    all_files = parquet_files(table)
    with pytest.raises(RetentionError, match="still holds 1 rows in 1 files") as refused:
        purge(str(table), "customer = 5")
    assert "customer" not in str(refused.value)
    assert "Delete the rows first" in str(refused.value)
    assert parquet_files(table) == all_files


def test_a_second_purge_has_nothing_to_do(table: Path) -> None:
    purge(str(table), IS_3)
    again = purge(str(table), IS_3)
    assert (again.files, again.rows, again.versions_lost) == ((), 0, ())


def leftover(root: Path, name: str, customers: list[object], age: float = 7200) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"customer": customers}), file)
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_leftovers_of_killed_writers_with_the_rows_are_deleted(table: Path) -> None:
    holding = [
        leftover(table, "dead.parquet", [3, 3]),
        leftover(table, "spark-1/_temporary/0/task/part.parquet", [3]),
        leftover(table, ".hidden/_x/half.parquet", [2, 3]),
        leftover(table, "no-suffix", [3]),
    ]
    innocent = leftover(table, "other.parquet", [4])
    retyped = leftover(table, "retyped.parquet", ["3"])
    report = purge(str(table), IS_3)
    assert {table / name for name in report.files} >= set(holding)
    assert not any(file.exists() for file in holding)
    assert innocent.exists()
    assert retyped.exists()
    assert list(report.unreadable) == ["retyped.parquet"]


def test_a_file_that_may_still_be_committed_is_kept_and_reported(table: Path) -> None:
    young = leftover(table, "running.parquet", [3, 3], age=10)
    report = purge(str(table), IS_3)
    assert young.exists()
    assert report.kept == {"running.parquet": 2}
    assert not prove(str(table), IS_3).clean
    report = purge(str(table), IS_3, writer_grace=NOW)
    assert (report.files, report.kept) == (("running.parquet",), {})
    assert prove(str(table), IS_3).clean


@pytest.mark.parametrize("partition_by", [None, ["customer"]])
def test_change_files_are_deleted_immediately(tmp_path: Path, partition_by: list[str] | None) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = pa.table({"customer": [1, 2, 3, 3, 4], "comment": ["c"] * 5})
    write_deltalake(tmp_path, rows, partition_by=partition_by, configuration=feed)
    DeltaTable(tmp_path).update({"comment": "'d'"}, predicate="customer < 3")
    DeltaTable(tmp_path).update({"comment": "'e'"}, predicate="customer >= 3")
    DeltaTable(tmp_path).delete("customer = 3 AND comment = 'e'")
    images = set((tmp_path / "_change_data").rglob("*.parquet"))
    proof = prove(str(tmp_path), IS_3)
    assert any(path.startswith("_change_data/") for path in proof.matches)
    report = purge(str(tmp_path), IS_3)
    assert (report.kept, report.changes_lost) == ({}, (2, 3))
    left = prove(str(tmp_path), IS_3)
    assert (left.rows, left.unreadable) == (0, {})
    assert {path for path in images if path.exists()} == {
        path for path in images if str(path.relative_to(tmp_path)) not in proof.matches
    }
    assert pa.table(DeltaTable(tmp_path).load_cdf(starting_version=1, ending_version=1)).num_rows == 4


def test_a_change_file_that_may_still_be_committed_is_kept(table: Path) -> None:
    (table / "_change_data").mkdir()
    leftover(table, "_change_data/cdc-1.parquet", [3], age=10)
    assert purge(str(table), IS_3).kept == {"_change_data/cdc-1.parquet": 1}


def test_files_that_a_concurrent_restore_makes_live_are_kept(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehouse_lib.privacy import purge as module

    count = module.count_stored

    def restored_meanwhile(*arguments: object, **more: object) -> pa.Table:
        DeltaTable(table).restore(3)
        return count(*arguments, **more)

    monkeypatch.setattr(module, "count_stored", restored_meanwhile)
    assert purge(str(table), IS_3).files == ()
    assert read_delta_rs(table).num_rows == 20


def test_checksums_are_deleted_with_their_files(table: Path) -> None:
    name = sorted(rows_of_3(table))[0]
    (table / f".{name}.crc").write_bytes(b"crc")
    (table / ".other.crc").write_bytes(b"crc")
    purge(str(table), IS_3)
    assert not (table / f".{name}.crc").exists()
    assert (table / ".other.crc").exists()


def test_trees_of_a_z_order_are_deleted_because_they_contain_values(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"name": [f"name {number:05}" for number in range(5_000)]}))
    table = LakehouseTable(tmp_path)
    table.optimize.z_order(["name"], target_size=table.snapshot.files["size"][0].as_py() // 4)
    table.delete("name = 'name 00007'")
    (tree,) = (tmp_path / "_lakehouse/clustering").iterdir()
    words = pa.ipc.open_file(tree.read_bytes()).read_all()["words0"][0].as_py()
    assert "name 00000" in words
    purge(str(tmp_path), "name = 'name 00007'", dry_run=True)
    assert tree.exists()
    purge(str(tmp_path), "name = 'name 00007'")
    assert not tree.exists()
    assert read_delta_rs(tmp_path).num_rows == 4_999


def test_an_inner_table_is_not_purged(table: Path) -> None:
    inner = table / "_quarantine" / "orders"
    write_deltalake(inner, pa.table({"customer": ["3", "4"]}))
    DeltaTable(inner).delete("customer = '3'")
    purge(str(table), IS_3)
    assert len(rows_of_3(inner)) == 1
    purge(str(inner), "customer = '3'")
    assert rows_of_3(inner) == {}


def test_partition_values_count_as_rows(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"customer": [3, 3, 4], "n": [1, 2, 3]}), partition_by=["customer"])
    orphan = root / "customer=3" / "dead.parquet"
    pq.write_table(pa.table({"n": [7]}), orphan)
    os.utime(orphan, (1, 1))
    DeltaTable(root).delete("customer = 3")
    proof = prove(str(root), IS_3)
    assert (proof.rows, len(proof.matches)) == (3, 2)
    report = purge(str(root), IS_3)
    assert (len(report.files), report.rows) == (2, 3)
    assert prove(str(root), IS_3).clean
    assert parquet_files(root) == files_delta_rs(root)


def test_a_proof_counts_every_file(table: Path) -> None:
    leftover(table, ".hidden/dead.parquet", [3, 3, 3])
    leftover(table, "unrelated.parquet", [9])
    pq.write_table(pa.table({"other": [3]}), table / "foreign.parquet")
    (table / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    proof = prove(str(table), IS_3)
    (table / "torn.parquet").unlink()
    (table / "foreign.parquet").unlink()
    assert dict(proof.matches) == rows_of_3(table)
    assert proof.rows == 5
    assert proof.files == len(parquet_files(table)) + 2
    assert list(proof.skipped) == ["foreign.parquet"]
    assert "customer" in proof.skipped["foreign.parquet"]
    assert list(proof.unreadable) == ["torn.parquet"]
    assert proof.note == LOG_NOTE
    assert not proof.clean
    assert json.loads(json.dumps(proof.to_dict()))["clean"] is False


def test_a_file_that_cannot_be_checked_prevents_a_proof(table: Path) -> None:
    purge(str(table), IS_3)
    assert prove(str(table), IS_3).clean
    (table / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    proof = prove(str(table), IS_3)
    assert (proof.rows, proof.clean) == (0, False)
    report = purge(str(table), IS_3)
    assert list(report.unreadable) == ["torn.parquet"]
    assert (table / "torn.parquet").exists()


def test_each_file_is_read_by_its_own_schema(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"customer": pa.array([3, 4], pa.int32()), "n": [1, 2]}))
    write_deltalake(root, longs(Customer=[3, 5]), mode="overwrite", schema_mode="overwrite")
    write_deltalake(root, longs(Customer=[5]), mode="overwrite")
    assert prove(str(root), "customer = 3").rows == 2
    report = purge(str(root), "customer = 3")
    assert (len(report.files), report.versions_lost) == (2, (0, 1))


def test_members_that_were_added_to_a_struct_are_null_in_files_from_before(tmp_path: Path) -> None:
    root = tmp_path / "t"
    street, email = pa.field("street", pa.string()), pa.field("Email", pa.string())
    home = pa.struct([street, pa.field("home", pa.struct([pa.field("no", pa.int32())]))])
    wider = pa.struct([street, pa.field("home", pa.struct([pa.field("no", pa.int32()), email])), email])
    old = [{"street": "x", "home": {"no": 1}}, {"street": "z", "home": None}, None]
    new = [{"street": "y", "home": {"no": 2, "Email": "a@b"}, "Email": "a@b"}]
    for who in (pa.array(old, home), pa.array(new, wider)):
        write_deltalake(root, pa.table({"who": who}), mode="append", schema_mode="merge")
    for member in ("who.email", "who.home.email"):
        proof = prove(str(root), f"{member} = 'a@b'")
        assert (proof.rows, proof.files, dict(proof.unreadable)) == (1, 2, {})
        assert prove(str(root), f"{member} IS NULL AND who.street = 'x'").rows == 1
    write_deltalake(root, pa.table({"who": pa.array(new, wider)}).slice(0, 0), mode="overwrite")
    report = purge(str(root), "who.email = 'a@b'")
    assert (len(report.files), report.rows, dict(report.unreadable)) == (1, 1, {})
    assert prove(str(root), "who.email = 'a@b'").clean


def test_files_without_the_column_match_conditions_that_are_true_for_nulls(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"n": [1, 2]}))
    write_deltalake(root, pa.table({"n": [3], "email": ["a@b"]}), mode="append", schema_mode="merge")
    assert prove(str(root), "email IS NULL").rows == 2
    assert prove(str(root), "coalesce(email, 'none') = 'none'").rows == 2
    assert len(prove(str(root), "email = 'none'").skipped) == 1
    DeltaTable(root).delete("email IS NULL")
    assert not prove(str(root), "email IS NULL").clean
    report = purge(str(root), "email IS NULL")
    assert (len(report.files), report.rows) == (1, 2)
    assert prove(str(root), "email IS NULL").clean


@pytest.mark.parametrize("verb", [purge, prove])
def test_a_predicate_that_names_no_column(table: Path, verb: object) -> None:
    with pytest.raises(InvalidPredicateError, match="does not fit the columns") as refused:
        verb(str(table), "client = 4711")  # type: ignore[operator]
    assert "4711" not in str(refused.value)


def test_an_unknown_writer_feature_is_refused(table: Path) -> None:
    all_files = parquet_files(table)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["secretFiles"]}
    put(table, 6, {"protocol": protocol})
    with pytest.raises(UnsupportedFeatureError, match="secretFiles"):
        purge(str(table), IS_3)
    assert parquet_files(table) == all_files


def test_a_condition_that_no_row_or_every_row_fulfils(table: Path) -> None:
    assert (purge(str(table), "FALSE").files, prove(str(table), "FALSE").rows) == ((), 0)
    everything = sum(pq.ParquetFile(file).metadata.num_rows for file in parquet_files(table))
    assert prove(str(table), "TRUE").rows == everything
