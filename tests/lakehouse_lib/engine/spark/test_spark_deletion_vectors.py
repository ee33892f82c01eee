"""Rows hidden by deletion vectors are never returned, on both engines, whatever else the scan does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, LogCorruptedError, PathOutsideTableError
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.read.deletion_vectors import _words
from lakehouse_lib.expressions import parse
from tests.deletion_vector_bytes import delete_by_vector, in_file, inline
from tests.log_builder import data_file, field, put_table, struct
from tests.peers import read_duckdb, read_engine

ROWS = 3000
FIELDS = [field("k", "long"), field("text", "string"), field("p", "string")]


def ids(engine: Engine, root: Path, where: str | None = None, **options: Any) -> list[int]:
    numbers: list[int] = read_engine(engine, root, where, ["k"], **options)["k"].to_pylist()
    return numbers


def table_of(root: Path, *, partition_by: Iterable[str] = ()) -> Path:
    """A table of three files with 3,000 rows in ascending order, in row groups of 700 and pages of about 100."""
    adds = []
    for number, (path, p) in enumerate([("p=x/a.parquet", "x"), ("p=y/b.parquet", "y"), ("elsewhere/c.parquet", "z")]):
        start = number * ROWS
        columns: dict[str, Any] = {"k": range(start, start + ROWS), "text": [f"row {i:09}" for i in range(ROWS)]}
        if not partition_by:
            columns["p"] = [p] * ROWS
        how = {"row_group_size": 700, "data_page_size": 800, "write_batch_size": 100, "write_page_index": True}
        partition = {"p": p} if partition_by else {}
        adds.append(data_file(root, path, pa.table(columns), partition=partition, **how))
    return put_table(root, FIELDS, adds, partition_by=list(partition_by))


DELETED = {0, 1, 63, 64, 699, 700, 701, 1500, 2998, 2999}
SCATTERED = {*range(0, 1000, 3), 2999}


@pytest.fixture(
    params=[pytest.param(("p",), id="partitioned"), pytest.param((), id="whole", marks=pytest.mark.slow)],
)
def marked(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The same table with deletion vectors for ten rows of the first file and some hundred rows of the last file."""
    table_of(tmp_path, partition_by=request.param)
    (scattered,) = in_file(tmp_path, SCATTERED)
    delete_by_vector(tmp_path, {"p=x/a.parquet": inline(DELETED), "elsewhere/c.parquet": scattered})
    return tmp_path


LEFT = [
    *(k for k in range(ROWS) if k not in DELETED),
    *range(ROWS, 2 * ROWS),
    *(k + 2 * ROWS for k in range(ROWS) if k not in SCATTERED),
]


def test_deleted_rows_are_not_returned(marked: Path, engine: Engine) -> None:
    assert ids(engine, marked) == LEFT
    assert read_duckdb(marked)["k"].to_pylist() == LEFT


CONDITIONS = {
    "k >= 1490 AND k < 1510": lambda k: 1490 <= k < 1510,
    "k IN (699, 700, 701, 702, 6999, 7000)": lambda k: k in (699, 700, 701, 702, 6999, 7000),
    "p = 'z' AND k > 8990": lambda k: k > 8990,
    "text > 'row 000002990' AND p <> 'y'": lambda k: k % ROWS > 2990 and not ROWS <= k < 2 * ROWS,
}


def test_conditions_skip_rows_and_no_position_shifts(marked: Path, engine: Engine) -> None:
    for where, keeps in CONDITIONS.items():
        assert ids(engine, marked, where) == [k for k in LEFT if keeps(k)], where


