"""z_order on both engines, compared with delta-rs, DuckDB and the Parquet footers."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.optimize.z_order import plan as planning
from lakehouse_lib.operations.optimize.z_order.plan import plan_z_order
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.lakehouse_lib.operations.optimize.z_order.arrival_table import (
    ROWS,
    make,
    rows,
    snapshot_of,
    target_for,
)
from tests.log_builder import add, put
from tests.peers import plain, read_delta_rs, read_duckdb


def footers(uri: str) -> list[pq.FileMetaData]:
    return [pq.ParquetFile(path).metadata for path in DeltaTable(uri).file_uris()]


def read_by(metadata: list[pq.FileMetaData], column: str, value: object) -> int:
    """The files whose footer does not rule out the value."""

    def holds(footer: pq.FileMetaData) -> bool:
        index = [footer.schema.column(i).name for i in range(footer.num_columns)].index(column)
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        return any(statistics.min <= value <= statistics.max for statistics in groups)

    return sum(holds(footer) for footer in metadata)


def test_a_point_on_either_column_reads_a_third_of_the_files(table, exchange_engine):
    before = read_delta_rs(table)
    result = z_order(snapshot_of(table), exchange_engine, ["customer", "item"], target_size=target_for(table, 32))
    assert result.metrics["numAddedFiles"] == 32
    assert result.metrics["numRemovedFiles"] == 20
    assert result.version == 20
    assert read_delta_rs(table) == before
    assert read_duckdb(table) == before
    metadata = footers(table)
    assert len(metadata) == 32
    assert sum(footer.num_rows for footer in metadata) == ROWS
    assert max(footer.num_rows for footer in metadata) <= 1.25 * ROWS / 32
    assert min(footer.num_rows for footer in metadata) >= 0.75 * ROWS / 32
    for column, top in (("customer", 5_000), ("item", 2_000)):
        for value in range(0, top, top // 20):
            assert read_by(metadata, column, value) <= 32 / 3


def test_the_commit_has_the_parameters_and_metrics(table, exchange_engine):
    z_order(
        snapshot_of(table),
        exchange_engine,
        ["customer"],
        target_size=target_for(table, 4),
        commit_properties=CommitProperties(custom_metadata={"ticket": "42"}),
    )
    peer = DeltaTable(table)
    entry = peer.history(1)[0]
    assert entry["operation"] == "OPTIMIZE"
    assert entry["operationParameters"]["zOrderBy"] == '["customer"]'
    assert entry["ticket"] == "42"
    actions = pa.table(peer.get_add_actions(flatten=True))
    assert actions["num_records"].null_count == 0
    assert actions["min.customer"].null_count == actions["max.status"].null_count == 0
    log = (Path(table) / "_delta_log" / f"{peer.version():020}.json").read_text()
    assert '"dataChange":true' not in log.replace(" ", "")


@pytest.mark.slow
def test_every_type_is_a_key_and_survives(tmp_path, exchange_engine):
    count = 3_000
    random = np.random.default_rng(5)
    nulls = random.random(count) < 0.05
    numbers = random.integers(-1000, 1000, count)

    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([None if null else value for null, value in zip(nulls, values, strict=True)], kind)

    floats = [float("nan") if n % 17 == 0 else -0.0 if n % 19 == 0 else n / 7 for n in numbers.tolist()]
    data = pa.table(
        {
            "byte": column([n % 100 for n in numbers.tolist()], pa.int8()),
            "short": column(numbers.tolist(), pa.int16()),
            "integer": column(numbers.tolist(), pa.int32()),
            "long": column([n << 50 for n in numbers.tolist()], pa.int64()),
            "float": column(floats, pa.float32()),
            "double": column(floats, pa.float64()),
            "small": column([Decimal(n) / 100 for n in numbers.tolist()], pa.decimal128(9, 2)),
            "big": column([Decimal(n) * 10**25 for n in numbers.tolist()], pa.decimal128(38, 4)),
            "text": column([f"{'ä' * (n % 3)}{n:x}" for n in numbers.tolist()], pa.string()),
            "flag": column([n > 0 for n in numbers.tolist()], pa.bool_()),
            "day": column([date.fromordinal(730_000 + n) for n in numbers.tolist()], pa.date32()),
            "at": column([datetime.fromtimestamp(n * 10**6, UTC) for n in numbers.tolist()], pa.timestamp("us", "UTC")),
            "blob": column([str(n).encode() for n in numbers.tolist()], pa.binary()),
            "list": column([[n, None] for n in numbers.tolist()], pa.list_(pa.int64())),
            "inner": column(
                [{"a": n, "b": None} for n in numbers.tolist()], pa.struct([("a", "int64"), ("b", "string")])
            ),
        }
    )
    uri = make(tmp_path / "table", data)
    before = read_delta_rs(uri)
    keys = [name for name in data.column_names if name not in ("blob", "list", "inner")]
    for by in (keys[:4], keys[4:8], keys[8:]):
        result = z_order(snapshot_of(uri), exchange_engine, by, target_size=target_for(uri, 9))
        assert result.metrics["numAddedFiles"] >= 6
        # NaN is not equal to itself, so compare texts.
        assert str(read_delta_rs(uri).to_pydict()) == str(before.to_pydict())


def test_text_of_few_values_in_one_file_and_of_many_in_another(tmp_path, exchange_engine):
    numbers = np.arange(2_000)
    states = pa.array([None, "open", "paid"]).take(pa.array(numbers % 3))
    uri = str(tmp_path / "table")
    for text in (states, pa.array([f"note {number}" for number in numbers]), states):
        write_deltalake(uri, pa.table({"n": numbers, "text": text}), mode="append")
    before = read_delta_rs(uri)
    assert z_order(snapshot_of(uri), exchange_engine, ["n"], target_size=target_for(uri, 3)).version == 3
    assert read_delta_rs(uri).equals(before)
    assert pq.read_schema(DeltaTable(uri).file_uris()[0]).field("text").type == pa.string()


@pytest.mark.parametrize("column", ["text", "number"])
def test_nulls_and_equal_values_stay_together(tmp_path, column):
    random = np.random.default_rng(6)
    numbers = random.integers(0, 50, 5_000)
    data = pa.table(
        {
            "number": pa.array([None if n == 0 else n for n in numbers.tolist()], pa.int64()),
            "text": pa.array([None if n == 0 else f"value {n:02}" for n in numbers.tolist()]),
        }
    )
    uri = make(tmp_path / "table", data)
    z_order(snapshot_of(uri), ArrowEngine(), [column], target_size=target_for(uri, 10))
    holders: dict[object, set[str]] = {}
    for path in DeltaTable(uri).file_uris():
        for value in set(pq.ParquetFile(path).read()[column].to_pylist()):
            holders.setdefault(value, set()).add(path)
    assert len(holders) == 50
    assert all(len(paths) == 1 for paths in holders.values())


def test_one_value_heavier_than_a_file_gets_several(tmp_path, exchange_engine):
    random = np.random.default_rng(7)
    customer = np.where(random.random(ROWS) < 0.9, 7, random.integers(0, 5_000, ROWS))
    data = pa.table({"id": random.permutation(ROWS), "customer": customer})
    uri = make(tmp_path / "table", data)
    before = read_delta_rs(uri)
    z_order(snapshot_of(uri), exchange_engine, ["customer"], target_size=target_for(uri, 20))
    assert read_delta_rs(uri) == before
    metadata = footers(uri)
    assert len(metadata) == 20
    assert max(footer.num_rows for footer in metadata) <= 1.25 * ROWS / 20
    # The other values are only in the first and last files of the frequent value.
    assert read_by(metadata, "customer", 7) <= 19
    assert all(read_by(metadata, "customer", value) <= 2 for value in range(8, 5_000, 100))


def test_partitions_are_never_mixed(tmp_path, exchange_engine):
    random = np.random.default_rng(8)
    data = rows(12_000).append_column("day", pa.array(random.choice(["a", "b/ü", "c d"], 12_000)))
    data = data.append_column("hour", pa.array(random.choice([1, None], 12_000).tolist(), pa.int32()))
    uri = make(tmp_path / "table", data, partition_by=["day", "hour"])
    before = read_delta_rs(uri)
    result = z_order(snapshot_of(uri), exchange_engine, ["customer", "item"], target_size=target_for(uri, 18))
    assert result.metrics["partitionsOptimized"] == 6
    assert result.metrics["numRemovedFiles"] == 24
    assert 15 <= result.metrics["numAddedFiles"] <= 24
    assert read_delta_rs(uri) == before
    assert read_duckdb(uri) == before


def test_a_predicate_chooses_partitions(tmp_path):
    data = rows(4_000).append_column("day", pa.array(["a", "b"] * 2_000))
    uri = make(tmp_path / "table", data, partition_by=["day"])
    before = read_delta_rs(uri)
    snapshot = snapshot_of(uri)
    chosen = parse("day = 'a'", snapshot.schema)
    result = z_order(snapshot, ArrowEngine(), ["customer"], target_size=10**9, predicate=chosen)
    assert (
        result.metrics["numAddedFiles"],
        result.metrics["numRemovedFiles"],
        result.metrics["totalConsideredFiles"],
    ) == (1, 4, 4)
    assert read_delta_rs(uri) == before
    with pytest.raises(InvalidArgumentError, match="partition columns only: day"):
        z_order(snapshot, ArrowEngine(), ["customer"], predicate=parse("customer = 1", snapshot.schema))


def test_big_files_are_read_in_parts_and_blocks_written_in_order(tmp_path, exchange_engine, monkeypatch):
    """A thousand rows stand for a million: several parts of a file, blocks of a file and row groups at once."""
    from lakehouse_lib.operations.optimize.z_order import shuffle

    for name, value in (("CHUNK_ROWS", 2_000), ("_MOST_TASK_BYTES", 4_096), ("_LEAST_TASK_BYTES", 4_096)):
        monkeypatch.setattr(planning, name, value)
    if exchange_engine.name != "spark":  # Spark's workers do not see the patched constants
        for module, name, value in (
            (shuffle, "CHUNK_ROWS", 2_000),
            (shuffle, "_BATCH_ROWS", 300),
            (shuffle, "_BLOCK_ROWS", 3_000),
            (shuffle, "_ROW_GROUP_ROWS", 400),
            (shuffle, "_CELL_ROWS", 50),
            (shuffle, "_PIECE_BYTES", 4_096),
        ):
            monkeypatch.setattr(module, name, value)
    uri = str(tmp_path / "table")
    write_deltalake(uri, rows(ROWS))
    before = read_delta_rs(uri)
    snapshot = snapshot_of(uri)
    target = target_for(uri, 3)
    plan = plan_z_order(snapshot, ["customer", "item"], target, None, 2)
    (run,) = plan.runs
    assert len(run.tasks) > 2
    tree = run.tasks[0].loads[0].layout.tree
    assert tree["files"] == [1, 1, 1]
    assert tree["blocks"] == [7, 7, 7]
    z_order(snapshot, exchange_engine, ["customer", "item"], target_size=target)
    assert read_delta_rs(uri) == before
    metadata = footers(uri)
    assert len(metadata) == 3
    if exchange_engine.name == "arrow":
        groups = sum(footer.num_row_groups for footer in metadata)
        assert groups > 60
        for column in (1, 2):
            ranges = [
                footer.row_group(group).column(column).statistics
                for footer in metadata
                for group in range(footer.num_row_groups)
            ]
            assert sum(statistics.min <= 1_000 <= statistics.max for statistics in ranges) < groups / 4


@pytest.mark.slow
def test_more_files_than_are_sampled(tmp_path, monkeypatch):
    """Files are ordered by time, so each file is like its neighbour, with its own range."""
    from lakehouse_lib.operations.optimize.z_order import sample

    monkeypatch.setattr(sample, "_MOST_FILES_READ", 7)
    random = np.random.default_rng(9)
    data = pa.table(
        {
            "at": np.sort(random.integers(0, 10**9, 20_000)),
            "name": pa.array([f"n{n:05}" for n in np.sort(random.integers(0, 10**5, 20_000)).tolist()]),
            "other": random.integers(0, 1000, 20_000),
        }
    )
    uri = make(tmp_path / "table", data, files=50)
    before = read_delta_rs(uri)
    for by in (["at", "other"], ["name", "other"]):
        z_order(snapshot_of(uri), ArrowEngine(), by, target_size=target_for(uri, 10))
        assert read_delta_rs(uri) == before
        counts = [footer.num_rows for footer in footers(uri)]
        assert max(counts) <= 1.4 * 20_000 / len(counts)
        # Start again from many files in the order of time.
        DeltaTable(uri).restore(49)


def test_files_without_statistics_are_z_ordered(tmp_path):
    data = rows(6_000)
    uri = str(tmp_path / "table")
    for start in range(0, 6_000, 1_000):
        write_deltalake(
            uri, data.slice(start, 1_000), mode="append", configuration={"delta.dataSkippingStatsColumns": "id"}
        )
    log = Path(uri) / "_delta_log"
    for entry in log.glob("*.json"):
        lines = entry.read_text().splitlines()
        entry.write_text("\n".join(line.replace('"stats":', '"unknown":') for line in lines) + "\n")
    with pytest.raises(InvalidArgumentError, match=r"column 'customer' has no statistics.*dataSkipping"):
        z_order(snapshot_of(uri), ArrowEngine(), ["customer"])
    before = read_delta_rs(uri)
    result = z_order(snapshot_of(uri), ArrowEngine(), ["id"], target_size=target_for(uri, 3))
    assert result.metrics["numAddedFiles"] == 3
    assert read_delta_rs(uri) == before


def test_columns_added_later_are_null_before(tmp_path, exchange_engine):
    uri = make(tmp_path / "table", rows(2_000).drop_columns(["item"]))
    write_deltalake(uri, rows(2_000, seed=1), mode="append", schema_mode="merge")
    before = read_delta_rs(uri)
    result = z_order(snapshot_of(uri), exchange_engine, ["item", "customer"], target_size=target_for(uri, 4))
    assert result.metrics["numAddedFiles"] in (3, 4, 5)
    assert read_delta_rs(uri) == before


def test_one_file_within_the_target_is_not_rewritten(tmp_path, exchange_engine):
    uri = make(tmp_path / "table", rows(100), files=1)
    result = z_order(snapshot_of(uri), exchange_engine, ["customer"])
    assert (
        result.metrics["numAddedFiles"]
        == result.metrics["numRemovedFiles"]
        == result.metrics["partitionsOptimized"]
        == 0
    )
    assert result.metrics["filesAdded"] == {"avg": 0.0, "max": 0, "min": 0, "totalFiles": 0, "totalSize": 0}
    assert result.metrics["totalConsideredFiles"] == result.metrics["totalFilesSkipped"] == 1
    assert (result.version, result.read_version) == (None, 0)
    assert DeltaTable(uri).version() == 0


def test_an_empty_table_is_not_rewritten(tmp_path, exchange_engine):
    uri = str(tmp_path / "table")
    DeltaTable.create(uri, rows(1).schema)
    assert z_order(snapshot_of(uri), exchange_engine, ["customer"]).metrics["totalConsideredFiles"] == 0
    assert DeltaTable(uri).version() == 0


def test_files_without_rows_are_removed(tmp_path):
    uri = make(tmp_path / "table", rows(2_000), files=2)
    empty = Path(uri) / "empty.parquet"
    pq.write_table(rows(0), empty)
    put(Path(uri), 2, add(empty.name, size=empty.stat().st_size, stats='{"numRecords":0}'))
    before = read_delta_rs(uri)
    result = z_order(snapshot_of(uri), ArrowEngine(), ["customer"], target_size=target_for(uri, 3))
    assert result.metrics["numRemovedFiles"] == 3
    assert read_delta_rs(uri) == before


def test_the_target_size_of_the_table_counts(tmp_path):
    uri = str(tmp_path / "table")
    data = rows(20_000)
    write_deltalake(uri, data, configuration={"delta.targetFileSize": "50000"})
    size = sum(snapshot_of(uri).files["size"].to_pylist())
    result = z_order(snapshot_of(uri), ArrowEngine(), ["customer"])
    assert result.metrics["numAddedFiles"] == math.ceil(size / 50_000)
    assert result.metrics["filesAdded"]["max"] < 75_000
    assert plain(DeltaTable(uri).to_pyarrow_table()) == plain(data)
