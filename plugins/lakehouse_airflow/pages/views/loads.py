"""The loads of a table: a row for each batch of its source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse_airflow.pages.views.commit import Task, task_of
from lakehouse_lib.ingestion.batches.reports import BatchReport

#: The class of the style sheet for each state of a batch.
_STYLES = {"loaded": "done", "given up": "failed", "unfinished": "fair"}


@dataclass(frozen=True)
class LoadRow:
    """A batch.

    Attributes:
        at: the time of the commit, else of the start; ms since the epoch.
        more: the number of files without a name in ``batch.names``.
        refused: the rejected files with the reasons.
        task: the task that has loaded the batch.
    """

    batch: BatchReport
    style: str
    at: int | None
    more: int
    refused: tuple[tuple[str, str], ...]
    task: Task | None


def load_rows(batches: Iterable[BatchReport]) -> list[LoadRow]:
    """A row for each batch."""
    return [
        LoadRow(
            batch,
            _STYLES[batch.state],
            batch.started_at if batch.commit is None else batch.commit.committed_at,
            (batch.files or 0) - len(batch.names),
            tuple(sorted(batch.refused.items())),
            None if batch.commit is None else task_of(batch.commit.info),
        )
        for batch in batches
    ]
