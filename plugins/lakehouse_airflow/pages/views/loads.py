"""The loads of a table, with a row for each batch of its source."""

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
        style: the CSS class of the state.
        at: the time of the commit, or of the start if there is no commit; ms since the epoch.
        more: the number of files of the batch that are not in ``batch.names``.
        refused: the refused files, each with the reason.
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
