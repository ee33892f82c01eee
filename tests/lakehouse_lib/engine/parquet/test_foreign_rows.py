"""Rows of other writers, and rows that our statistics hide: the answer is right, or the error is clear."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError
from lakehouse_lib.expressions import parse
from tests.log_builder import data_file, field, put_table


def rows_of(engine: Engine, table: DeltaTable, sql: str) -> list[float]:
    answer = engine.read(table.snapshot, None, parse(sql, table.schema(), table=None))
    return sorted(
        str(row["x"]) for row in (answer.collect() if engine.name == "spark" else answer.read_all().to_pylist())
    )


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_is_above_every_number_though_parquet_statistics_leave_it_out(
    tmp_path: Path, engine: Engine, kind: pa.DataType
) -> None:
    write_deltalake(tmp_path, pa.table({"x": pa.array([1.0, float("nan"), 3.0], kind)}))
    table = DeltaTable(tmp_path)
    assert rows_of(engine, table, "x > 5") == ["nan"]
    assert rows_of(engine, table, "NOT (x <= 5)") == ["nan"]
    assert rows_of(engine, table, "x >= 3") == ["3.0", "nan"]
    assert rows_of(engine, table, "x <> 1") == ["3.0", "nan"]
    assert rows_of(engine, table, "x IN (1, 7)") == ["1.0"]


@pytest.fixture
def broken_promise(tmp_path: Path) -> DeltaTable:
    """Two files of a column that must not be null; another writer put a null into one of them."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    for low in (0, 2):
        rows = pa.Table.from_pydict({"k": [low, low + 1], "v": [1, 2]}, schema=schema)
        write_deltalake(tmp_path, rows, mode="append")
    table = DeltaTable(tmp_path)
    pq.write_table(pa.table({"k": pa.array([None, 1], pa.int64()), "v": pa.array([1, 2])}), table.file_uris()[0])
    return table


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.delete("v = 2"),
        lambda table: table.optimize.compact(),
        lambda table: table.optimize.z_order(["v"]),
    ],
    ids=["delete", "compact", "z_order"],
)
def test_a_null_of_another_writer_is_kept_like_in_delta_spark(broken_promise: DeltaTable, verb) -> None:
    before = broken_promise.version()
    verb(broken_promise)
    table = DeltaTable(broken_promise.table_uri)
    assert table.version() == before + 1
    assert table.to_pyarrow_table(filters="k IS NULL").to_pylist() == [{"k": None, "v": 1}]


@pytest.mark.parametrize(
    ("kind", "partition_by"), [("void", []), ("string", ["c"])], ids=["void", "partition columns alone"]
)
def test_rows_that_only_the_log_counts_are_not_compacted_away(
    tmp_path: Path, engine: Engine, kind: str, partition_by: list[str]
) -> None:
    rows = pa.table({"of_another_schema": [1, 2, 3]})
    partition = dict.fromkeys(partition_by, "x")
    files = [data_file(tmp_path, f"{name}.parquet", rows, partition=partition) for name in "ab"]
    put_table(tmp_path, [field("c", kind)], files, partition_by=partition_by)
    with pytest.raises(InvalidSchemaError, match=f": c.*{tmp_path}"):
        DeltaTable(tmp_path, engine=engine).optimize.compact()
    table = DeltaTable(tmp_path)
    assert (table.version(), table.count(), table.to_pyarrow_table().num_rows) == (0, 6, 6)


def test_the_errors_of_invalid_sizes_and_hours_name_the_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    table = DeltaTable(tmp_path)
    for wrong in (
        lambda: table.optimize.compact(target_size=0),
        lambda: table.optimize.z_order(["x"], target_size="big"),
        lambda: table.vacuum("1"),
        lambda: table.load_as_version(None),
    ):
        with pytest.raises(InvalidArgumentError, match=str(tmp_path)):
            wrong()
