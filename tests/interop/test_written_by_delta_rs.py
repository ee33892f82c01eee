"""Tables of delta-rs, feature by feature: both engines read and maintain them, and delta-rs reads the result."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Field, Schema, TableFeatures, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.table.delta_table import DeltaTable
from tests.interop.delta_spark.expected import difference, names_and_types
from tests.interop.rows import PARTITION_COLUMNS, rows
from tests.peers import collected, files_delta_rs, parquet_files, plain, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow


@pytest.fixture(params=some_slow([*PARTITION_COLUMNS, None], 1))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table after append, append, delete, optimize, checkpoint, overwrite, append."""
    root = tmp_path / "a table"
    partition_by = [request.param] if request.param else None
    write_deltalake(root, rows(0, 40), partition_by=partition_by)
    write_deltalake(root, rows(40, 30), mode="append")
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.delete("id % 5 = 1")
    delta_rs_table.optimize.compact()
    delta_rs_table.create_checkpoint()
    write_deltalake(root, rows(100, 25), mode="overwrite")
    write_deltalake(root, rows(0, 40), mode="append")
    return root


def test_every_version_of_delta_rs_is_read_and_maintained(table: Path) -> None:
    for version in range(deltalake.DeltaTable(table).version() + 1):
        our_rows = plain(DeltaTable(table, version=version).to_pyarrow_table())
        assert our_rows.equals(read_delta_rs(table, version)), version
    before = read_delta_rs(table)

    our_table = DeltaTable(table)
    our_table.optimize.compact()
    assert read_delta_rs(table).equals(before)
    our_table.delete("id = 110 OR id = 7")
    expected = [row for row in before.to_pylist() if row["id"] not in (110, 7)]
    assert read_delta_rs(table).to_pylist() == expected
    our_table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    our_table.create_checkpoint()
    assert parquet_files(table) == files_delta_rs(table)
    assert read_delta_rs(table).to_pylist() == expected
    assert read_duckdb(table).equals(read_delta_rs(table))
    assert plain(DeltaTable(table).to_pyarrow_table()).equals(read_delta_rs(table))


# --- one table for each feature that delta-rs can write

Writer = Callable[[Path], None]
WRITERS: dict[str, Writer] = {}


def written(function: Writer) -> Writer:
    WRITERS[function.__name__] = function
    return function


def ids(first: int, last: int, **more: object) -> pa.Table:
    return pa.table({"id": pa.array(range(first, last), pa.int64()), **more})


def append(root: Path, data: pa.Table, **more: object) -> None:
    write_deltalake(root, data, mode="append", **more)


@written
def types_of_every_kind(root: Path) -> None:
    write_deltalake(root, rows(0, 30))
    append(root, rows(30, 1))


@written
def partitions_of_two_columns(root: Path) -> None:
    write_deltalake(root, rows(0, 30), partition_by=["text", "moment"])
    deltalake.DeltaTable(root).delete("text = 'a b'")


@written
def timestamps_without_a_zone(root: Path) -> None:
    moments = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]
    at = pa.array(moments, pa.timestamp("us"))
    write_deltalake(root, ids(0, 3, at=at, part=at), partition_by=["part"])
    deltalake.DeltaTable(root).delete("id = 1")


@written
def columns_of_no_type(root: Path) -> None:
    write_deltalake(root, ids(0, 2, nothing=pa.nulls(2)))
    append(root, ids(2, 3, nothing=pa.nulls(1)))


@written
def narrow_and_large_arrow_types(root: Path) -> None:
    data = pa.table(
        {
            "id": pa.array([1, 2], pa.uint8()),
            "view": pa.array(["x", None], pa.string_view()),
            "large": pa.array(["y", ""], pa.large_string()),
            "words": pa.array(["z", "z"]).dictionary_encode(),
            "bytes": pa.array([b"\0", None], pa.large_binary()),
            "list": pa.array([[1], []], pa.large_list(pa.int8())),
            "nanos": pa.array([1_000, None], pa.timestamp("ns", tz="Europe/Berlin")),
            "half": pa.array([0.5, float("nan")], pa.float32()),
        }
    )
    write_deltalake(root, data)


