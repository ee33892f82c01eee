"""Tables that Spark wrote: the Arrow engine reads the rows that Spark read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.table.delta_table import DeltaTable
from tests.peers import plain

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
NAMES = sorted(folder.name for folder in GOLDEN.iterdir() if (folder / "expected").is_dir())


def expected(name: str) -> pa.Table:
    files = sorted((GOLDEN / name / "expected").glob("*.parquet"))
    # Spark writes timestamps as INT96.
    return pa.concat_tables([pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read() for file in files])


@pytest.mark.parametrize("name", NAMES)
def test_the_latest_version_holds_the_rows_spark_read(name: str) -> None:
    our_rows = plain(DeltaTable(GOLDEN / name / "delta").to_pyarrow_table())
    spark_rows = plain(expected(name).select(our_rows.column_names))
    if our_rows.schema != spark_rows.schema:  # Parquet's INT96 has no zone, but Spark's timestamps have one
        spark_rows = plain(spark_rows.cast(our_rows.schema))
    assert our_rows.num_rows == spark_rows.num_rows
    assert our_rows.to_pylist() == spark_rows.to_pylist()