def test_pruning_by_spark_shifts_no_position(marked: Path, spark: Any, capsys: Any) -> None:
    frame = DeltaTable(marked).to_spark(spark).where("k >= 1490 AND k < 1510").select("k")
    frame.explain()
    plan = capsys.readouterr().out
    assert plan.count("GreaterThanOrEqual(k,1490)") == plan.count("FileScan") > 1
    assert sorted(row.k for row in frame.collect()) == [k for k in LEFT if 1490 <= k < 1510]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4k")  # many splits of each file
    try:
        frame = DeltaTable(marked).to_spark(spark)
        assert frame.rdd.getNumPartitions() > 10
        assert sorted(row.k for row in frame.select("k").collect()) == LEFT
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_more_words_than_are_sent_to_every_executor(marked: Path, spark: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("lakehouse_lib.engine.spark.read.deletion_vectors._MOST_BROADCAST", 3)
    frame = DeltaTable(marked).to_spark(spark)
    assert sorted(row.k for row in frame.select("k").collect()) == LEFT


def test_a_file_may_be_added_again_with_another_vector(marked: Path, engine: Engine) -> None:
    delete_by_vector(marked, {"p=x/a.parquet": inline(range(ROWS))})
    assert ids(engine, marked) == [k for k in LEFT if k >= ROWS]
    assert ids(engine, marked, version=1) == LEFT
    assert ids(engine, marked, version=0) == [*range(3 * ROWS)]


def test_a_vector_with_positions_beyond_the_file_is_refused(tmp_path: Path, engine: Engine) -> None:
    table_of(tmp_path)
    delete_by_vector(tmp_path, {"p=x/a.parquet": inline([5, ROWS])})
    with pytest.raises(LogCorruptedError, match=r"a\.parquet.*row 3000"):
        ids(engine, tmp_path)


def test_a_vector_outside_the_table(tmp_path: Path, engine: Engine) -> None:
    root, other = tmp_path / "table", tmp_path / "other"
    table_of(root)
    (vector,) = in_file(other, [1, 2], absolute=True)
    delete_by_vector(root, {"p=x/a.parquet": vector})
    with pytest.raises(PathOutsideTableError, match="allowed_roots"):
        ids(engine, root)
    allowed = ids(engine, root, storage_options={"allowed_roots": str(other)})
    assert allowed == [k for k in range(3 * ROWS) if k not in (1, 2)]
    log = (root / "_delta_log" / f"{1:020}.json").read_text()
    assert json.loads(log.splitlines()[-1])["add"]["deletionVector"]["storageType"] == "p"


@given(st.sets(st.integers(0, 1 << 20), max_size=300))
def test_words_encode_the_positions(positions: set[int]) -> None:
    blocks, bits = _words(np.array(sorted(positions), dtype=np.int64))
    assert len(set(blocks.tolist())) == len(blocks)
    said = {
        block * 64 + bit
        for block, word in zip(blocks.tolist(), bits.view(np.uint64).tolist(), strict=True)
        for bit in range(64)
        if word >> bit & 1
    }
    assert said == positions


def test_a_column_with_the_name_of_file_metadata_is_read_as_a_column(tmp_path: Path, engine: Engine) -> None:
    """The rows were loaded together with Spark's column ``_metadata``."""
    member = struct(field("file_modification_time", "timestamp"), field("row_index", "long"))
    moments = pa.array([0, 0, 0], pa.timestamp("us", tz="UTC"))
    of_source = pa.StructArray.from_arrays([moments, pa.array([7, 7, 7])], ["file_modification_time", "row_index"])
    adds = []
    for start in (0, 3):
        rows = pa.table({"k": range(start, start + 3), "_metadata": of_source})
        vector = inline([1]) if start else None
        adds.append(data_file(tmp_path, f"{start}.parquet", rows) | {"deletionVector": vector})
    put_table(tmp_path, [field("k", "long"), field("_metadata", member)], adds, features=["deletionVectors"])
    assert ids(engine, tmp_path) == [0, 1, 2, 3, 5]
    table = DeltaTable(tmp_path)
    of_sources = engine.read(table.snapshot, ["_metadata"], parse("_metadata.row_index = 7", table.schema()))
    matches = of_sources.collect() if engine.name == "spark" else of_sources.read_all()
    assert len(matches) == 5
