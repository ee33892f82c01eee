"""Values of columns that a DataFrame lacks: computed by Spark from the expressions of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.spark.session_settings import session_settings
from lakehouse_lib.engine.spark.write.updating import SETTINGS, check_types
from lakehouse_lib.expressions import Value
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.features.computed_columns.identity_columns import Identity
from lakehouse_lib.schema.quoting import quoted

#: A frame with an identity column is written in at most this many partitions.
_PARTITIONS = 1024
#: The bits of ``monotonically_increasing_id`` that are the place of a row in its partition.
_PLACES = (1 << 33) - 1


def with_computed(frame: Any, columns: ComputedColumns, target: WriteTarget) -> Any:
    """The frame with the values of computed columns.

    Args:
        frame: has exactly the columns of the target, in its types; the values of ``columns`` are ignored.

    Raises:
        InvalidPredicateError: Spark refuses an expression, or a value of its type cannot be assigned to the column.
    """
    if not columns.names:
        return frame
    with session_settings(frame.sparkSession, SETTINGS):  # the expressions keep the settings with which they are made
        frame = _with_numbers(_with_values(frame, columns.defaults, target), columns.identity)
        return _with_values(frame, columns.generated, target)


def _with_numbers(frame: Any, columns: Mapping[str, Identity]) -> Any:
    """The frame with the numbers of identity columns.

    The number of a row depends on the number of its partition and on its place in the partition, so a repeated task
    computes the same numbers. Offsets of different partitions have different remainders (modulo ``_PARTITIONS``).
    """
    from pyspark.sql import functions as F

    if not columns:
        return frame
    place = F.monotonically_increasing_id().bitwiseAND(F.lit(_PLACES))
    offset = F.spark_partition_id().cast("bigint") + F.lit(_PARTITIONS) * place
    numbers = {
        name: (F.lit(identity.first).cast("bigint") + F.lit(identity.step).cast("bigint") * offset).alias(name)
        for name, identity in columns.items()
    }
    selected = [numbers.get(name, F.col(quoted(name))) for name in frame.columns]
    return frame.coalesce(_PARTITIONS).select(*selected)


def _with_values(frame: Any, values: Mapping[str, Value], target: WriteTarget) -> Any:
    from pyspark.sql import functions as F

    if not values:
        return frame
    for name, value in values.items():
        check_types(frame, value, target.layout.schema.field(name))
    selected = []
    for name in frame.columns:
        column = F.expr(values[name].spark_sql) if name in values else F.col(quoted(name))
        if name in values and name in target.layout.text_partition_columns:
            column = F.when(F.octet_length(column) > 0, column)  # the log stores empty text as null
        selected.append(column.alias(name))
    return frame.select(*selected)
