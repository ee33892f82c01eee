"""A row rule: a predicate must be true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.evaluate_arrow import is_renderable, matches
from lakehouse_lib.expressions.predicate import Predicate, sql_excerpt, to_spark_sql


@dataclass(frozen=True)
class PredicateRule:
    """A ``RowRule``: a predicate must be true. Rows for which it is false or NULL violate the rule.

    Attributes:
        predicate: on the columns of the table.
        code: the code of the error.
        title: the name in errors, such as ``CHECK positive (price > 0)``; None: the predicate, quoted.
    """

    predicate: Predicate
    code: str
    title: str | None = None

    @property
    def name(self) -> str:
        """The title, or the predicate, quoted."""
        return self.title or f"the predicate {sql_excerpt(self.predicate.text)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the predicate."""
        return tuple(sorted(self.predicate.columns))

    @property
    def condition(self) -> str:
        """The predicate in Spark's SQL."""
        return to_spark_sql(self.predicate)

    @property
    def needs_spark(self) -> bool:
        """Whether only Spark can evaluate the predicate."""
        return not is_renderable(self.predicate.root)

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule.

        Raises:
            InvalidPredicateError: Arrow cannot evaluate the predicate, or its arithmetic overflows.
        """
        try:
            return ~flags_of(matches(self.predicate, rows))
        except InvalidPredicateError as error:
            if self.title is None:
                raise
            raise InvalidPredicateError(
                f"{self.title} cannot be checked: {error.message}",
                table=error.table,
                hint="Append and update with the Spark engine, or write the condition with the SQL that "
                "docs/predicates.md lists"
                if self.needs_spark
                else error.hint,
                code=error.code,
            ) from error
