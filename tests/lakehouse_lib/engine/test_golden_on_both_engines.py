"""Both engines read tables that Spark wrote, with the rows that Spark read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from tests.peers import collected, plain

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
TABLES = sorted(path.name for path in GOLDEN.iterdir() if (path / "expected").is_dir() and (path / "delta").is_dir())


def expected_rows(name: str) -> pa.Table:
    files = sorted((GOLDEN / name / "expected").glob("*.parquet"))
    tables = []
    for file in files:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as source:
            tables.append(source.read())
    return pa.concat_tables([table for table in tables if len(table)] or tables[:1])


def test_golden_tables_exist() -> None:
    assert len(TABLES) >= 15


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_that_spark_read(name: str, engine: Engine) -> None:
    table = DeltaTable(GOLDEN / name / "delta")
    rows = collected(engine.read(table.snapshot, None, None))
    expected = expected_rows(name).select(rows.column_names)
    typed = pa.table(
        [column.cast(rows.schema.field(index).type) for index, column in enumerate(expected.columns)],
        names=expected.column_names,
    )
    assert plain(rows) == plain(typed)
