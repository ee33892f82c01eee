"""Values of a sensor's fields, which a template may have rendered as text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException


def whole_number(name: str, value: Any, least: int, meaning: str) -> int | None:
    """The number in a field; None if the template has no value.

    Raises:
        AirflowFailException: the value is not a whole number, or is below ``least``.
    """
    if value in (None, "", "None"):  # a template without a value renders as text
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise AirflowFailException(f"{name} is {value!r}; expected {meaning} from {least}")
    return number


def seconds(name: str, value: Any) -> float:
    """The seconds of a timedelta, of a number, or of a number as text.

    Raises:
        AirflowFailException: the value is none of these, or is not above 0.
    """
    try:
        duration = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except (TypeError, ValueError):
        duration = 0.0
    if not 0 < duration < float("inf"):
        raise AirflowFailException(f"{name} is {value!r}; expected a timedelta, or a number of seconds above 0")
    return duration
