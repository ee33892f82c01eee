"""Schedules of DAGs in a registry: cron expressions and presets."""

from __future__ import annotations

import re

_PRESETS = ("once", "continuous", "hourly", "daily", "midnight", "weekly", "monthly", "quarterly", "yearly", "annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: The name, the smallest and the largest number of each field, and names with the number of the first name.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...], int], ...] = (
    ("minute", 0, 59, (), 0),
    ("hour", 0, 23, (), 0),
    ("day of the month", 1, 31, (), 0),
    ("month", 1, 12, _MONTHS, 1),
    ("day of the week", 0, 7, _DAYS, 0),
    ("second", 0, 59, (), 0),
    ("year", 1970, 2099, (), 0),
)
_PART = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d+))?", re.ASCII)
#: What Airflow's cron accepts in two fields besides numbers: the last day, the working day nearest to a day, the last
#: Friday, the second Monday.
_SPECIAL_DAY = re.compile(r"l|\?|(?:[1-9]|[12]\d|3[01])w")
_NTH_DAY = re.compile(r"\?|l[0-7]|(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)#[1-5]")


def check_schedule(schedule: str) -> str:
    """Check the form of a schedule, and return it. A date that does not exist, such as February 30, is not detected.

    Raises:
        ValueError: the schedule is neither a preset nor a cron expression of 5 to 7 fields.
    """
    if schedule.startswith("@") and schedule[1:] in _PRESETS:
        return schedule
    texts = schedule.lower().split()
    if schedule.startswith("@") or not 5 <= len(texts) <= 7:
        raise ValueError(
            "the schedule is neither a preset nor a cron expression; expected a preset such as @daily, or 5 fields "
            "such as 30 2 * * *"
        )
    for text, (name, least, most, names, first) in zip(texts, _FIELDS, strict=False):
        if not all(_is_part(part, name, least, most, names, first) for part in text.split(",")):
            raise ValueError(f"the schedule has the {name} {text}; expected *, or numbers from {least} to {most}")
    return schedule


def _is_part(text: str, name: str, least: int, most: int, names: tuple[str, ...], first: int) -> bool:
    """Whether the text is a valid part of a field: ``*``, a value or a range, each with or without a step."""
    if name == "day of the month" and _SPECIAL_DAY.fullmatch(text):
        return True
    if name == "day of the week" and _NTH_DAY.fullmatch(text):
        return True
    part = _PART.fullmatch(text)
    if part is None or (part["step"] is not None and int(part["step"]) == 0):
        return False
    values = [
        names.index(value) + first if value in names else value for value in (part["first"], part["last"]) if value
    ]
    return all(str(value).isdecimal() and least <= int(value) <= most for value in values)
