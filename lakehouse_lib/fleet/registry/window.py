"""The time in which maintenance runs, and its budget."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from lakehouse_lib.fleet.registry.fields import Bytes, Strict

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _check_time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ValueError("the time is not valid; expected HH:MM, such as 22:00")
    return text


def _check_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError("the time zone is not known; expected a name such as Europe/Berlin") from None
    return text


_Time = Annotated[str, AfterValidator(_check_time)]


class Window(Strict):
    """The time of day in which maintenance runs. The window may include midnight."""

    start: _Time = Field(description="HH:MM")
    end: _Time = Field(description="HH:MM; the same as start: the whole day")
    timezone: Annotated[str, AfterValidator(_check_zone)] = "UTC"
    days: tuple[Literal[_DAYS], ...] = Field(  # type: ignore[valid-type]
        default=_DAYS, min_length=1, description="the days on which the window starts"
    )

    def seconds_left(self, now: datetime) -> float | None:
        """The time until the window closes, in seconds; 0 if it is closed, None if it never closes.

        Windows of the whole day on days that follow each other are one window.

        Args:
            now: the current time, with a time zone.
        """
        is_whole_day, one_day = self.start == self.end, timedelta(days=1)
        if is_whole_day and set(self.days) == set(_DAYS):
            return None
        local = now.astimezone(ZoneInfo(self.timezone))
        for day in (local.date() - one_day, local.date()):
            if not self._starts_on(day):
                continue
            last = day if self.start < self.end else day + one_day
            while is_whole_day and self._starts_on(last):
                last += one_day
            opens = datetime.combine(day, time.fromisoformat(self.start), local.tzinfo)
            closes = datetime.combine(last, time.fromisoformat(self.end), local.tzinfo)
            if opens.astimezone(UTC) <= now < closes.astimezone(UTC):  # in UTC, because local time may jump
                return (closes.astimezone(UTC) - now).total_seconds()
        return 0.0

    def _starts_on(self, day: date) -> bool:
        return _DAYS[day.weekday()] in self.days


class BudgetSettings(Strict):
    """The most that a maintenance run may use; ``None``: no limit."""

    bytes: Bytes | None = Field(default=None, description="data that a run reads and writes")
    seconds: float | None = Field(default=None, gt=0, description="the predicted duration of a run")
    window: Window | None = Field(default=None, description="runs start in the window, and are planned to end in it")

    def limits(self, now: datetime) -> tuple[int | None, float | None]:
        """The bytes and the seconds that a run may use, None: no limit; 0 seconds: the window is closed.

        Args:
            now: the current time, with a time zone.
        """
        left = None if self.window is None else self.window.seconds_left(now)
        both = [limit for limit in (self.seconds, left) if limit is not None]
        return self.bytes, min(both) if both else None
