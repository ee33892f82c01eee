"""A row rule that a predicate is true for each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.expressions.evaluate_arrow import matches
from lakehouse_lib.expressions.predicate import Predicate, shown, to_spark_sql


@dataclass(frozen=True)
class PredicateRule:
    """A rule that a predicate is true; rows for which it is false or NULL violate the rule. A ``RowRule``.

    Attributes:
        predicate: on the columns of the table.
        code: the code of the error.
    """

    predicate: Predicate
    code: str

    @property
    def name(self) -> str:
        """The predicate, quoted."""
        return f"the predicate {shown(self.predicate.text)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the predicate."""
        return tuple(sorted(self.predicate.columns))

    @property
    def condition(self) -> str:
        """The predicate in Spark's SQL."""
        return to_spark_sql(self.predicate)

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule.

        Raises:
            InvalidPredicateError: Arrow cannot evaluate the predicate.
        """
        return ~flags_of(matches(self.predicate, rows))
