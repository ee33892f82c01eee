"""Parquet files with the metadata of Spark's legacy calendar, from before Spark 3."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

#: In the legacy calendar this day is 1000-01-01, in today's 1000-01-06.
EARLY = -354280
NAMED = dt.date(1000, 1, 1)


def days(*numbers: int | None) -> pa.Array:
    """Dates from their days since 1970."""
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def midnights(*numbers: int | None, zone: str | None = None) -> pa.Array:
    """The midnights of these days."""
    micros = pa.array([None if number is None else number * 86_400_000_000 for number in numbers], pa.int64())
    return micros.cast(pa.timestamp("us", zone))


def marked(rows: pa.Table, zone: str = "UTC") -> pa.Table:
    """The rows with the file metadata of Spark 4 with ``datetimeRebaseModeInWrite=LEGACY`` in that zone."""
    noted = {"version": "4.0.0", "legacyDateTime": "", "timeZone": zone}
    return rows.replace_schema_metadata({f"org.apache.spark.{key}": value for key, value in noted.items()})
