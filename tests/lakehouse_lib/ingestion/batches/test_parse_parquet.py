"""Parquet files in a task: narrower types, times of the old calendar, and files that do not fit."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lakehouse_lib.ingestion.batches.parsed_file import PARQUET, Parsed
from tests.old_calendar import EARLY, NAMED, days, marked, midnights


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_parquet_rows_of_narrower_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "note": pa.array(["x", "y", None]).dictionary_encode(),
            "id": pa.array([1, None, 3], pa.int32()),
            "price": pa.array([1, 2, 3], pa.decimal128(9, 1)),
        }
    )
    parsed = Parsed(tmp_path, "a.parquet", _parquet(table), PARQUET)
    assert [(row["id"], row["price"], row["note"], row["__line"]) for row in parsed.rows] == [
        (1, Decimal("1.00"), "x", 1),
        (3, Decimal("3.00"), None, 3),
    ]
    assert parsed.reasons() == [(2, "id", "null in a column that must not be null")]
    assert (parsed.rejected[0]["price"], parsed.rejected[0]["note"]) == ("2.0", "y")


OLD_SCHEMA = pa.schema([("id", pa.int32()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])


def test_parquet_days_of_the_calendar_of_before_spark_3_keep_their_names(tmp_path: Path) -> None:
    ids = pa.array([1, 2], pa.int32())
    table = pa.table({"id": ids, "d": days(EARLY, EARLY), "t": midnights(EARLY, None, zone="UTC")})
    parsed = Parsed(tmp_path, "a.parquet", _parquet(marked(table)), PARQUET, OLD_SCHEMA)
    midnight = dt.datetime.combine(NAMED, dt.time(), dt.UTC)
    assert [(row["id"], row["d"], row["t"]) for row in parsed.rows] == [(1, NAMED, midnight), (2, NAMED, None)]
    # A rejected row is shown as it would have been loaded.
    strict = pa.schema([OLD_SCHEMA.field(0), OLD_SCHEMA.field(1), OLD_SCHEMA.field(2).with_nullable(False)])
    (bad,) = Parsed(tmp_path, "b.parquet", _parquet(marked(table)), PARQUET, strict).rejected
    assert bad["d"] == str(NAMED)


def test_parquet_timestamps_of_an_old_calendar_in_another_zone_are_refused(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1], pa.int32()), "d": days(0), "t": midnights(EARLY, zone="UTC")})
    content = _parquet(marked(table, "Asia/Tokyo"))
    said = Parsed(tmp_path, "a.parquet", content, PARQUET, OLD_SCHEMA).refused
    assert "column t of a.parquet" in said
    assert "Asia/Tokyo" in said


def test_a_row_with_a_time_that_is_too_precise_is_rejected(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    table = pa.table({"at": pa.array([1_000, 1_001], pa.timestamp("ns"))})
    parsed = Parsed(tmp_path, "a.parquet", _parquet(table), PARQUET, schema)
    assert parsed.result.rows == 1
    assert parsed.reasons() == [(2, "at", "not a valid timestamp_ntz")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            _parquet(pa.table({"id": [1.5], "price": pa.array([1], pa.decimal128(15, 2)), "nota": ["x"]})),
            "id is double, expected long",
        ),
        (
            _parquet(pa.table({"id": [1], "price": pa.array([1], pa.decimal128(15, 3)), "note": ["x"]})),
            "price is decimal(15,3), expected decimal(15,2)",
        ),
        (b"PAR1 or not", "cannot be read as Parquet"),
    ],
    ids=["types and names", "scale", "no Parquet"],
)
def test_parquet_file_that_does_not_fit_is_refused_whole(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in Parsed(tmp_path, "a.parquet", content, PARQUET).refused
