"""Parse the arguments of a sensor, which a template may have rendered as text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lakehouse_airflow.errors import InvalidParameterError


def whole_number(name: str, value: Any, least: int, meaning: str) -> int | None:
    """The whole number in an argument; None if the argument has no value.

    Args:
        name, meaning: the name of the argument and the meaning of its value, for the error.
        least: the smallest valid number.

    Raises:
        AirflowFailException: the value is not a whole number, or is below ``least``.
    """
    if value in (None, "", "None"):  # a template without a value renders to text
        return None
    is_whole = not isinstance(value, bool) and (not isinstance(value, float) or value.is_integer())
    try:
        number = int(value) if is_whole else least - 1
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected {meaning} from {least}")
    return number


def seconds(name: str, value: Any) -> float:
    """The number of seconds in an argument: a timedelta, a number, or a number as text.

    Raises:
        AirflowFailException: the value has another form, or is not above 0.
    """
    try:
        duration = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except (TypeError, ValueError):
        duration = 0.0
    if not 0 < duration < float("inf"):
        raise InvalidParameterError(f"{name} is {value!r}; expected a timedelta, or a number of seconds above 0")
    return duration