@written
def schemas_that_grow_and_change(root: Path) -> None:
    write_deltalake(root, ids(0, 2))
    append(root, ids(2, 4, s=pa.array([{"a": 1}, None])), schema_mode="merge")
    append(root, ids(4, 5, s=pa.array([{"a": 2, "b": "x"}])), schema_mode="merge")
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.alter.add_columns([Field("late", "date"), Field("l", "string")])
    append(root, ids(5, 6, l=pa.array(["y"])), schema_mode="merge")
    delta_rs_table.update_incremental()
    delta_rs_table.alter.set_column_metadata("id", {"comment": "the key"})
    write_deltalake(root, pa.table({"other": [0.5]}), mode="overwrite", schema_mode="overwrite")


@written
def update_merge_and_delete(root: Path) -> None:
    write_deltalake(root, ids(0, 20, v=pa.array(["a"] * 20), part=pa.array(["p", "q"] * 10)), partition_by=["part"])
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.update(updates={"v": "'u'", "part": "'r'"}, predicate="id < 3")
    delta_rs_table.delete("part = 'q' AND id > 10")
    source = pa.table({"id": [4, 5, 50], "v": ["m"] * 3, "part": ["p", "p", None]})
    (
        delta_rs_table.merge(source, "target.id = source.id", source_alias="source", target_alias="target")
        .when_matched_update_all(predicate="target.id = 4")
        .when_matched_delete(predicate="target.id = 5")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete(predicate="target.id = 19")
        .execute()
    )
    delta_rs_table.optimize.z_order(["id", "v"])
    delta_rs_table.restore(1)


@written
def partitions_replaced(root: Path) -> None:
    write_deltalake(root, ids(0, 9, part=pa.array([n % 3 for n in range(9)])), partition_by=["part"])
    write_deltalake(root, ids(90, 92, part=pa.array([1, 1])), mode="overwrite", predicate="part = 1")
    write_deltalake(root, ids(95, 96, part=pa.array([2])), mode="overwrite", predicate="id > 4 AND part = 2")


@written
def constraints_that_come_and_go(root: Path) -> None:
    write_deltalake(root, ids(1, 3))
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.alter.add_constraint({"positive": "id > 0"})
    append(root, ids(3, 4))
    delta_rs_table.update_incremental()
    delta_rs_table.alter.drop_constraint("positive")
    append(root, ids(-1, 0))


@written
def columns_that_are_generated(root: Path) -> None:
    twice = Field("twice", "long", metadata={"delta.generationExpression": "id * 2"})
    deltalake.DeltaTable.create(root, Schema([Field("id", "long"), twice]))
    append(root, ids(0, 3))
    deltalake.DeltaTable(root).update(updates={"id": "7", "twice": "14"}, predicate="id = 1")


@written
def columns_that_must_not_be_null(root: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    write_deltalake(root, pa.table({"id": [1], "v": [None]}, schema=schema))
    deltalake.DeltaTable(root).alter.drop_column_not_null("id")
    append(root, pa.table({"id": pa.array([None], pa.int64()), "v": ["x"]}))


@written
def changes_kept(root: Path) -> None:
    settings = {"delta.enableChangeDataFeed": "true"}
    parts = pa.array(["p", "q"] * 5)
    write_deltalake(root, ids(0, 10, v=pa.array(["a"] * 10), part=parts), partition_by=["part"], configuration=settings)
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.update(updates={"v": "'u'"}, predicate="id < 3")
    delta_rs_table.delete("id = 4")
    source = pa.table({"id": [6, 70], "v": ["m", "m"], "part": ["p", "r"]})
    (
        delta_rs_table.merge(source, "target.id = source.id", source_alias="source", target_alias="target")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    append(root, ids(100, 101, v=pa.array(["i"]), part=pa.array(["p"])))


@written
def checkpoints_and_a_clean_up(root: Path) -> None:
    settings = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 0 days"}
    write_deltalake(root, ids(0, 2), configuration=settings)
    for n in range(7):
        append(root, ids(10 * n, 10 * n + 2))
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.create_checkpoint()
    delta_rs_table.cleanup_metadata()
    append(root, ids(100, 101))


@written
def logs_compacted(root: Path) -> None:
    for n in range(6):
        append(root, ids(10 * n, 10 * n + 2))
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.delete("id = 31")
    delta_rs_table.compact_logs(1, 4)
    delta_rs_table.compact_logs(5, 6)


@written
def statistics_of_few_columns(root: Path) -> None:
    write_deltalake(root, rows(0, 20), configuration={"delta.dataSkippingNumIndexedCols": "2"})
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "text"})
    append(root, rows(20, 20))


