"""Columns that Spark computes from rows of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.spark.columns import as_schema, struct_type
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.predicate import sql_excerpt
from lakehouse_lib.schema import Schema, align
from lakehouse_lib.schema.quoting import quoted

_ROW = "__lakehouse_row"


def computed_rows(spark: Any, rows: pa.Table, alias: str, columns: Mapping[str, str]) -> pa.Table:
    """The columns with these names and SQL expressions, for the rows in their order.

    Args:
        alias: the name of the rows in the expressions.

    Raises:
        InvalidPredicateError: Spark refuses an expression.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    numbered = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
    frame = spark.createDataFrame(numbered, struct_type(as_schema(Schema.from_arrow(numbered.schema)))).alias(alias)
    for sql in columns.values():
        try:
            frame.select(F.expr(sql))
        except AnalysisException as error:
            raise InvalidPredicateError(
                f"Spark refuses {sql_excerpt(sql)} of the merge: {str(error).partition(chr(10))[0]}",
                hint="Correct the expression",
            ) from error
    result = frame.select(quoted(_ROW), *(F.expr(sql).alias(name) for name, sql in columns.items())).toArrow()
    result = result.sort_by(_ROW).drop_columns([_ROW])
    return align(result, Schema.from_arrow(result.schema))
