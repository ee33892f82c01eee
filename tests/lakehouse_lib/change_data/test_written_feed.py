"""The change data feed that this library writes: its rows, its files, and what conflicts and failures leave of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidSchemaError, MetadataChangedError, StoreError
from lakehouse_lib.expressions import parse, parse_value
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.operations.dml import change_data
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.dml.update import update
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore
from tests.peers import collected, parquet_files
from tests.slow_cases import some_slow
from tests.table_builder import write_files

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TABLES = {
    "plain": {},
    "partitions": {"partition_by": ["part"]},
    "vectors": {"configuration": VECTORS},
    "names": {"partition_by": ["part"], "configuration": {"delta.columnMapping.mode": "name"}},
    "ids": {"configuration": {"delta.columnMapping.mode": "id", "delta.enableRowTracking": "true"}},
}


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    parts = [None if number % 5 == 0 else f"p{number % 2}" for number in numbers]
    return pa.table({"id": pa.array(numbers, pa.int64()), "part": parts, "n": pa.array([0] * count, pa.int64())})


def made(root: Path, *, files: int = 2, kind: str = "plain", engine: Engine | None = None) -> DeltaTable:
    """A table of ten rows in each file; ``part`` is null or p0 or p1."""
    options: dict[str, Any] = {**TABLES[kind], "configuration": FEED | TABLES[kind].get("configuration", {})}
    write_files(root, rows(0, 10 * files), files, **options)
    return DeltaTable(root, engine=engine)


def feed(table: Any, version: int) -> list[tuple[str, int, int]]:
    """The kind of change, id and n of each row that a version changed, sorted."""
    changes = table.load_cdf(starting_version=version, ending_version=version)
    read = pa.table(changes) if type(table).__module__.startswith("deltalake") else collected(changes)
    return sorted((row["_change_type"], row["id"], row["n"]) for row in read.to_pylist())


def actions(table: DeltaTable, version: int | None = None) -> CommitActions:
    return read_commit(table.store, table.version() if version is None else version)


def named_files(root: Path) -> set[Path]:
    """All data and change files to which a commit refers."""
    table = DeltaTable(root)
    commits = [actions(table, version) for version in range(table.version() + 1)]
    paths = [
        path for commit in commits for files in (commit.adds, commit.changes) for path in files["path"].to_pylist()
    ]
    return {root.resolve() / path for path in paths}


@pytest.mark.parametrize("kind", some_slow([*TABLES], 2))
def test_each_verb_records_its_changes(tmp_path: Path, kind: str, engine: Engine) -> None:
    table = made(tmp_path, kind=kind, engine=engine)
    table.delete("id IN (3, 14)")
    table.update({"n": "n + id"}, predicate="id < 2 OR id = 3")
    source = pa.table({"id": [1, 4, 30], "part": ["p0", "p0", "p9"], "n": [100, 100, 100]})
    merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all(predicate="s.id < 4").when_matched_delete().when_not_matched_insert_all()
    merger.when_not_matched_by_source_delete("t.id = 7").execute()
    write_deltalake(tmp_path, rows(10, 2), mode="overwrite", predicate="id >= 10 AND id < 12", engine=engine)
    expected = [
        [("delete", 3, 0), ("delete", 14, 0)],
        [("update_postimage", 0, 0), ("update_postimage", 1, 1), ("update_preimage", 0, 0), ("update_preimage", 1, 0)],
        [
            ("delete", 4, 0),
            ("delete", 7, 0),
            ("insert", 30, 100),
            ("update_postimage", 1, 100),
            ("update_preimage", 1, 1),
        ],
        [("delete", 10, 0), ("delete", 11, 0), ("insert", 10, 0), ("insert", 11, 0)],
    ]
    table = DeltaTable(tmp_path, engine=engine)
    assert [feed(table, version) for version in range(2, 6)] == expected
    assert [feed(DeltaTable(tmp_path), version) for version in range(2, 6)] == expected
    if kind in ("plain", "partitions"):
        assert [feed(deltalake.DeltaTable(tmp_path), version) for version in range(2, 6)] == expected
    assert parquet_files(tmp_path) == named_files(tmp_path)


@pytest.mark.parametrize(
    ("kind", "verb", "deleted", "inserted"),
    [
        ("plain", lambda table: write_deltalake(table, rows(20, 3), mode="append"), 0, 3),
        ("plain", lambda table: write_deltalake(table, rows(20, 3), mode="overwrite"), 20, 3),
        ("plain", lambda table: table.delete(), 20, 0),
        ("plain", lambda table: table.delete("id >= 10"), 10, 0),
        ("partitions", lambda table: table.delete("part = 'p0'"), 8, 0),
        (
            "partitions",
            lambda table: write_deltalake(table, rows(2, 1), mode="overwrite", predicate="part = 'p0'"),
            8,
            1,
        ),
        (
            "partitions",
            lambda table: write_deltalake(table, rows(2, 1), mode="overwrite", partition_overwrite_mode="dynamic"),
            8,
            1,
        ),
        ("plain", lambda table: table.restore(0), 10, 0),
        ("vectors", lambda table: table.delete("id = 3"), 1, 0),
        ("plain", lambda table: inserted_by_merge(table), 0, 2),
        ("plain", lambda table: table.optimize.compact(), 0, 0),
        ("plain", lambda table: table.optimize.z_order(["id"]), 0, 0),
    ],
)
def test_added_and_removed_files_need_no_change_file(
    tmp_path: Path, kind: str, verb: Callable[[DeltaTable], Any], deleted: int, inserted: int
) -> None:
    made(tmp_path, kind=kind)
    verb(DeltaTable(tmp_path))
    table = DeltaTable(tmp_path)
    assert len(actions(table).changes) == 0
    assert Counter(change for change, _, _ in feed(table, 2)) == Counter(delete=deleted, insert=inserted)


def inserted_by_merge(table: DeltaTable) -> None:
    merger = table.merge(rows(19, 3), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_not_matched_insert_all().execute()


def test_a_change_file(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, kind="names")
    table.update({"n": "7"}, predicate="id = 1")
    written = actions(DeltaTable(tmp_path))
    (change,) = written.changes.to_pylist()
    keys = {field.name: field.metadata["delta.columnMapping.physicalName"] for field in table.schema().fields}
    folder = f"_change_data/{keys['part']}=p1/"
    assert change["path"].startswith(f"{folder}cdc-")
    assert dict(change["partitionValues"]) == {keys["part"]: "p1"}
    file = pq.ParquetFile(tmp_path / change["path"])
    assert file.schema_arrow.names == [keys["id"], keys["n"], "_change_type"]
    assert file.read()["_change_type"].to_pylist() == ["update_preimage", "update_postimage"]
    assert change["size"] == (tmp_path / change["path"]).stat().st_size
    assert DeltaTable(tmp_path).history(1)[0]["operationMetrics"]["numAddedChangeFiles"] == "1"


OTHERS: dict[str, Callable[[DeltaTable], Any]] = {
    "append": lambda table: write_deltalake(table, rows(20, 10), mode="append"),
    "compact": lambda table: table.optimize.compact(),
    "delete": lambda table: table.delete("id IN (2, 7)"),
    "update": lambda table: table.update({"n": "1"}, predicate="id IN (2, 7)"),
}


class TestConcurrentWriters:
    """Another writer commits after the change has read its version."""

    @pytest.mark.parametrize("kind", some_slow(["plain", "vectors", "partitions"], 1))
    @pytest.mark.parametrize("other", OTHERS)
    @pytest.mark.parametrize("verb", ["delete", "update"])
    def test_each_change_is_recorded_once(self, tmp_path: Path, kind: str, other: str, verb: str) -> None:
        made(tmp_path, kind=kind)
        snapshot = load_snapshot(FaultStore(str(tmp_path)))
        OTHERS[other](DeltaTable(tmp_path))
        before = DeltaTable(tmp_path)
        engine = before.engine
        predicate = parse("id % 10 = 7", snapshot.schema)
        if verb == "delete":
            delete(snapshot, predicate, engine)
        else:
            update(snapshot, {"n": parse_value("5", snapshot.schema.field("n"), snapshot.schema)}, predicate, engine)
        table = DeltaTable(tmp_path)
        matching = [row for row in before.to_pyarrow_table().to_pylist() if row["id"] % 10 == 7]
        expected = [("delete" if verb == "delete" else "update_preimage", row["id"], row["n"]) for row in matching]
        expected += [("update_postimage", row["id"], 5) for row in matching] if verb == "update" else []
        assert feed(table, table.version()) == sorted(expected)
        assert parquet_files(tmp_path) == named_files(tmp_path)

    def test_turning_the_feed_on_is_a_conflict(self, tmp_path: Path) -> None:
        write_deltalake(tmp_path, rows(0, 10))
        snapshot = load_snapshot(FaultStore(str(tmp_path)))
        DeltaTable(tmp_path).alter.set_table_properties(FEED)
        with pytest.raises(MetadataChangedError):
            delete(snapshot, parse("id = 7", snapshot.schema), DeltaTable(tmp_path).engine)

    def test_a_commit_that_fails_leaves_no_change_file(self, tmp_path: Path) -> None:
        made(tmp_path)
        snapshot = load_snapshot(FaultStore(str(tmp_path)))
        more = rows(20, 1).append_column("extra", pa.nulls(1, pa.int64()))
        write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
        before = parquet_files(tmp_path)
        with pytest.raises(MetadataChangedError):
            delete(snapshot, parse("id = 7", snapshot.schema), DeltaTable(tmp_path).engine)
        assert parquet_files(tmp_path) == before


@pytest.mark.parametrize("kind", ["plain", "vectors"])
def test_a_change_file_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, kind=kind)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}

    def fail(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(change_data, "write_change_files", fail)
    with pytest.raises(StoreError):
        table.update({"n": "1"}, predicate="id = 3")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_column_with_a_name_of_the_feed_is_refused(tmp_path: Path) -> None:
    named = rows(0, 5).append_column("_change_type", pa.nulls(5, pa.string()))
    deltalake.write_deltalake(tmp_path, named, configuration=FEED)
    before = parquet_files(tmp_path)
    with pytest.raises(InvalidSchemaError, match="_change_type"):
        DeltaTable(tmp_path).update({"n": "1"}, predicate="id = 3")
    assert parquet_files(tmp_path) == before


def test_an_erasure_records_no_images_of_its_rows(tmp_path: Path) -> None:
    table = made(tmp_path, kind="vectors")
    table.update({"n": "9"}, predicate="id IN (3, 4)")
    table.delete("id = 3", rewrite=True)
    assert feed(DeltaTable(tmp_path), 3) == [("delete", 3, 9)]
    report = purge(str(tmp_path), "id = 3")
    assert (report.kept, report.changes_lost) == ({}, (2, 3))
    assert prove(str(tmp_path), "id = 3").clean


def test_a_rewrite_without_deleted_rows_is_not_a_change(tmp_path: Path) -> None:
    table = made(tmp_path, kind="vectors")
    table.delete("id = 3")
    table.delete("id = 3", rewrite=True)
    table = DeltaTable(tmp_path)
    assert table.version() == 3
    assert feed(table, 3) == []
    assert prove(str(tmp_path), "id = 3").rows == 1  # in the removed file
    assert len(table.to_pyarrow_table()) == 19