@written
def features_listed(root: Path) -> None:
    write_deltalake(root, ids(0, 2), configuration={"delta.appendOnly": "true"})
    delta_rs_table = deltalake.DeltaTable(root)
    for feature in (TableFeatures.AppendOnly, TableFeatures.ChangeDataFeed, TableFeatures.CheckConstraints):
        delta_rs_table.alter.add_feature(feature, allow_protocol_versions_increase=True)
    append(root, ids(2, 3))


@written
def columns_mapped_by_name(root: Path) -> None:
    data = ids(0, 4, s=pa.array([{"a b": 1}, None] * 2), part=pa.array(["p", "q"] * 2))
    write_deltalake(root, data, partition_by=["part"], configuration={"delta.columnMapping.mode": "name"})
    deltalake.DeltaTable(root).delete("id = 1")


@written
def deletion_vectors_promised(root: Path) -> None:
    write_deltalake(root, ids(0, 9), configuration={"delta.enableDeletionVectors": "true"})
    deltalake.DeltaTable(root).delete("id = 1")
    append(root, ids(20, 22))


@written
def parquet_converted(root: Path) -> None:
    for part in ("ü", "2", "__HIVE_DEFAULT_PARTITION__"):
        (root / f"part={part}").mkdir(parents=True)
        pq.write_table(ids(0, 3), root / f"part={part}" / "data.parquet")
    deltalake.convert_to_deltalake(root, partition_by=Schema([Field("part", "string")]), partition_strategy="hive")
    append(root, ids(9, 10, part=pa.array(["new"])))


@written
def files_vacuumed(root: Path) -> None:
    write_deltalake(root, ids(0, 9))
    delta_rs_table = deltalake.DeltaTable(root)
    delta_rs_table.delete("id = 1")
    delta_rs_table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def as_others_read_it(root: Path, version: int) -> pa.Table | None:
    """The rows by delta-rs, or by DuckDB if delta-rs cannot read them; None if an old version's files are deleted."""
    try:
        table = deltalake.DeltaTable(root, version=version)
        if "delta.columnMapping.mode" in table.metadata().configuration:
            # Its to_pyarrow_table looks up logical names and finds nulls; its SQL maps names.
            rows = deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
            return plain(pa.table(rows))
        return read_delta_rs(root, version)
    except DeltaProtocolError:
        return read_duckdb(root, version)
    except (DeltaError, FileNotFoundError):
        return None


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tables, written once for both engines."""
    folder = tmp_path_factory.mktemp("delta-rs")
    for name, write in WRITERS.items():
        write(folder / name)
    return {name: folder / name for name in WRITERS}


@pytest.mark.parametrize("name", some_slow([*WRITERS], 8))
def test_every_version_on_both_engines(name: str, tables: dict[str, Path], engine: Engine) -> None:
    root = tables[name]
    compared = 0
    for version in range(deltalake.DeltaTable(root).version() + 1):
        their_rows = as_others_read_it(root, version)
        if their_rows is None:
            continue
        table = DeltaTable(root, version=version)
        our_rows = collected(engine.read(table.snapshot, None, None))
        assert difference(our_rows, their_rows) == "", version
        assert table.count() == their_rows.num_rows
        compared += 1
    assert compared
    assert DeltaTable(root).version() == version


@pytest.mark.parametrize("name", WRITERS)
def test_schema_protocol_and_properties_at_every_version(name: str, tables: dict[str, Path]) -> None:
    for version in range(deltalake.DeltaTable(tables[name]).version() + 1):
        try:
            delta_rs_table = deltalake.DeltaTable(tables[name], version=version)
        except DeltaError:
            continue
        our_table = DeltaTable(tables[name], version=version)
        assert names_and_types(json.loads(our_table.schema().to_json())) == names_and_types(
            json.loads(delta_rs_table.schema().to_json())
        )
        assert our_table.metadata().configuration == delta_rs_table.metadata().configuration
        assert list(our_table.snapshot.partition_columns) == delta_rs_table.metadata().partition_columns
