"""Changes computed from adds and removes, in logs made by hand from the protocol's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError, VersionNotFoundError
from lakehouse_lib.protocol.deletion_vector import all_but, load
from lakehouse_lib.store import LocalStore
from tests.deletion_vector_bytes import in_file, inline
from tests.log_builder import Log, field, metadata, protocol
from tests.peers import collected


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def test_added_rows_are_inserts_and_removed_ones_deletes(log: Log, engine: Any) -> None:
    log.file("a.parquet", [1, 2])
    log.commit(log.add("a.parquet"))
    log.commit(log.remove("a.parquet"))
    assert log.changes(engine) == [
        (1, "insert", 1, None),
        (1, "insert", 2, None),
        (2, "delete", 1, None),
        (2, "delete", 2, None),
    ]


def test_rows_that_are_rearranged_do_not_change(log: Log) -> None:
    log.file("a.parquet", [1, 2])
    log.file("b.parquet", [2, 1])
    log.commit(log.add("a.parquet"))
    log.commit(log.remove("a.parquet", dataChange=False), log.add("b.parquet", dataChange=False))
    assert log.changes(starting_version=2) == []


def test_a_commit_with_change_files_has_only_their_changes(log: Log, engine: Any) -> None:
    log.file("a.parquet", [1, 2])
    log.file("b.parquet", [1, 3])
    log.file("_change_data/c.parquet", [2, 3], _change_type=["update_preimage", "update_postimage"])
    log.commit(log.add("a.parquet"))
    size = (log.root / "_change_data/c.parquet").stat().st_size
    change = {"path": "_change_data/c.parquet", "partitionValues": {}, "size": size, "dataChange": False}
    log.commit(log.remove("a.parquet"), log.add("b.parquet"), {"cdc": change})
    assert log.changes(engine, starting_version=2) == [
        (2, "update_postimage", 3, None),
        (2, "update_preimage", 2, None),
    ]


class TestDeletionVectors:
    def test_the_rows_a_new_vector_hides_are_deleted(self, log: Log, engine: Any) -> None:
        log.file("a.parquet", list(range(10)))
        log.commit(log.add("a.parquet"))
        log.commit(log.remove("a.parquet"), log.add("a.parquet", deletionVector=inline([2, 3])))
        (stored,) = in_file(log.root, [2, 3, 9])
        log.commit(log.remove("a.parquet", deletionVector=inline([2, 3])), log.add("a.parquet", deletionVector=stored))
        assert log.changes(engine, starting_version=2) == [
            (2, "delete", 2, None),
            (2, "delete", 3, None),
            (3, "delete", 9, None),
        ]

    def test_rows_that_a_new_vector_restores_are_inserted(self, log: Log, engine: Any) -> None:
        log.file("a.parquet", list(range(10)))
        log.commit(log.add("a.parquet", deletionVector=inline([1, 2, 3])))
        log.commit(
            log.remove("a.parquet", deletionVector=inline([1, 2, 3])),
            log.add("a.parquet", deletionVector=inline([3, 4])),
        )
        log.commit(log.remove("a.parquet", deletionVector=inline([3, 4])), log.add("a.parquet"))
        assert log.changes(engine, starting_version=2) == [
            (2, "delete", 4, None),
            (2, "insert", 1, None),
            (2, "insert", 2, None),
            (3, "insert", 3, None),
            (3, "insert", 4, None),
        ]

    def test_rows_hidden_before_are_not_deleted_with_their_file(self, log: Log, engine: Any) -> None:
        log.file("a.parquet", [0, 1, 2])
        log.commit(log.add("a.parquet", deletionVector=inline([1])))
        log.commit(log.remove("a.parquet", deletionVector=inline([1])))
        assert log.changes(engine) == [
            (1, "insert", 0, None),
            (1, "insert", 2, None),
            (2, "delete", 0, None),
            (2, "delete", 2, None),
        ]

    def test_a_rewritten_vector_is_not_a_change(self, log: Log) -> None:
        log.file("a.parquet", [0, 1, 2])
        first, second = in_file(log.root, [1], [1])
        log.commit(log.add("a.parquet", deletionVector=first))
        log.commit(log.remove("a.parquet", deletionVector=first), log.add("a.parquet", deletionVector=second))
        assert log.changes(starting_version=2) == []

    def test_a_purge_is_not_a_change(self, log: Log) -> None:
        log.file("a.parquet", [0, 1, 2])
        log.file("b.parquet", [0, 2])
        log.commit(log.add("a.parquet", deletionVector=inline([1])))
        removed = log.remove("a.parquet", deletionVector=inline([1]), dataChange=False)
        log.commit(removed, log.add("b.parquet", dataChange=False))
        assert log.changes(starting_version=2) == []

    def test_a_file_without_statistics(self, log: Log) -> None:
        log.file("a.parquet", [0, 1, 2])
        log.commit(log.add("a.parquet"))
        log.commit(log.remove("a.parquet"), log.add("a.parquet", rows=None, deletionVector=inline([1])))
        assert log.changes(starting_version=2) == [(2, "delete", 1, None)]

    def test_rows_that_the_statistics_of_the_new_vector_leave_out(self, log: Log, engine: Any) -> None:
        log.file("a.parquet", [1, 2, 100])
        bounds = {"minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}, "tightBounds": True}
        tight = json.dumps({"numRecords": 3, **bounds})
        log.commit(log.add("a.parquet", rows=3))
        log.commit(log.remove("a.parquet"), log.add("a.parquet", deletionVector=inline([2]), stats=tight))
        log.commit(log.remove("a.parquet", deletionVector=inline([2])), log.add("a.parquet", rows=3))
        assert log.changes(engine, starting_version=2, predicate="id = 100") == [
            (2, "delete", 100, None),
            (3, "insert", 100, None),
        ]

    def test_a_path_spelled_otherwise_is_the_same_file(self, log: Log) -> None:
        log.file("a.parquet", [0, 1, 2])
        log.commit(log.add("a.parquet"))
        added = log.add("a.parquet", rows=3, deletionVector=inline([0]))
        added["add"]["path"] = (log.root / "a.parquet").as_uri()
        log.commit(log.remove("a.parquet"), added)
        assert log.changes(starting_version=2) == [(2, "delete", 0, None)]

    def test_a_vector_beyond_the_file_is_refused(self, log: Log) -> None:
        log.file("a.parquet", [0, 1, 2])
        log.commit(log.add("a.parquet", rows=3))
        log.commit(log.remove("a.parquet"), log.add("a.parquet", rows=3, deletionVector=inline([5])))
        with pytest.raises(LogCorruptedError, match="deletes row 5, but the file has 3 rows"):
            log.changes(starting_version=2)

    @pytest.mark.parametrize("shown", [[], [0], [9], [3, 4, 5], list(range(10))], ids=str)
    def test_a_vector_of_all_rows_except_some(self, tmp_path: Path, shown: list[int]) -> None:
        from pyroaring import BitMap64

        store = LocalStore(str(tmp_path))
        hidden = load(store, all_but(BitMap64(shown), 10))
        assert list(hidden) == [row for row in range(10) if row not in shown]


class TestRemovesThatSayLittle:
    def test_partition_values_come_from_when_the_file_was_added(self, tmp_path: Path, engine: Any) -> None:
        log = Log(tmp_path / "t", partitioned=True)
        for part in ("5", "6"):
            log.file(f"part={part}/a.parquet", [int(part)])
            log.commit(log.add(f"part={part}/a.parquet", partitionValues={"part": part}))
        bare = [{"remove": {"path": f"part={part}/a.parquet", "dataChange": True}} for part in ("5", "6")]
        log.commit(*bare)
        assert log.changes(engine, starting_version=3) == [(3, "delete", 5, 5), (3, "delete", 6, 6)]

    def test_a_remove_of_an_unknown_file_is_refused(self, log: Log) -> None:
        log.file("a.parquet", [1])
        log.commit({"remove": {"path": "a.parquet", "dataChange": True}})
        with pytest.raises(LogCorruptedError, match=r"removed a\.parquet, which was not a file"):
            log.changes()


def test_a_vacuumed_file_is_named(log: Log) -> None:
    log.file("a.parquet", [1])
    log.commit(log.add("a.parquet"))
    log.commit(log.remove("a.parquet"))
    (log.root / "a.parquet").unlink()
    with pytest.raises(ObjectNotFoundError, match=r"a\.parquet is missing"):
        log.changes()


def test_commits_that_are_cleaned_up_are_named(log: Log) -> None:
    for number in range(3):
        log.file(f"{number}.parquet", [number])
        log.commit(log.add(f"{number}.parquet"))
    DeltaTable(log.root, version=2).create_checkpoint()
    for version in (0, 1):
        (log.root / f"_delta_log/{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="Start at version 2"):
        log.changes()
    assert log.changes(starting_version=3) == [(3, "insert", 2, None)]


class TestColumnMapping:
    """Tables with the columns ``key`` and ``part``, stored as ``col-1`` and ``col-2`` and renamed between versions."""

    @pytest.fixture(params=["name", "id"])
    def mapped(self, request: pytest.FixtureRequest, tmp_path: Path) -> Log:
        log = Log(tmp_path / "t")
        self.mode = request.param
        (log.root / f"_delta_log/{0:020}.json").unlink()
        log.version = -1
        log.commit(protocol("columnMapping", "deletionVectors", writer=["changeDataFeed"]), self.metadata("key"))
        return log

    def metadata(self, name: str) -> dict[str, Any]:
        fields = [
            field(shown, "long", id=number, physical=f"col-{number}")
            for number, shown in enumerate((name, f"{name} of part"), 1)
        ]
        properties = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": self.mode}
        return metadata(*fields, partition_by=[f"{name} of part"], configuration=properties)

    def file(self, log: Log, path: str, ids: list[int], **more: list[Any]) -> str:
        (log.root / path).parent.mkdir(parents=True, exist_ok=True)
        stored = "col-1" if self.mode == "name" else "whatever"
        key = pa.field(stored, pa.int64(), metadata={"PARQUET:field_id": "1"})
        fields = [key, *(pa.field(name, pa.string()) for name in more)]
        rows = pa.table(
            [pa.array(ids, pa.int64()), *(pa.array(column) for column in more.values())], schema=pa.schema(fields)
        )
        pq.write_table(rows, log.root / path)
        return path

    def test_every_kind_of_change(self, mapped: Log, engine: Any) -> None:
        log, values = mapped, {"col-2": "7"}
        log.commit(log.add(self.file(log, "a.parquet", list(range(4))), rows=4, partitionValues=values))
        log.commit(self.metadata("id"))
        change = self.file(log, "_change_data/c.parquet", [3, 9], _change_type=["update_preimage", "update_postimage"])
        size = (log.root / change).stat().st_size
        log.commit({"cdc": {"path": change, "partitionValues": values, "size": size, "dataChange": False}})
        hidden = inline([0])
        log.commit(
            log.remove("a.parquet", partitionValues=values),
            log.add("a.parquet", rows=4, partitionValues=values, deletionVector=hidden),
        )
        log.commit(log.remove("a.parquet", partitionValues=values, deletionVector=hidden))
        changes = collected(DeltaTable(log.root, engine=engine).load_cdf())
        changes = changes.select(["_commit_version", "_change_type", "id", "id of part"])
        assert sorted(tuple(row.values()) for row in changes.to_pylist()) == [
            *((1, "insert", key, 7) for key in range(4)),
            (3, "update_postimage", 9, 7),
            (3, "update_preimage", 3, 7),
            (4, "delete", 0, 7),
            *((5, "delete", key, 7) for key in (1, 2, 3)),
        ]
        assert "key" in DeltaTable(log.root).load_cdf(ending_version=1).schema.names


@pytest.mark.slow
def test_a_feed_takes_the_memory_of_a_few_row_groups(log: Log) -> None:
    """Twenty files of 8 MB each are never in memory together."""
    for number in range(20):
        log.file(f"{number}.parquet", range(number << 20, (number + 1) << 20))  # type: ignore[arg-type]
        log.commit(log.add(f"{number}.parquet", rows=1 << 20))
    reader = DeltaTable(log.root).load_cdf(columns=["id", "_commit_version"])
    before, rows = pa.total_allocated_bytes(), 0
    most = 0
    for batch in reader:
        rows += len(batch)
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 20 << 20
    assert most < 20 * (8 << 20)  # the rows have 320 MB
