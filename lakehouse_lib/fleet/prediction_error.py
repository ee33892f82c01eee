"""The error of predicted effects, relative to the measured effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakehouse_lib.fleet.planner.step import Effect


def prediction_error(effects: Iterable[tuple[Effect, Effect]]) -> dict[str, float | None]:
    """The error of the predictions of some steps: the sum of their deviations, divided by the sum of what was measured.

    Args:
        effects: for each step, the predicted and the measured effect.

    Returns:
        ``bytes``: the error of the bytes that the steps read and write; ``gain``: the error of their gain. 0.1 means
        that a prediction is wrong by 10%. None: zero was measured.
    """
    pairs = list(effects)
    return {
        "bytes": _error([(_rewritten(predicted), _rewritten(measured)) for predicted, measured in pairs]),
        "gain": _error([(predicted.gain, measured.gain) for predicted, measured in pairs]),
    }


def error_text(error: Mapping[str, float | None]) -> str:
    """The values of ``prediction_error`` in words, such as "bytes wrong by 3%, gain wrong by 12%"."""
    texts = [f"{name} wrong by {value:.0%}" for name, value in error.items() if value is not None]
    return ", ".join(texts) or "unknown"


def _rewritten(effect: Effect) -> float:
    return effect.bytes_read + effect.bytes_written


def _error(numbers: Iterable[tuple[float, float]]) -> float | None:
    pairs = list(numbers)
    total = sum(abs(measured) for _, measured in pairs)
    return sum(abs(predicted - measured) for predicted, measured in pairs) / total if total else None
