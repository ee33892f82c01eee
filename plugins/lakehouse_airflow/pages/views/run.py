"""The steps of maintenance runs, with the predicted and the measured effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from lakehouse_airflow.pages.views.fleet import milliseconds
from lakehouse_airflow.pages.views.texts import bytes_text, count_text, duration_text, sentence_text
from lakehouse_lib.fleet.planner.step import Effect, Step
from lakehouse_lib.fleet.prediction_error import error_text, prediction_error

#: The numbers of an effect that the page shows. Each has a title and a function that makes its text.
EFFECTS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "query_bytes": ("A query reads less", bytes_text),
    "bytes_freed": ("Freed", bytes_text),
    "files_removed": ("Files removed", count_text),
    "files_added": ("Files added", count_text),
    "bytes_written": ("Written", bytes_text),
    "seconds": ("Duration", duration_text),
}


@dataclass(frozen=True)
class StepRow:
    """A step of a run.

    Attributes:
        at: the end of the step, or the time of the plan if the step was deferred; ms since the epoch. 0 for a step of
            a plan.
        effects: for each number of ``EFFECTS``, the predicted and the measured value as texts; None: not measured.
        measured: the predicted and the measured effect; None: not measured.
    """

    verb: str
    status: str
    at: int
    reason: str
    error: str | None
    version: int | None
    effects: tuple[tuple[str, str | None], ...]
    measured: tuple[Effect, Effect] | None = None

    @property
    def prediction(self) -> str:
        """The error of the prediction as text."""
        return error_of([self])


def error_of(steps: Iterable[StepRow]) -> str:
    """The error of the predictions of all measured steps as text; empty: no step was measured."""
    effects = [step.measured for step in steps if step.measured is not None]
    return error_text(prediction_error(effects)) if effects else ""


def step_rows(series: pa.Table, most: int) -> list[StepRow]:
    """The newest rows of ``RunRecord.series``, newest first."""
    newest = series.slice(max(0, len(series) - most))
    for name in ("planned_at", "finished_at"):
        newest = newest.set_column(newest.schema.get_field_index(name), name, milliseconds(newest[name]))
    return [_row(row) for row in reversed(newest.to_pylist())]


def planned_rows(steps: Iterable[Step]) -> list[StepRow]:
    """The steps of a plan."""
    return [
        StepRow(
            verb=step.verb,
            status="overdue" if step.is_overdue else "planned",
            at=0,
            reason=sentence_text(step.reason if step.partitions is None else f"{step.reason}; {step.partitions.text}"),
            error=None,
            version=None,
            effects=tuple((text(getattr(step.predicted, name)), None) for name, (_, text) in EFFECTS.items()),
        )
        for step in steps
    ]


def _row(row: Mapping[str, Any]) -> StepRow:
    is_measured = row["measured_query_bytes"] is not None
    return StepRow(
        verb=row["verb"],
        status=row["status"],
        at=row["planned_at"] if row["finished_at"] is None else row["finished_at"],
        reason=sentence_text(row["reason"] or ""),
        error=row["error"],
        version=row["version"],
        effects=tuple(
            (text(row[f"predicted_{name}"]), text(row[f"measured_{name}"]) if is_measured else None)
            for name, (_, text) in EFFECTS.items()
        ),
        measured=(_effect(row, "predicted"), _effect(row, "measured")) if is_measured else None,
    )


def _effect(row: Mapping[str, Any], kind: str) -> Effect:
    return Effect(**{item.name: row[f"{kind}_{item.name}"] for item in fields(Effect)})
