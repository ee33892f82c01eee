"""A rule about single rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true, may_be_true
from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate.condition import Condition, Constant


@dataclass(frozen=True)
class RowRule:
    """A rule about single rows, as a function of record batches. It can be pickled.

    Attributes:
        mostly: the share of the counted rows that must pass, else the rule is broken.
        row_filter: the condition of the rows that count, and may break the rule; None: every row.
        expected: the condition; a row for which it is null passes.
    """

    rule: Rule
    mostly: float
    row_filter: Condition | None
    expected: Condition

    def applies(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows are counted, as a mask without nulls."""
        return is_true((self.row_filter or Constant(True)).mask(batch))

    def passes(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows do not break the rule, as a mask without nulls; a row that is not counted passes."""
        mask = may_be_true(self.expected.mask(batch))
        if self.row_filter is None or pc.all(mask).as_py() is not False:
            return mask
        return pc.or_(mask, pc.invert(self.applies(batch)))
