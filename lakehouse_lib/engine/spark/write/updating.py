"""Rows with new values that only Spark can evaluate (UPDATE): read by Spark's scan, written by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.parquet.matching import positions_of
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.spark.read.reading import read_frame
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import Value
from lakehouse_lib.expressions.ir import Assignment, Column, Opaque, walk
from lakehouse_lib.expressions.parsing.assignment import assigned, is_number
from lakehouse_lib.expressions.predicate import sql_excerpt
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.snapshot import Snapshot

#: With these settings a value that does not fit is an error, and times without a zone are UTC.
SETTINGS = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}
_ROW = "__lakehouse_row"


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
    for name, value in values.items():
        check_types(frame, value, snapshot.schema.field(name))
    columns = [
        F.expr(values[name].spark_sql).alias(name) if name in values else F.col(quoted(name))
        for name in snapshot.schema.names
    ]
    # With this column, which is not an aggregate, Spark refuses values that are aggregates.
    return frame.select(*columns, F.monotonically_increasing_id().alias(_ROW)).select(
        *map(quoted, snapshot.schema.names)
    )


def check_types(frame: Any, value: Value, column: Field) -> None:
    """Refuse a value with SQL that only Spark evaluates, if Spark refuses the SQL or its type does not fit the column.

    Raises:
        InvalidPredicateError: Spark refuses the expression, or its type cannot be assigned to the column.
    """
    from pyspark.errors import AnalysisException

    for part in walk(value.root):
        if not isinstance(part, Assignment) or not isinstance(part.operand, Opaque):
            continue
        try:
            schema = Schema.from_json(frame.selectExpr(f"{part.operand.sql} AS `{_ROW}`").schema.json())
        except AnalysisException as error:
            raise _invalid(value, column, str(error).partition("\n")[0], "Correct the expression") from error
        kind = schema.fields[0].type
        if is_number(kind) and is_number(part.type):  # Spark converts floats to decimals
            continue
        try:
            assigned(Column((part.operand.sql,), kind), part.type)
        except InvalidPredicateError as error:
            raise _invalid(value, column, error.message, error.hint) from None


def _invalid(value: Value, column: Field, reason: str, hint: str | None) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"the value {sql_excerpt(value.sql)} of column {column.name!r} is not valid: {reason}",
        table=value.table,
        hint=hint,
        code="DELTA_INVALID_ASSIGNMENT",
    )
