"""Dates and times in text, in the forms that Spark reads."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?"
    r"\s*([A-Za-z][\w/+:-]*|[+-]\d{1,2}(?::?\d{2})?)?\Z",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?\Z", re.ASCII | re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?\Z", re.ASCII)
#: Greatest distance of a zone from UTC in Spark, in seconds.
_MOST_OFFSET = 18 * 3600


def parse_date(text: str) -> int | None:
    """Days since 1970 of yyyy-mm-dd (for yyyy-mm or yyyy the first day), or None.

    As in Spark, a day may be followed by ``T`` or a blank and any text, which is ignored: 2024-01-31 10:00:00.
    """
    match = _DATE.match(text.strip())
    try:
        return dt.date(*(int(part or 1) for part in match.groups())).toordinal() - 719_163 if match else None
    except ValueError:
        return None


def parse_timestamp(text: str, *, by_wall_clock: bool = False) -> int | None:
    """µs since 1970 of an ISO-8601 timestamp, in UTC if it has no zone; None if it is not valid.

    Digits after the microseconds are dropped. Zones are offsets (Z, +02:00, UTC+2; at most 18:00, as in Spark) and
    names (Europe/Paris). An offset that begins with a sign follows a time of day: 2024-06-300 is not valid. A time in
    an hour that a zone repeats is in the first of the two hours.

    Args:
        by_wall_clock: keep the date and time as written, and ignore a valid zone, as Spark does for timestamp_ntz.
    """
    match = _TIMESTAMP.match(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if zone and hour is None and zone[0] in "+-":
        return None
    try:
        moment = dt.date(int(year), int(month), int(day or 1))
        clock = dt.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    offset = _offset(zone, dt.datetime.combine(moment, clock)) if zone else 0
    if offset is None:
        return None
    offset = 0 if by_wall_clock else offset
    seconds = (moment.toordinal() - 719_163) * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second - offset
    return seconds * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])


def _offset(zone: str, at: dt.datetime) -> int | None:
    """The offset of a zone at a time, in seconds east of UTC; None if the zone is not valid."""
    match = _OFFSET.match("UTC" if zone == "Z" else zone)
    if match is not None:
        sign, hours, minutes = match.groups()
        seconds = int(hours or 0) * 3600 + int(minutes or 0) * 60
        if int(minutes or 0) > 59 or seconds > _MOST_OFFSET:
            return None
        return -seconds if sign == "-" else seconds
    try:
        offset = ZoneInfo(zone).utcoffset(at)
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return None
    return round(offset.total_seconds()) if offset is not None else None
