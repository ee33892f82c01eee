"""Rules that each row of a write has to satisfy: NOT NULL here, those of table features in the feature's own file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.errors import ConstraintViolatedError


class RowRule(Protocol):
    """A condition on single rows. Picklable, because tasks of a cluster carry it.

    Rows have the table's columns in the table's types when a rule sees them.
    """

    @property
    def name(self) -> str:
        """What errors call the rule, such as ``NOT NULL id``."""

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL. A row for which it is false or NULL violates the rule."""

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule: the Arrow engine's form of ``condition``."""


def check_rows(
    batches: Iterable[pa.RecordBatch], rules: Sequence[RowRule], *, table: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The same batches, each checked by the rules in their order.

    Raises:
        ConstraintViolatedError: the first rule that a batch violates, and how many of the batch's rows do.
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
        rows: how many, in words.
    """
    return ConstraintViolatedError(
        f"the data violates {rule.name}: {rows}",
        table=table,
        hint="Correct these rows or leave them out",
    )
