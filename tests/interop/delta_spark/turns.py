"""delta-spark and this library write to one table in turns: part of `make interop`.

The comparison with delta-spark shows what other readers cannot show: the time inside each commit, and row ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import parse
from lakehouse_lib.features import protocol_for, writer_features
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.faults.scenes import clock_off_by
from tests.interop.delta_spark.peer import Peer, SparkRefusal
from tests.peers import files_delta_rs, parquet_files, read_delta_rs, read_duckdb

TIMED = {"delta.enableInCommitTimestamps": "true"}
HOUR = 3600.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(first: int, count: int = 10) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array([n // 10 for n in ids], pa.int64())})


def assert_all_read(
    path: Path,
    peer: Peer,
    expected: list[int],
    others: Iterable[Callable[[Path], pa.Table]] = (read_delta_rs, read_duckdb),
) -> None:
    assert peer.ids(f"delta.`{path}`") == expected
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == expected
    for read in others:
        assert read(path)["id"].to_pylist() == expected


@contextmanager
def rising_times(path: Path, peer: Peer) -> Iterator[None]:
    """Check after the block that the commit times rise, by delta-spark and by this library."""
    yield
    times = [entry["timestamp"] for entry in DeltaTable(path).history()]
    assert peer.times(f"delta.`{path}`") == times
    assert times == sorted(set(times), reverse=True)


@pytest.mark.timeout(900)
def test_in_commit_timestamps_rise_when_writing_in_turns(tmp_path: Path, peer: Peer) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    with rising_times(path, peer):
        write_deltalake(path, rows(0), configuration=TIMED)
        peer.sql(f"INSERT INTO {table} VALUES (10, 1), (11, 1)")
        with clock_off_by(HOUR):
            write_deltalake(path, rows(20), mode="append")
        peer.sql(f"DELETE FROM {table} WHERE id = 5")
        with clock_off_by(-HOUR):
            DeltaTable(path).delete("id = 6")
            DeltaTable(path).optimize.compact()
        peer.sql(f"OPTIMIZE {table}")
        for number in range(4):
            write_deltalake(path, rows(100 + number, 1), mode="append")
        peer.sql(f"INSERT INTO {table} VALUES (200, 1)")
    expected = [n for n in range(12) if n not in (5, 6)] + list(range(20, 30)) + [100, 101, 102, 103, 200]
    assert_all_read(path, peer, expected)
    moments = peer.times(table)[::-1]
    for version in (2, 5):
        moment = EPOCH + timedelta(milliseconds=moments[version])
        travelled = peer.ids(f"delta.`{path}@{moment:%Y%m%d%H%M%S%f}"[:-3] + "`")
        assert travelled == sorted(DeltaTable(path, version=version).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.timeout(900)
def test_delta_spark_writes_after_we_enabled_in_commit_timestamps(tmp_path: Path, peer: Peer) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    write_deltalake(path, rows(0))
    write_deltalake(path, rows(10), mode="append")
    snapshot = load_snapshot(LocalStore(str(path)))
    metadata = replace(snapshot.metadata, configuration=TIMED)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET TBLPROPERTIES", {})
    transaction.set_metadata(metadata)
    transaction.set_protocol(protocol_for(metadata, snapshot.protocol))
    with rising_times(path, peer):
        assert isinstance(transaction.commit(), Committed)
        peer.sql(f"INSERT INTO {table} VALUES (20, 2)")
        write_deltalake(path, rows(30), mode="append")
    properties = {row["key"]: row["value"] for row in peer.sql(f"SHOW TBLPROPERTIES {table}")}
    assert properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == str(peer.times(table)[-3])
    assert_all_read(path, peer, [*range(21), *range(30, 40)])


@pytest.mark.timeout(900)
def test_rows_keep_their_ids_when_writing_in_turns(tmp_path: Path, peer: Peer) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    peer.sql(
        f"CREATE TABLE {table} (id BIGINT, part BIGINT) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = 'true')"
    )
    earlier_ids: dict[int, tuple[int, int]] = {}

    def assert_ids_stay(expected: list[int]) -> None:
        ids = peer.row_ids(table)
        assert sorted(ids) == expected
        assert len({row for row, _ in ids.values()}) == len(ids)
        assert {key: ids[key] for key in earlier_ids if key in ids} == {
            k: v for k, v in earlier_ids.items() if k in ids
        }
        earlier_ids.update(ids)

    with rising_times(path, peer):
        write_deltalake(path, rows(0), mode="append")
        peer.sql(f"INSERT INTO {table} VALUES (10, 1), (11, 1)")
        write_deltalake(path, rows(20, 20), mode="append")
        assert_ids_stay([*range(12), *range(20, 40)])
        DeltaTable(path).delete("part = 2")
        peer.sql(f"DELETE FROM {table} WHERE id = 5")
        peer.sql(f"UPDATE {table} SET part = 1 WHERE id = 6")
        earlier_ids.pop(6)  # a changed row gets that version
        write_deltalake(path, rows(12, 3), mode="append")
        expected = [n for n in range(15) if n != 5] + list(range(30, 40))
        assert_ids_stay(expected)
        peer.sql(f"OPTIMIZE {table}")
        assert_ids_stay(expected)
        write_deltalake(path, rows(50, 5), mode="append")
        write_deltalake(path, rows(55, 5), mode="append")
    expected += list(range(50, 60))
    assert_ids_stay(expected)
    assert_all_read(path, peer, expected)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("marks", [False, True], ids=["rewriting", "marking"])
def test_copied_rows_keep_their_ids_when_writing_in_turns(
    tmp_path: Path, peer: Peer, engine: Engine, marks: bool
) -> None:
    """delta-spark updates, merges and deletes in between, by rewrites or deletion vectors; rows that it deletes while
    we copy them are deleted in our files too.
    """
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    if marks:
        peer.sql(
            f"CREATE TABLE {table} (id BIGINT, part BIGINT) USING delta PARTITIONED BY (part) TBLPROPERTIES "
            "('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')"
        )
    else:
        write_deltalake(path, alternating(0).slice(0, 0), configuration={"delta.enableRowTracking": "true"})
    earlier_ids: dict[int, tuple[int, int]] = {}

    def steps() -> Iterator[set[int]]:
        """After each step, the rows that it has changed: they keep their ids, and get that version."""

        def now() -> Snapshot:
            return load_snapshot(LocalStore(str(path)))

        def without(condition: str) -> None:
            delete(now(), parse(condition, now().schema), engine)

        for first in (0, 10, 20):
            write_deltalake(path, alternating(first), mode="append")
            yield set()
        peer.sql(f"INSERT INTO {table} SELECT id, id % 2 FROM range(30, 40)")
        yield set()
        without("id = 5")
        yield set()
        compact(now(), engine)
        yield set()
        peer.sql(f"UPDATE {table} SET part = part + 2 WHERE id IN (6, 33)")
        yield {6, 33}
        peer.sql(f"DELETE FROM {table} WHERE id IN (7, 17)")
        yield set()
        z_order(now(), engine, ["id"])
        yield set()
        source = "(SELECT id, 9 AS part FROM range(38, 44))"
        peer.sql(
            f"MERGE INTO {table} t USING {source} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET part = s.part WHEN NOT MATCHED THEN INSERT *"
        )
        yield {38, 39}
        without("id IN (12, 33, 38, 43)")
        yield set()
        write_deltalake(path, alternating(50), mode="append")
        before = now()
        peer.sql(f"DELETE FROM {table} WHERE id IN (20, 51)")
        compact(before if marks else now(), engine)
        yield set()
        peer.sql(f"OPTIMIZE {table}")
        yield set()
        peer.sql(f"DELETE FROM {table} WHERE id IN (0, 41, 55)")
        yield set()
        write_deltalake(path, alternating(60), mode="append")
        before = now()
        peer.sql(f"DELETE FROM {table} WHERE id IN (21, 63)")
        z_order(before if marks else now(), engine, ["id"])
        yield set()
        without("id IN (1, 62)")
        yield set()

    for changed in steps():
        ids = peer.row_ids(table)
        assert len({row for row, _ in ids.values()}) == len(ids)
        columns = pa.table(DeltaTable(path).scan(["id"], row_ids=True))
        assert ids == {
            key: (row, own) for key, row, own in zip(*(column.to_pylist() for column in columns), strict=True)
        }
        for key in earlier_ids.keys() & ids.keys():
            assert ids[key][0] == earlier_ids[key][0]
            assert ids[key][1] == (DeltaTable(path).version() if key in changed else earlier_ids[key][1])
        earlier_ids |= ids
    gone = {5, 7, 17, 12, 33, 38, 43, 0, 41, 55, 1, 62, 20, 51, 21, 63}
    expected = [n for n in (*range(44), *range(50, 70)) if n not in gone]
    assert sorted(ids) == expected
    # delta-rs' reader of Arrow tables does not support deletion vectors.
    assert_all_read(path, peer, expected, (read_duckdb,) if marks else (read_delta_rs, read_duckdb))


def alternating(first: int) -> pa.Table:
    """A table of ten rows in two partitions."""
    ids = np.arange(first, first + 10)
    return pa.table({"id": ids, "part": ids % 2})


@pytest.mark.timeout(900)
def test_delta_spark_materializes_the_row_ids_that_we_assigned(tmp_path: Path, peer: Peer) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    peer.sql(
        f"CREATE TABLE {table} (id BIGINT, part BIGINT) USING delta "
        "TBLPROPERTIES ('delta.feature.rowTracking' = 'supported', 'delta.checkpointInterval' = '3')"
    )
    for first in (0, 10, 20):
        write_deltalake(path, rows(first), mode="append")
    DeltaTable(path).delete("id = 5")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows(30), mode="append")
    base = {file["path"]: file["baseRowId"] for file in load_snapshot(LocalStore(str(path))).files.to_pylist()}
    assert sorted(base.values()) == [39, 68]
    version = DeltaTable(path).version()
    peer.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    after = {file["path"]: file["baseRowId"] for file in load_snapshot(LocalStore(str(path))).files.to_pylist()}
    assert after == base
    assert DeltaTable(path).version() == version + 1
    ids = peer.row_ids(table)
    assert sorted(row for row, _ in ids.values()) == list(range(39, 78))
    assert {commit_version for _, commit_version in ids.values()} == {version - 1, version}
    assert_all_read(path, peer, [n for n in range(40) if n != 5])


@pytest.mark.timeout(900)
def test_delta_spark_keeps_the_row_ids_of_our_backfill(tmp_path: Path, peer: Peer) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    write_deltalake(path, rows(0), configuration={"delta.enableDeletionVectors": "true"})
    peer.sql(f"INSERT INTO {table} SELECT id, 1 FROM range(10, 20)")
    peer.sql(f"DELETE FROM {table} WHERE id IN (3, 14)")
    DeltaTable(path).alter.set_table_properties({"delta.enableRowTracking": "true"})
    ids = peer.row_ids(table)
    assert len({row for row, _ in ids.values()}) == len(ids) == 18
    peer.sql(f"UPDATE {table} SET part = 7 WHERE id < 12")
    peer.sql(f"OPTIMIZE {table}")
    write_deltalake(path, rows(20), mode="append")
    after = peer.row_ids(table)
    assert {key: after[key][0] for key in ids} == {key: row for key, (row, _) in ids.items()}
    assert len({row for row, _ in after.values()}) == len(after) == 28


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
        {"delta.enableRowTracking": "true", "delta.checkpointPolicy": "v2", **TIMED},
        {"delta.feature.rowTracking": "supported"},
        {"delta.feature.deletionVectors": "enabled", "delta.feature.timestampNtz": "supported"},
    ],
    ids=str,
)
def test_a_new_table_has_the_protocol_of_delta_spark(tmp_path: Path, peer: Peer, properties: dict[str, str]) -> None:
    """Except with a change data feed only: then the version numbers imply it, as in delta-rs, with more features."""
    DeltaTable.create(tmp_path / "ours", rows(0).schema, configuration=properties)
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    columns = "(id BIGINT, part BIGINT)"
    peer.sql(f"CREATE TABLE delta.`{tmp_path / 'theirs'}` {columns} USING delta TBLPROPERTIES ({texts})")
    our_snapshot, spark_snapshot = (load_snapshot(LocalStore(str(tmp_path / name))) for name in ("ours", "theirs"))
    if our_snapshot.protocol.min_writer_version < 7:
        assert (our_snapshot.protocol.min_reader_version, our_snapshot.protocol.min_writer_version) == (1, 4)
        assert writer_features(spark_snapshot.protocol) <= writer_features(our_snapshot.protocol)
    else:
        assert our_snapshot.protocol == spark_snapshot.protocol
    assert our_snapshot.configuration.keys() <= spark_snapshot.configuration.keys()
    write_deltalake(tmp_path / "ours", rows(0), mode="append")
    peer.sql(f"INSERT INTO delta.`{tmp_path / 'ours'}` VALUES (10, 1)")
    assert peer.ids(f"delta.`{tmp_path / 'ours'}`") == list(range(11))
    assert sorted(DeltaTable(tmp_path / "ours").to_pyarrow_table()["id"].to_pylist()) == list(range(11))


@pytest.mark.parametrize("name", ["delta.neverHeardOf", "delta.appendOnyl", "delta.columnMapping.maxColumnId"])
def test_names_of_properties_that_delta_spark_refuses_are_refused(tmp_path: Path, peer: Peer, name: str) -> None:
    with pytest.raises(SparkRefusal, match=name):
        peer.sql(f"CREATE TABLE delta.`{tmp_path}` (id BIGINT) USING delta TBLPROPERTIES ('{name}' = '1')")
    with pytest.raises(InvalidArgumentError, match=name):
        DeltaTable.create(tmp_path, rows(0).schema, configuration={name: "1"})


@pytest.mark.parametrize("inline_bytes", [0, 1 << 10], ids=["in files", "in the log"])
def test_deletion_vectors_in_turns(
    tmp_path: Path, peer: Peer, engine: Engine, inline_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors of each library on files of the other; delta-spark, DuckDB, delta-rs and we read the same in every
    version."""
    monkeypatch.setattr(deletion_vector, "_INLINE_BYTES", inline_bytes)
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    peer.sql(
        f"CREATE TABLE {table} (id BIGINT, part BIGINT) USING delta PARTITIONED BY (part) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '4')"
    )
    expected = [set[int]()]

    def delete_here(condition: str, gone: set[int], vectors: int) -> None:
        metrics = DeltaTable(path, engine=engine).delete(condition)
        assert (metrics["num_deletion_vectors"], metrics["num_added_files"]) == (vectors, 0)
        expected.append(expected[-1] - gone)

    def delete_in_spark(condition: str, gone: set[int]) -> None:
        peer.sql(f"DELETE FROM {table} WHERE {condition}")
        expected.append(expected[-1] - gone)

    for first in (0, 100):
        numbers = np.arange(first, first + 100)
        write_deltalake(path, pa.table({"id": numbers, "part": numbers % 2}), mode="append")
        expected.append(expected[-1] | set(numbers.tolist()))
    delete_here("id % 10 = 3", set(range(3, 200, 10)), 2)
    delete_in_spark("id IN (5, 101)", {5, 101})
    delete_here("id BETWEEN 90 AND 104", set(range(90, 105)), 3)  # 101 and 103 are deleted already
    delete_here("part = 0 AND id < 100", set(range(0, 100, 2)), 0)
    delete_in_spark("id IN (1, 7)", {1, 7})
    peer.sql(f"INSERT INTO {table} VALUES (300, 1)")
    expected.append(expected[-1] | {300})
    delete_here("id >= 190 AND id < 300", set(range(190, 300)), 2)
    assert DeltaTable(path).version() == len(expected) - 1
    judge = deltalake.QueryBuilder()
    for version, left in enumerate(expected):
        spark_ids = sorted(row["id"] for row in peer.sql(f"SELECT id FROM {table} VERSION AS OF {version}"))
        assert spark_ids == sorted(left)
        assert sorted(DeltaTable(path, version=version).to_pyarrow_table()["id"].to_pylist()) == spark_ids
        assert read_duckdb(path, version)["id"].to_pylist() == spark_ids
        name = f"version_{version}"
        judge.register(name, deltalake.DeltaTable(path, version=version))
        assert pa.table(judge.execute(f"SELECT id FROM {name} ORDER BY id").read_all())["id"].to_pylist() == spark_ids
    DeltaTable(path, engine=engine).optimize.compact()
    assert_all_read(path, peer, sorted(expected[-1]), (read_duckdb,))


def test_delta_spark_continues_a_vacuum_that_kept_a_pin(tmp_path: Path, peer: Peer) -> None:
    """delta-spark reads ``_last_vacuum_info`` with our member, and writes it without that member."""
    root, hint = tmp_path / "t", tmp_path / "t" / "_delta_log" / "_last_vacuum_info"
    for number in range(3):
        write_deltalake(root, rows(number, 1), mode="overwrite")
    vacuum(DeltaTable(root).snapshot, full=False, dry_run=False)
    assert "latestCommitVersion" not in hint.read_text()  # no commit has expired
    peer.sql(f"VACUUM delta.`{root}` LITE")
    DeltaTable(root).pin("first", 1)
    later = datetime.now(UTC) + timedelta(days=8)
    assert len(vacuum(DeltaTable(root).snapshot, full=False, dry_run=False, now=later).files) == 1
    assert "lakehouseCutoff" in hint.read_text()
    DeltaTable(root).release("first")
    peer.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    peer.sql(f"VACUUM delta.`{root}` LITE RETAIN 0 HOURS")
    peer.sql("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    assert "lakehouseCutoff" not in hint.read_text()
    assert parquet_files(root) == files_delta_rs(root)
    assert_all_read(root, peer, [2])
