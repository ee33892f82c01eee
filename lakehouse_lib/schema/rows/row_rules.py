"""The interface of rules that each row of a write must satisfy, and their check on Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools
from lakehouse_lib.errors import ConstraintViolatedError
from lakehouse_lib.json_text import excerpt

#: An error shows at most this number of rows.
SHOWN_ROWS = 10
_SHOWN_CHARACTERS = 200


class RowRule(Protocol):
    """A condition on single rows. Rules are picklable, because tasks on a cluster check them.

    The rows have the table's columns in the table's types.
    """

    @property
    def name(self) -> str:
        """The name of the rule in errors, such as ``NOT NULL id``."""

    @property
    def code(self) -> str:
        """The code of the error for rows that violate the rule."""

    @property
    def columns(self) -> Sequence[str]:
        """The top-level columns that the rule reads; an error shows their values first."""

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL. A row for which it is false or NULL violates the rule."""

    @property
    def needs_spark(self) -> bool:
        """Whether only Spark can evaluate the rule."""

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows violate the rule; the Arrow engine evaluates this instead of ``condition``."""


def check_rows(
    batches: Iterable[pa.RecordBatch], rules: Sequence[RowRule], *, table: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Check batches by the rules, in the order of the rules, and yield the batches unchanged.

    Raises:
        ConstraintViolatedError: a batch violates a rule. The error names the first such rule, counts the rows of all
            batches that violate it, and shows up to ten of these rows.
        InvalidPredicateError: only Spark can evaluate a rule.
    """
    checked = 0
    batches = iter(batches)
    for batch in batches:
        for rule in rules:
            if rule.violations(batch).any():
                raise _violation(rule, chain([batch], batches), checked, table)
        checked += len(batch)
        yield batch


def constraint_violated(rule: RowRule, rows: str, examples: pa.Table, table: str | None) -> ConstraintViolatedError:
    """The error for rows that violate a rule.

    Args:
        rows: the number of rows, as text, such as ``3 of 100 rows``.
        examples: some of the rows.
    """
    example_text = f", such as {', '.join(_row_texts(examples, rule))}" if len(examples) else ""
    return ConstraintViolatedError(
        f"the data violates {rule.name}: {rows}{example_text}",
        table=table,
        hint="Correct these rows or leave them out",
        code=rule.code,
    )


def _violation(
    rule: RowRule, batches: Iterable[pa.RecordBatch], checked: int, table: str | None
) -> ConstraintViolatedError:
    """The error for rows in ``batches``, after ``checked`` other rows."""
    count = 0
    examples: list[pa.RecordBatch] = []
    for batch in batches:
        is_violated = rule.violations(batch)
        room = SHOWN_ROWS - count
        if room > 0 and is_violated.any():
            examples.append(batch.filter(bools(is_violated)).slice(0, room))
        count += int(np.count_nonzero(is_violated))
        checked += len(batch)
    return constraint_violated(rule, f"{count} of {checked} rows", pa.Table.from_batches(examples), table)


def _row_texts(rows: pa.Table, rule: RowRule) -> Iterator[str]:
    names = [*rule.columns, *(name for name in rows.column_names if name not in rule.columns)]
    for number in range(len(rows)):
        text = ", ".join(f"{name!r}: {_value_text(rows[name][number])}" for name in names)
        yield f"{{{text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + '…'}}}"


def _value_text(value: pa.Scalar) -> str:
    try:
        return excerpt(value.as_py())
    except (OverflowError, ValueError):  # a time that Python cannot hold
        return excerpt(value)
