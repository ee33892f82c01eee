"""Corrections of predictions by the measurements of earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lakehouse_lib.fleet.planner.step import Effect, Step

#: The numbers that are corrected.
_NUMBERS = ("files_removed", "files_added", "bytes_read", "bytes_written", "bytes_freed", "query_bytes")
#: The number of the newest runs of a verb on a table that count.
_RUNS = 3
#: The limits of a factor. With a factor of 0, a step would gain nothing, so it would not be planned and measured again.
_LEAST, _MOST = 0.1, 10.0
#: Bytes that a run reads and writes in a second, until a run has measured it.
_BYTES_PER_SECOND = 100e6
#: The duration of a step that rewrites nothing, until a run has measured it.
_SECONDS = 0.5


@dataclass(frozen=True)
class Run:
    """A finished step: its effect as predicted without corrections, as predicted with corrections, and as measured."""

    table: str
    verb: str
    uncorrected: Effect
    predicted: Effect
    measured: Effect


class Corrections:
    """The corrections by finished steps.

    Args:
        runs: the finished steps, oldest first.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        by_step: dict[tuple[str, str], list[Run]] = {}
        by_verb: dict[str, list[Run]] = {}
        for run in runs:
            by_step.setdefault((run.table, run.verb), []).append(run)
            by_verb.setdefault(run.verb, []).append(run)
        self._factors = {key: _factors(items[-_RUNS:]) for key, items in by_step.items()}
        self._rates = {verb: _rate(items[-10 * _RUNS :]) for verb, items in by_verb.items()}
        self._seconds = {key: median(run.measured.seconds for run in items[-_RUNS:]) for key, items in by_step.items()}

    def corrected(self, step: Step) -> Step:
        """The step with corrected predictions and a predicted duration."""
        key = (step.table, step.verb)
        predicted = step.predicted.scaled(self._factors.get(key, {}))
        rewritten = predicted.bytes_read + predicted.bytes_written
        rate = self._rates.get(step.verb)
        if predicted.bytes_read:
            seconds = rewritten / (rate or _BYTES_PER_SECOND)
        else:
            seconds = self._seconds.get(key, _SECONDS)
        return replace(step, predicted=replace(predicted, seconds=seconds), uncorrected=step.predicted)


def _factors(runs: Sequence[Run]) -> Mapping[str, float]:
    """For each number, the median of measured / uncorrected, from ``_LEAST`` to ``_MOST``."""
    factors = {}
    for name in _NUMBERS:
        ratios = [
            getattr(run.measured, name) / getattr(run.uncorrected, name)
            for run in runs
            if getattr(run.uncorrected, name) > 0
        ]
        if ratios:
            factors[name] = min(max(median(ratios), _LEAST), _MOST)
    return factors


def _rate(runs: Sequence[Run]) -> float | None:
    rates = [
        (run.measured.bytes_read + run.measured.bytes_written) / run.measured.seconds
        for run in runs
        if run.measured.seconds > 0 and run.measured.bytes_read
    ]
    return median(rates) if rates else None
