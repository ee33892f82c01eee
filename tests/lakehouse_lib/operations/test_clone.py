"""Clones: the same rows for other readers, own changes, and a vacuum of the source that spares their files."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import deltalake
import duckdb
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, ObjectNotFoundError, PathOutsideTableError, StoreError
from lakehouse_lib.operations.clone.clone import clone
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.fault_store import FaultStore
from tests.peers import parquet_files, plain, read_by_all, read_duckdb
from tests.table_builder import longs
from tests.tracked_tables import STABLE, rows, tracked_rows

VECTORS = {"delta.enableDeletionVectors": "true"}


def data(start: int) -> pa.Table:
    numbers = range(start, start + 20)
    parts = [None if number % 4 == 0 else ["x y", "ü%"][number % 2] for number in numbers]
    return pa.table({"id": pa.array(numbers, pa.int64()), "part": parts})


def made(root: Path, **configuration: str) -> DeltaTable:
    write_deltalake(root, data(0), partition_by="part", name="n", configuration={"mine": "1", **configuration})
    write_deltalake(root, data(20), mode="append")
    return DeltaTable(root)


def logged_ids(root: Path) -> list[int]:
    """The ids in the files of the first version; delta-rs and DuckDB do not read absolute paths of a log."""
    lines = (root / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    paths = [unquote(urlsplit(add["path"]).path) for line in lines if (add := json.loads(line).get("add"))]
    return sorted(row[0] for row in duckdb.read_parquet(paths).select("id").fetchall())


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_clones(tmp_path: Path, is_shallow: bool) -> None:
    source = made(tmp_path / "a source")
    source.delete("id = 5")
    expected = plain(source.to_pyarrow_table())
    copy = source.clone(tmp_path / "a copy", is_shallow=is_shallow)
    assert plain(copy.to_pyarrow_table()).equals(expected)
    if is_shallow:
        assert logged_ids(tmp_path / "a copy") == sorted(expected["id"].to_pylist())
    else:
        assert read_by_all(tmp_path / "a copy").equals(expected)
    assert (copy.version(), copy.schema(), copy.protocol()) == (0, source.schema(), source.protocol())
    assert copy.metadata().id != source.metadata().id
    for name in ("name", "configuration", "partition_columns"):
        assert getattr(copy.metadata(), name) == getattr(source.metadata(), name)
    (commit,) = copy.history()
    assert commit["operation"] == "CLONE"
    assert commit["operationParameters"]["sourceVersion"] == "2"
    count = len(source.files())
    assert commit["operationMetrics"]["numCopiedFiles"] == str(0 if is_shallow else count)
    assert len(parquet_files(tmp_path / "a copy")) == (0 if is_shallow else count)
    # Each goes its own way.
    copy.update({"part": "'new'"}, predicate="id = 7")
    write_deltalake(copy, data(100), mode="append")
    source.delete()
    assert copy.to_pyarrow_table().num_rows == 59
    if not is_shallow:
        assert read_by_all(tmp_path / "a copy").num_rows == 59
    assert deltalake.DeltaTable(tmp_path / "a source").to_pyarrow_table().num_rows == 0


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_vectors_and_row_ids_are_cloned(tmp_path: Path, is_shallow: bool) -> None:
    root = tmp_path / "vectors"
    write_deltalake(root, longs(id=range(20_000)), configuration={**VECTORS, "delta.enableRowTracking": "true"})
    source = DeltaTable(root)
    source.delete("id % 7 = 3")  # a file of vectors
    write_deltalake(root, longs(id=range(20_000, 20_010)), mode="append")
    source = DeltaTable(root)
    source.delete("id = 20005")  # in the log
    copy = source.clone(tmp_path / "copy", is_shallow=is_shallow)
    expected = plain(source.to_pyarrow_table())
    assert plain(copy.to_pyarrow_table()).equals(expected)
    assert is_shallow or read_duckdb(tmp_path / "copy").equals(expected)
    before, after = (plain(pa.table(table.scan(row_ids=True))) for table in (source, copy))
    assert before.equals(after)
    write_deltalake(copy, longs(id=[99_999]), mode="append")
    ids = pa.table(copy.scan(row_ids=True))["_metadata.row_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    copy.delete("id = 1")
    assert copy.to_pyarrow_table().num_rows == expected.num_rows
    assert is_shallow or read_duckdb(tmp_path / "copy").num_rows == expected.num_rows


def test_an_earlier_version(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path / "source")
    copy = DeltaTable(tmp_path / "source", 0, engine=engine).clone(tmp_path / "copy")
    assert read_by_all(tmp_path / "copy").equals(plain(data(0)))
    assert copy.engine is engine


def test_vacuum_of_the_source_keeps_files_of_clones(tmp_path: Path) -> None:
    source = made(tmp_path / "source", **VECTORS)
    write_deltalake(source, pa.table({"id": range(30_000, 60_000), "part": ["z"] * 30_000}), mode="append")
    source.delete("id % 7 = 3")
    copy = source.clone(tmp_path / "copy", is_shallow=True)
    expected = plain(copy.to_pyarrow_table())
    shared = set(parquet_files(tmp_path / "source")) | set((tmp_path / "source").rglob("*.bin"))
    write_deltalake(source, data(200), mode="append")
    source.delete()
    deleted = source.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert deleted
    assert all(path.exists() for path in shared)
    assert plain(copy.to_pyarrow_table()).equals(expected)
    # Without the record the files go.
    (record,) = (tmp_path / "source" / "_lakehouse/clones").iterdir()
    record.write_bytes(b"")
    with pytest.raises(StoreError, match="the record"):
        source.vacuum(0, dry_run=True, enforce_retention_duration=False)
    record.unlink()
    assert len(source.vacuum(0, dry_run=True, enforce_retention_duration=False)) == len(shared)


def record_of_two_days_ago(source: Path) -> Path:
    (record,) = (source / "_lakehouse/clones").iterdir()
    os.utime(record, (time.time() - 2 * 86_400,) * 2)
    return record


def vacuumed_in_a_week(source: DeltaTable) -> None:
    vacuum(source.snapshot, dry_run=False, now=datetime.now(UTC) + timedelta(days=8))


def test_vacuum_of_the_source_reads_what_a_clone_still_needs(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    copy = source.clone(tmp_path / "copy", is_shallow=True)
    copy.pin("first")
    copy.delete("id < 20 and part is null")
    copy.delete("id >= 20")
    record = record_of_two_days_ago(tmp_path / "source")
    files = parquet_files(tmp_path / "source")
    source.delete()
    vacuumed_in_a_week(source)
    assert parquet_files(tmp_path / "source") == files
    copy.release("first")
    expected = plain(copy.to_pyarrow_table())
    vacuumed_in_a_week(source)
    assert len(files) == 6
    assert len(parquet_files(tmp_path / "source")) == 2
    assert plain(copy.to_pyarrow_table()).equals(expected)
    assert record.exists()


def test_vacuum_of_the_source_deletes_the_files_and_the_record_of_a_deleted_clone(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    source.clone(tmp_path / "copy", is_shallow=True)
    source.delete()
    shutil.rmtree(tmp_path / "copy")
    record = record_of_two_days_ago(tmp_path / "source")
    assert len(vacuum(source.snapshot, now=datetime.now(UTC) + timedelta(days=8)).files) == 6
    assert record.exists()
    vacuumed_in_a_week(source)
    assert not record.exists()
    assert not parquet_files(tmp_path / "source")


@pytest.mark.parametrize("trouble", ["young record", "unmounted disk", "unreadable log"])
def test_vacuum_keeps_all_files_of_a_clone_that_it_cannot_read(
    tmp_path: Path, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = made(tmp_path / "source")
    source.clone(tmp_path / "disk" / "copy", is_shallow=True)
    source.delete()
    files = parquet_files(tmp_path / "source")
    if trouble == "unreadable log":
        record_of_two_days_ago(tmp_path / "source")
        (tmp_path / "disk" / "copy" / "_delta_log" / f"{0:020}.json").write_text("{")
    else:
        shutil.rmtree(tmp_path / "disk" / "copy")
    if trouble == "unmounted disk":
        record_of_two_days_ago(tmp_path / "source")
    if trouble == "young record":
        source.vacuum(0, dry_run=False, enforce_retention_duration=False)
    else:
        vacuumed_in_a_week(source)
    assert parquet_files(tmp_path / "source") == files
    assert list((tmp_path / "source" / "_lakehouse/clones").iterdir())
    assert ("cannot be read" in caplog.text) is (trouble == "unreadable log")


def test_a_source_that_cannot_be_written_is_cloned_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = made(tmp_path / "source")

    def refuse(path: str) -> None:
        raise StoreError(f"{path}: Permission denied")

    snapshot = load_snapshot(FaultStore(tmp_path / "source", before={"put_if_absent": refuse}))
    store = open_store(str(tmp_path / "copy"), {"allowed_roots": str(tmp_path / "source")})
    clone(snapshot, store, source.engine, is_shallow=True)
    assert logged_ids(tmp_path / "copy") == list(range(40))
    assert "may delete files of the clone" in caplog.text


def test_a_clone_during_a_vacuum_keeps_its_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "source", data(0))
    write_deltalake(tmp_path / "source", data(20), mode="overwrite")
    copies: list[DeltaTable] = []

    def clone_first(path: str) -> None:
        if path.endswith(f"{2:020}.json") and not copies:  # VACUUM START
            copies.append(DeltaTable(tmp_path / "source", 0).clone(tmp_path / "copy", is_shallow=True))

    snapshot = load_snapshot(FaultStore(tmp_path / "source", before={"put_if_absent": clone_first}))
    vacuum(snapshot, retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert plain(copies[0].to_pyarrow_table()).equals(plain(data(0)))


def test_readers_need_the_source(tmp_path: Path) -> None:
    made(tmp_path / "source").clone(tmp_path / "copy", is_shallow=True)
    with pytest.raises(PathOutsideTableError):
        DeltaTable(tmp_path / "copy").to_pyarrow_table()
    options = {"allowed_roots": str(tmp_path / "source")}
    copy = DeltaTable(tmp_path / "copy", storage_options=options)
    assert copy.to_pyarrow_table().num_rows == 40
    assert copy.vacuum(0, dry_run=False, enforce_retention_duration=False) == []
    with pytest.raises(InvalidArgumentError, match="itself a shallow clone"):
        copy.clone(tmp_path / "other")


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_a_refused_clone_leaves_no_files(tmp_path: Path, is_shallow: bool) -> None:
    source = made(tmp_path / "source")
    for folder, text in (("source", "exists already"), ("full", "expected an empty folder")):
        (tmp_path / "full").mkdir(exist_ok=True)
        (tmp_path / "full" / "x").touch()
        with pytest.raises(InvalidArgumentError, match=text):
            source.clone(tmp_path / folder, is_shallow=is_shallow)
    (path, *_) = parquet_files(tmp_path / "source")
    path.unlink()
    with pytest.raises(ObjectNotFoundError, match="1 of 6 files of version 1 do not exist"):
        source.clone(tmp_path / "copy", is_shallow=is_shallow)
    assert not list((tmp_path / "source" / "_lakehouse/clones").glob("*"))
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_a_lost_race_deletes_the_copies(tmp_path: Path, is_shallow: bool) -> None:
    source = made(tmp_path / "source")

    def create_first(path: str) -> None:
        if path.endswith("0.json") and not DeltaTable.is_deltatable(tmp_path / "copy"):
            write_deltalake(tmp_path / "copy", data(0))

    before = parquet_files(tmp_path / "source")
    store = FaultStore(tmp_path / "copy", before={"put_if_absent": create_first})
    store._allowed_roots = (str(tmp_path / "source"),)
    with pytest.raises(InvalidArgumentError, match="exists already"):
        clone(source.snapshot, store, source.engine, is_shallow=is_shallow)
    assert len(parquet_files(tmp_path / "copy")) == 1
    assert parquet_files(tmp_path / "source") == before
    assert not list((tmp_path / "source" / "_lakehouse/clones").glob("*"))


def test_an_interrupt_after_the_commit_keeps_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(tmp_path / "source")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakehouse_lib.transaction.optimistic_transaction.run_hooks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        source.clone(tmp_path / "copy")
    assert read_by_all(tmp_path / "copy").equals(plain(source.to_pyarrow_table()))


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_a_log_with_absolute_paths_of_own_files(tmp_path: Path, is_shallow: bool) -> None:
    root = tmp_path / "a source"
    source = made(root)
    expected = plain(source.to_pyarrow_table())
    for commit in (root / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace('"add":{"path":"', f'"add":{{"path":"{root.as_uri()}/'))
    (root / "_delta_log" / f"{1:020}.crc").unlink(missing_ok=True)
    copy = DeltaTable(root).clone(tmp_path / "copy", is_shallow=is_shallow)
    assert plain(copy.to_pyarrow_table()).equals(expected)
    assert all("copy" in path for path in copy.file_uris()) is not is_shallow


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_files_of_another_store_are_refused(tmp_path: Path, is_shallow: bool) -> None:
    source = made(tmp_path / "source")
    commit = tmp_path / "source" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace('"add":{"path":"', '"add":{"path":"s3://bucket/table/'))
    with pytest.raises(InvalidArgumentError, match="itself a shallow clone"):
        DeltaTable(source.table_uri, 0).clone(tmp_path / "copy", is_shallow=is_shallow)


def test_a_full_disk_deletes_the_copies(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    store = FaultStore(tmp_path / "copy")
    opened: list[str] = []
    open_output = store.open_output

    def fail_later(path: str) -> pa.NativeFile:
        opened.append(path)
        if len(opened) > 3:
            raise StoreError("no space left")
        return open_output(path)

    store.open_output = fail_later  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="no space left"):
        clone(source.snapshot, store, source.engine)
    assert not parquet_files(tmp_path / "copy")


def test_tracked_rows_keep_their_ids(tmp_path: Path) -> None:
    tracked_rows(tmp_path / "source", STABLE)
    source = DeltaTable(tmp_path / "source")
    copy = source.clone(tmp_path / "copy")
    write_deltalake(copy, rows(50), mode="append")
    marks = [json.loads(table.snapshot.domains["delta.rowTracking"].configuration) for table in (source, copy)]
    assert marks[1]["rowIdHighWaterMark"] == marks[0]["rowIdHighWaterMark"] + 10


def test_a_shallow_clone_of_a_folder_that_allowed_roots_cannot_name_is_refused(tmp_path: Path) -> None:
    source = made(tmp_path / "a:b")
    with pytest.raises(InvalidArgumentError, match=r"has ':' in its name.*allowed_roots; expected a folder without it"):
        source.clone(tmp_path / "copy", is_shallow=True)
    assert not (tmp_path / "copy").exists()
    assert read_by_all(tmp_path / "a:b").equals(read_by_all(source.clone(tmp_path / "copy").table_uri))
