"""Deletes of tables with enabled deletion vectors: rows are hidden, files stay, and other readers agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.privacy.purge import prove
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.statistics import with_loose_bounds
from tests.peers import parquet_files, read_duckdb
from tests.table_builder import longs

ENABLED = {"delta.enableDeletionVectors": "true"}
ROWS = 3000


def rows(start: int = 0) -> pa.Table:
    numbers = range(start, start + ROWS)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "name": [f"Person {n % 10}" for n in numbers],
            "p": ["even" if start // ROWS % 2 == 0 else "odd"] * ROWS,
            "x": pa.array([n / 7 for n in numbers], pa.float64()),
        }
    )


def made(root: Path, *, files: int = 2, partition_by: list[str] | None = None, **properties: str) -> DeltaTable:
    """A table that delta-rs has written, with a file for every 3,000 rows."""
    for number in range(files):
        deltalake.write_deltalake(
            root,
            rows(number * ROWS),
            mode="append",
            partition_by=partition_by,
            configuration={**ENABLED, **properties} if number == 0 else None,
        )
    return DeltaTable(root)


def last_commit(root: Path) -> list[dict[str, Any]]:
    (*_, last) = sorted((root / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in last.read_text().splitlines()]


def by_delta_rs(root: Path) -> list[int]:
    answer = QueryBuilder().register("t", deltalake.DeltaTable(root)).execute("SELECT k FROM t ORDER BY k").read_all()
    return pa.table(answer)["k"].to_pylist()


def read_by_all(root: Path) -> list[int]:
    """The values of ``k``, on which this library, DuckDB and delta-rs agree."""
    our_values = sorted(DeltaTable(root).to_pyarrow_table(columns=["k"])["k"].to_pylist())
    assert read_duckdb(root)["k"].to_pylist() == our_values
    assert by_delta_rs(root) == our_values
    return our_values


@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["whole", "partitioned"])
def test_deletes_rewrite_no_file(tmp_path: Path, engine: Engine, partition_by: list[str] | None) -> None:
    made(tmp_path, partition_by=partition_by)
    before = parquet_files(tmp_path)
    metrics = DeltaTable(tmp_path, engine=engine).delete("k % 100 = 7 AND k < 4000")
    assert (metrics["num_deleted_rows"], metrics["num_deletion_vectors"]) == (40, 2)
    assert (metrics["num_added_files"], metrics["num_removed_files"], metrics["num_copied_rows"]) == (0, 0, 0)
    assert parquet_files(tmp_path) == before
    assert read_by_all(tmp_path) == [k for k in range(2 * ROWS) if k % 100 != 7 or k >= 4000]


def test_a_condition_that_only_spark_evaluates(tmp_path: Path, spark: Any) -> None:
    from lakehouse_lib.engine.spark.engine import SparkEngine

    made(tmp_path, partition_by=["p"])
    table = DeltaTable(tmp_path, engine=SparkEngine(spark))
    assert table.delete("upper(name) = 'PERSON 3' AND k RLIKE '^1'")["num_deletion_vectors"] == 1
    left = [k for k in range(2 * ROWS) if k % 10 != 3 or not str(k).startswith("1")]
    assert read_by_all(tmp_path) == left
    again = table.delete("upper(name) = 'PERSON 3' AND k RLIKE '^[12]'", rewrite=True)
    left = [k for k in left if k % 10 != 3 or not str(k).startswith("2")]
    assert (again["num_deletion_vectors"], again["num_added_files"]) == (0, 1)
    assert read_by_all(tmp_path) == left


def test_vectors_grow_and_a_file_without_rows_is_removed(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.delete("k % 2 = 0")
    large = {line["add"]["deletionVector"]["storageType"] for line in last_commit(tmp_path) if "add" in line}
    table.delete("k < 3000 AND k % 2 = 1")
    (removed,) = [line["remove"] for line in last_commit(tmp_path) if "remove" in line]
    assert not [line for line in last_commit(tmp_path) if "add" in line]
    assert removed["deletionVector"]["cardinality"] == ROWS // 2
    assert read_by_all(tmp_path) == list(range(3001, 2 * ROWS, 2))
    assert large <= {"i", "u"}


def test_scattered_rows_share_a_file_of_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vector, "_INLINE_BYTES", 64)
    made(tmp_path, files=3).delete("k % 3 = 0")
    adds = [line["add"] for line in last_commit(tmp_path) if "add" in line]
    assert {add["deletionVector"]["storageType"] for add in adds} == {"u"}
    assert len({add["deletionVector"]["pathOrInlineDv"] for add in adds}) == 1
    assert len(list(tmp_path.glob("deletion_vector_*.bin"))) == 1
    assert read_by_all(tmp_path) == [k for k in range(3 * ROWS) if k % 3]


def test_a_file_of_vectors_is_full_at_some_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vector, "_INLINE_BYTES", 64)
    monkeypatch.setattr(deletion_vector, "_FILE_BYTES", 3000)
    made(tmp_path, files=3).delete("k % 3 = 0")
    assert len(list(tmp_path.glob("deletion_vector_*.bin"))) == 3
    assert read_by_all(tmp_path) == [k for k in range(3 * ROWS) if k % 3]


@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["whole", "partitioned"])
def test_a_purge_leaves_no_deleted_row_in_a_file(
    tmp_path: Path, engine: Engine, partition_by: list[str] | None
) -> None:
    made(tmp_path, files=3, partition_by=partition_by)
    table = DeltaTable(tmp_path, engine=engine)
    table.delete("k % 100 = 7 AND k < 4000")
    untouched = table.files().filter(pc.is_null(pc.field("deletionVector")))["path"].to_pylist()
    assert table.optimize.compact(target_size=1)["numFilesAdded"] == 0
    metrics = table.optimize.purge()
    files = table.files()
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["version"]) == (2, 2, table.version())
    assert files["deletionVector"].null_count == len(files) == 3
    assert set(untouched) < set(files["path"].to_pylist())
    assert sum(pq.read_metadata(tmp_path / path).num_rows for path in files["path"].to_pylist()) == 3 * ROWS - 40
    assert read_by_all(tmp_path) == [k for k in range(3 * ROWS) if k % 100 != 7 or k >= 4000]
    assert table.history(1)[0]["operation"] == "REORG"
    assert table.optimize.purge()["version"] == metrics["version"]


def test_a_purge_by_another_column_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, partition_by=["p"])
    with pytest.raises(InvalidArgumentError):
        table.optimize.purge(partition_filters=[("k", "=", "1")])


def test_bounds_remain_and_are_not_tight(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    (before,) = [json.loads(text) for text in table.snapshot.files["stats"].to_pylist()]
    table.delete("k < 10")
    (after,) = [json.loads(line["add"]["stats"]) for line in last_commit(tmp_path) if "add" in line]
    assert after == {**before, "numRecords": ROWS, "tightBounds": False}


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, '{"numRecords":5,"tightBounds":false}'),
        ("no JSON", '{"numRecords":5,"tightBounds":false}'),
        ('{"numRecords":5}', '{"numRecords":5,"tightBounds":false}'),
        (
            '{ "minValues" : {"d":1.10} , "tightBounds":true}',
            '{"minValues":{"d":1.10},"tightBounds":false,"numRecords":5}',
        ),
        ('{"nullCount":{"tightBounds":0}}', '{"nullCount":{"tightBounds":0},"numRecords":5,"tightBounds":false}'),
    ],
)
def test_loose_bounds(stats: str | None, expected: str) -> None:
    assert json.loads(with_loose_bounds(stats, 5)) == json.loads(expected)
    assert "1.10" in with_loose_bounds(stats, 5) or "1.10" not in (stats or "")


def test_an_erasure_leaves_no_row_in_any_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.delete("name = 'Person 4'")
    assert prove(str(tmp_path), "name = 'Person 4'").rows == 2 * ROWS // 10
    metrics = table.delete("name = 'Person 4'", rewrite=True)
    assert (metrics["num_deleted_rows"], metrics["num_added_files"]) == (0, 2)
    live = [tmp_path / path for path in table.snapshot.files["path"].to_pylist()]
    assert not any("Person 4" in pa.parquet.read_table(path)["name"].to_pylist() for path in live)
    assert read_by_all(tmp_path) == [k for k in range(2 * ROWS) if k % 10 != 4]


def test_optimize_writes_files_without_many_deleted_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.delete("k < 3000 AND k % 10 = 4")
    assert table.optimize.compact(target_size=1)["numFilesRemoved"] == 1
    assert table.snapshot.files["deletionVector"].null_count == 2
    assert read_by_all(tmp_path) == [k for k in range(2 * ROWS) if k % 10 != 4 or k >= 3000]


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(), configuration={"delta.enableRowTracking": "true"})
    protocol = deltalake.DeltaTable(tmp_path).protocol()
    assert "rowTracking" in (protocol.writer_features or [])
    before = {row["k"]: row["_metadata.row_id"] for row in _scan(tmp_path)}
    _enable(tmp_path)
    DeltaTable(tmp_path).delete("k % 5 = 0")
    after = {row["k"]: row["_metadata.row_id"] for row in _scan(tmp_path)}
    assert after == {k: number for k, number in before.items() if k % 5}


def test_the_feature_without_the_property_copies(tmp_path: Path) -> None:
    table = made(tmp_path, **{"delta.enableDeletionVectors": "false"})
    metrics = table.delete("k = 3")
    assert (metrics["num_deletion_vectors"], metrics["num_added_files"]) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(1, 9), st.booleans()), min_size=1, max_size=6))
@settings(max_examples=settings.default.max_examples // 6)  # each example makes two tables and up to six deletes
def test_vectors_and_copies_leave_the_same_rows(tmp_path_factory: pytest.TempPathFactory, deletes: Any) -> None:
    root = tmp_path_factory.mktemp("table")
    data = longs(k=range(60))
    deltalake.write_deltalake(root, data.slice(0, 40), configuration=ENABLED)
    deltalake.write_deltalake(root, data.slice(40), mode="append")
    table = DeltaTable(root, engine=ArrowEngine(1))
    left = set(range(60))
    for start, step, rewrite in deletes:
        gone = {k for k in left if k >= start and (k - start) % step == 0}
        metrics = table.delete(f"k >= {start} AND (k - {start}) % {step} = 0", rewrite=rewrite)
        assert metrics["num_deleted_rows"] == len(gone)
        left -= gone
        assert sorted(table.to_pyarrow_table()["k"].to_pylist()) == sorted(left)
    assert read_duckdb(root)["k"].to_pylist() == sorted(left)


def _scan(root: Path) -> list[dict[str, Any]]:
    return pa.table(DeltaTable(root).scan(["k"], row_ids=True)).to_pylist()


def _enable(root: Path) -> None:
    """Enable deletion vectors for an existing table, as ALTER TABLE does."""
    from dataclasses import replace

    from lakehouse_lib.protocol.actions import Protocol
    from lakehouse_lib.transaction import OptimisticTransaction, version_of

    snapshot = DeltaTable(root).snapshot
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET TBLPROPERTIES", {})
    features = (snapshot.protocol.writer_features or frozenset()) | {"deletionVectors"}
    transaction.set_protocol(Protocol(3, 7, frozenset({"deletionVectors"}), features))
    transaction.set_metadata(replace(snapshot.metadata, configuration={**snapshot.configuration, **ENABLED}))
    version_of(transaction.commit())
