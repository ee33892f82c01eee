"""A row rule: a column must have the value of an expression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.errors import ConstraintViolatedError, InvalidPredicateError
from lakehouse_lib.expressions.evaluate_arrow import is_renderable, values_of
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.schema import DataType, Field, Schema
from lakehouse_lib.schema.quoting import quoted


@dataclass(frozen=True)
class ValueRule:
    """A ``RowRule``: a column must be equal to the value of an expression, or both must be null.

    Attributes:
        column: the name of the column.
        kind: its type, a primitive type.
        value: on the columns of the table.
        title: the name in errors, such as ``GENERATED day AS (CAST(at AS DATE))``.
        empty_is_null: whether empty text is null, because the log does not distinguish them in a partition column.
    """

    column: str
    kind: DataType
    value: Value
    title: str
    empty_is_null: bool = False

    @property
    def name(self) -> str:
        """The title."""
        return self.title

    @property
    def code(self) -> str:
        """The code of the error."""
        return ConstraintViolatedError.code

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, then the columns of the expression."""
        return (self.column, *sorted(self.value.columns - {self.column}))

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL."""
        value = self.value.spark_sql
        if self.empty_is_null:
            value = f"IF(OCTET_LENGTH({value}) > 0, {value}, NULL)"
        return f"{quoted(self.column)} <=> {value}"

    @property
    def needs_spark(self) -> bool:
        """Whether only Spark can evaluate the expression."""
        return not is_renderable(self.value.root)

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule.

        Raises:
            InvalidPredicateError: only Spark can evaluate the expression.
            SchemaMismatchError: the value of the expression is out of the range of the column.
        """
        schema = Schema([Field(self.column, self.kind)])
        try:
            values = values_of({self.column: self.value}, pa.Table.from_batches([rows]), schema, table=self.value.table)
        except InvalidPredicateError as error:
            raise InvalidPredicateError(
                f"{self.title} cannot be checked: {error.message}", table=error.table, hint=error.hint, code=error.code
            ) from error
        own, other = rows.column(self.column), values[self.column].combine_chunks()
        if self.empty_is_null:
            other = pc.if_else(pc.equal(pc.binary_length(other), 0), None, other)
        is_equal = flags_of(pc.equal(own, other))
        if pa.types.is_floating(own.type):
            is_equal |= flags_of(pc.is_nan(own)) & flags_of(pc.is_nan(other))
        return ~(is_equal | (flags_of(own.is_null()) & flags_of(other.is_null())))
