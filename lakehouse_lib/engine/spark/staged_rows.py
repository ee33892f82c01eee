"""DataFrames of staged rows (the parsed rows of a load), and of rows for the quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.columns import struct_type
from lakehouse_lib.engine.spark.quality_gate import VIOLATIONS
from lakehouse_lib.engine.spark.read import reading
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def empty(spark: SparkSession, schema: Schema) -> DataFrame:
    """An empty DataFrame with a schema."""
    return spark.createDataFrame([], struct_type(schema))


def read(spark: SparkSession, store: ObjectStore, schema: Schema, paths: Sequence[str]) -> DataFrame:
    """The rows of staged Parquet files of a store."""
    if not paths:
        return empty(spark, schema)
    # Globbing is disabled, because a table's path may contain * or [.
    reader = spark.read.schema(struct_type(schema)).option("__globPaths__", "false")
    # The options override the session's settings: dates are not rebased, and a missing file is an error.
    reader = reader.options(**reading.OPTIONS, **store_access.options(spark, store))
    return reader.parquet(*(f"{store_access.uri(store, store.root)}/{path}" for path in paths))


def with_file_lines(rows: DataFrame, column: str, before: Sequence[int], bits: int) -> DataFrame:
    """The rows with line numbers that count from the start of the file instead of the start of a part of the file.

    Args:
        column: the column of the line number. The lowest ``bits`` bits are the line in a part, the other bits are the
            number of the part.
        before: for each part, the number of lines of the file before the part.
    """
    from pyspark.sql import functions as F

    part = F.shiftright(column, bits).cast("int")
    start = F.get(F.array(*(F.lit(lines).cast("long") for lines in before)), part)
    return rows.withColumn(column, F.col(column).bitwiseAND((1 << bits) - 1) + start)


def quarantine_rows(
    failing: DataFrame, schema: Schema, *, source: str, batch: int, file_column: str, line_column: str
) -> DataFrame:
    """The rows of the quarantine for rows that broke rules.

    Args:
        failing: rows of ``schema`` with an array of violations, as the quality gate returns them.
        file_column, line_column: columns of ``failing`` with the origin of a row.
    """
    from pyspark.sql import functions as F

    first = F.get(VIOLATIONS, F.lit(0))
    return failing.select(
        *(_text(failing, name).alias(name) for name in schema.names),
        F.lit(source).alias("_source"),
        F.lit(batch).cast("long").alias("_batch"),
        F.col(file_column).alias("_file"),
        F.col(line_column).alias("_line"),
        first["column"].alias("_column"),
        first["reason"].alias("_reason"),
        first["rule"].alias("_rule"),
        F.col(VIOLATIONS).alias("_violations"),
        F.lit(None).cast("string").alias("_raw"),
    )


def _text(rows: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    column, kind = F.col(quoted(name)), rows.schema[name].dataType
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.to_json(column)
    if isinstance(kind, BinaryType):
        return F.make_valid_utf8(column.cast("string"))  # most readers of a text column refuse other bytes
    return column.cast("string")
