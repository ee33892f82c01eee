"""A rule about a batch as a whole, whose measurements of record batches can be merged."""

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
    """A rule about a batch as a whole. It can be pickled.

    Call ``measure`` for each record batch, including its rows that break row rules. Then ``merge`` returns the state of
    all of them, and ``verdict`` judges this state.

    Attributes:
        counted: the condition of the rows that are measured; None: every row.
    """

    rule: Rule
    counted: Condition | None
    measured: Measure

    def measure(self, batch: pa.RecordBatch) -> Any:
        """The state of a record batch."""
        return self.measured.measure(batch if self.counted is None else batch.filter(is_true(self.counted.mask(batch))))

    def merge(self, states: Iterable[Any]) -> Any:
        """The state of the rows of all states; without states, the state of no rows."""
        total = self.measured.empty()
        for state in states:
            total = self.measured.merge(total, state)
        return total

    def verdict(self, state: Any) -> str | None:
        """The rule and the observed value, for an error, if the rule is broken; else None."""
        observed = self.measured.verdict(state)
        return None if observed is None else f"{self.rule}, observed {observed}"
