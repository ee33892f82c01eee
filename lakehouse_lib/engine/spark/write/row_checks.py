"""Checks of each row that Spark writes: the rules of the table, and valid partition values.

Spark names the folder of a partition by the text of its value. Different values that are not UTF-8 can become the same
text, so they are refused. Other columns are not checked for UTF-8, because the check would add a fifth to a write's CPU
time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, SchemaMismatchError
from lakehouse_lib.protocol import partition_values
from lakehouse_lib.schema import SHOWN_ROWS, Field, PrimitiveType, RowRule, constraint_violated
from lakehouse_lib.schema.quoting import quoted

_TEXT, _BINARY = PrimitiveType("string"), PrimitiveType("binary")


class RowCheck(NamedTuple):
    """A check of rows.

    Attributes:
        refused: a Spark column that is true for rows that must not be written; it is never null.
        reason: the violated rule, or the error of the write if there is such a row.
        marker: the text of Spark's error for such a row, which no value of a user contains.
    """

    refused: Any
    reason: RowRule | DeltaError
    marker: str


def row_checks(target: WriteTarget) -> list[RowCheck]:
    """The checks of a write, in the order in which they run. The rows already have the layout of the target."""
    from pyspark.sql import functions as F

    refusals: list[tuple[Any, RowRule | DeltaError]] = [
        (~F.coalesce(F.expr(rule.condition), F.lit(False)), rule) for rule in target.rules
    ]
    for name in target.layout.partition_columns:
        refusals.extend(_partition_checks(target.layout.schema.field(name), target))
    return [RowCheck(refused, reason, f"lakehouse refuses a row <{uuid.uuid4()}>") for refused, reason in refusals]


def with_checks(frame: Any, checks: Sequence[RowCheck], target: WriteTarget) -> Any:
    """The frame with the checks; writing it fails if a check refuses a row."""
    from pyspark.sql import functions as F

    if not checks:
        return frame
    # The checks are part of a column that files contain, because Spark drops unused columns with their checks. A
    # filter is not used, because Spark could move it below a join, where it would check rows that are not in the frame.
    carrier = target.layout.data_columns.names[0]
    first, *others = checks
    value = F.when(first.refused, F.raise_error(F.lit(first.marker)))
    for check in others:  # one CASE with many branches: nested ones overflow the stack of Spark's analyzer
        value = value.when(check.refused, F.raise_error(F.lit(check.marker)))
    value = value.otherwise(F.col(quoted(carrier)))
    columns = [value.alias(name) if name == carrier else F.col(quoted(name)) for name in frame.columns]
    return frame.select(*columns)


def refusal(error: DeltaError, frame: Any, checks: Sequence[RowCheck], target: WriteTarget) -> DeltaError | None:
    """The error of the check that refused a row; None if the write failed for another reason.

    If a rule is violated, the rows are evaluated again, to count those that violate it.

    Args:
        error: the error of the write.
        frame: the rows before ``with_checks``.
    """
    report = str(error.__cause__)
    check = next((check for check in checks if check.marker in report), None)
    if check is None:
        return None
    if isinstance(check.reason, DeltaError):
        return check.reason
    table, rule = target.store.root, check.reason
    violating = frame.where(check.refused)
    try:
        examples, count = violating.limit(SHOWN_ROWS).toArrow(), violating.count()
    except Exception:  # such as a value that Arrow cannot hold; the refusal itself is reported anyway
        count = 0
    if not count:  # rows that Spark computes anew may have other values
        return constraint_violated(rule, "at least 1 row", pa.table({}), table)
    return constraint_violated(rule, "1 row" if count == 1 else f"{count} rows", examples, table)


def _partition_checks(field: Field, target: WriteTarget) -> Iterator[tuple[Any, DeltaError]]:
    from pyspark.sql import functions as F

    if field.type not in (_TEXT, _BINARY):
        return
    table, text = target.store.root, F.col(quoted(field.name)).cast("string")
    not_utf8: DeltaError = SchemaMismatchError(
        f"column {field.name} has text that is not UTF-8; expected UTF-8",
        table=table,
        hint="Decode the text with the encoding that it was written in, or write it as binary",
    )
    if field.type == _BINARY:
        not_utf8 = InvalidArgumentError(
            f"a binary partition value of column {field.name!r} is not UTF-8",
            table=table,
            hint="Partition by another column",
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    yield _is_true(~F.is_valid_utf8(text)), not_utf8
    if field.type == _BINARY:
        problem = "a binary partition value that looks like escapes of other bytes, such as \\u0041"
        yield (
            _is_true(F.rlike(text, F.lit(partition_values.ESCAPED_BYTES))),
            _unusable(field.name, problem, "Partition by another column", table),
        )
    longest = target.store.limits.name
    if longest is not None:
        room = partition_values.room_for_value(target.layout.partition_key(field.name), longest)
        escaped = F.regexp_replace(text, partition_values.ESCAPED_CHARACTER, "%00")
        # The expensive exact test runs only for texts that may be too long when every character is escaped.
        too_long = (F.octet_length(text) > room // 3) & (F.octet_length(escaped) > room)
        problem = f"a partition value that makes a folder name of more than {longest} bytes"
        yield _is_true(too_long), _unusable(field.name, problem, partition_values.LENGTH_HINT, table)
    yield (
        _is_true(F.contains(text, F.lit("\0"))),
        _unusable(field.name, "a partition value with NUL", "Remove the NUL, or partition by another column", table),
    )


def _is_true(condition: Any) -> Any:
    from pyspark.sql import functions as F

    return F.coalesce(condition, F.lit(False))


def _unusable(column: str, problem: str, hint: str, table: str) -> DeltaError:
    return InvalidArgumentError(
        f"column {column}: the data has {problem}",
        table=table,
        hint=hint,
        code="DELTA_INVALID_PARTITION_VALUE",
    )
