"""Rows with new values that only Spark can evaluate (UPDATE): read by Spark's scan, written by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.parquet.matching import positions_of
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.spark.read.reading import read_frame
from lakehouse_lib.expressions import Value
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.snapshot import Snapshot


def updated_frame(
    spark: Any, snapshot: Snapshot, files: pa.Table, matches: pa.Table, values: Mapping[str, Value]
) -> Any:
    """The matching rows with their new values, as a DataFrame with the table's columns.

    Args:
        files: a files table of the snapshot.
        matches: a table of MATCHES_SCHEMA with the same files in the same order, without deleted rows.
    """
    from pyspark.sql import functions as F

    hidden = [
        deletion_vector.all_but(positions, rows)
        for positions, rows in zip(positions_of(matches), matches["rows"].to_pylist(), strict=True)
    ]
    index = files.column_names.index("deletionVector")
    field = files.schema.field(index)
    matched = files.set_column(index, field, pa.array(hidden, field.type))
    frame = read_frame(spark, snapshot, Scan.of(snapshot, None, None), matched)
    return frame.select(
        *(
            F.expr(values[name].spark_sql).alias(name) if name in values else F.col(quoted(name))
            for name in snapshot.schema.names
        )
    )
