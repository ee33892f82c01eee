"""The quality of a source: the numbers of loaded and rejected rows of its newest batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse_lib.ingestion.batches.reports import BatchReport


@dataclass(frozen=True)
class Quality:
    """The newest batches of a source, as counts.

    Attributes:
        batches, given_up: the number of batches, and of the batches that were given up.
        rejected_files: the number of refused files in these batches.
        rules_broken: each broken rule with the number of rows that break it, most rows first. A row that breaks two
            rules counts for both.
        last: the state of the newest batch; None: there is no batch.
        problem: the reason why the batches cannot be read; None: they were read.
    """

    batches: int = 0
    given_up: int = 0
    loaded_rows: int = 0
    rejected_rows: int = 0
    rejected_files: int = 0
    rules_broken: tuple[tuple[str, int], ...] = ()
    last: str | None = None
    problem: str | None = None

    @property
    def rejected_share(self) -> float | None:
        """The share of rejected rows; None without rows."""
        rows = self.loaded_rows + self.rejected_rows
        return self.rejected_rows / rows if rows else None


def quality_of(batches: Sequence[BatchReport]) -> Quality:
    """The quality of these batches, newest first."""
    rules = Counter[str]()
    for batch in batches:
        rules.update({} if batch.commit is None else batch.commit.rules_broken)
    return Quality(
        batches=len(batches),
        given_up=sum(batch.state == "given up" for batch in batches),
        loaded_rows=sum(batch.commit.rows or 0 for batch in batches if batch.commit is not None),
        rejected_rows=sum(batch.rejected_rows for batch in batches),
        rejected_files=sum(len(batch.refused) for batch in batches),
        rules_broken=tuple(rules.most_common()),
        last=batches[0].state if batches else None,
    )
