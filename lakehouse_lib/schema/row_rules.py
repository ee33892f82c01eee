"""The interface of rules that each row of a write must satisfy, and their check on Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.errors import ConstraintViolatedError


class RowRule(Protocol):
    """A condition on single rows; picklable, because tasks take it to a cluster.

    The rows have the table's columns in the table's types.
    """

    @property
    def name(self) -> str:
        """The name of the rule in errors, such as ``NOT NULL id``."""

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL. A row for which it is false or NULL violates the rule."""

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule; the Arrow engine evaluates this instead of ``condition``."""


def check_rows(
    batches: Iterable[pa.RecordBatch], rules: Sequence[RowRule], *, table: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Check batches by the rules, in the order of the rules, and yield the batches unchanged.

    Raises:
        ConstraintViolatedError: a batch violates a rule; names the first such rule and the number of rows.
    """
    for batch in batches:
        for rule in rules:
            count = int(np.count_nonzero(rule.violations(batch)))
            if count:
                raise constraint_violated(rule, f"{count} of {len(batch)} rows", table)
        yield batch


def constraint_violated(rule: RowRule, rows: str, table: str | None) -> ConstraintViolatedError:
    """The error for rows that violate a rule.

    Args:
        rows: the number of rows, as text.
    """
    return ConstraintViolatedError(
        f"the data violates {rule.name}: {rows}",
        table=table,
        hint="Correct these rows or leave them out",
    )
