"""A rule about all rows of a load's batch. Its states, one per record batch, can be merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate.condition import Condition


class Measure(Protocol):
    """The measure of a table rule. A state is a plain value of bounded size, which can be pickled."""

    def empty(self) -> Any:
        """The state without rows."""

    def measure(self, batch: pa.RecordBatch) -> Any:
        """The state of a record batch."""

    def merge(self, left: Any, right: Any) -> Any:
        """The state of the rows of both states."""

    def verdict(self, state: Any) -> str | None:
        """The observed value, if it breaks the rule; else None."""


@dataclass(frozen=True)
class TableRule:
    """A rule about all rows of a load's batch. It can be pickled.

    Call ``measure`` for each record batch, including its rows that break row rules. Then ``merge`` returns the state of
    all record batches, and ``verdict`` judges this state.

    Attributes:
        row_filter: the condition of the rows that are measured; None: every row.
        kind: what is measured, such as the sum of a column.
    """

    rule: Rule
    row_filter: Condition | None
    kind: Measure

    def measure(self, batch: pa.RecordBatch) -> Any:
        """The state of a record batch."""
        rows = batch if self.row_filter is None else batch.filter(is_true(self.row_filter.mask(batch)))
        return self.kind.measure(rows)

    def merge(self, states: Iterable[Any]) -> Any:
        """The merged state, for the rows of all record batches; for an empty iterable, the state without rows."""
        total = self.kind.empty()
        for state in states:
            total = self.kind.merge(total, state)
        return total

    def verdict(self, state: Any) -> str | None:
        """The rule and the observed value, for an error, if the rule is broken; else None."""
        observed = self.kind.verdict(state)
        return None if observed is None else f"{self.rule}, observed {observed}"
