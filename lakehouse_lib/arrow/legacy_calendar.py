"""Conversion of dates and times before 1582-10-15 from the hybrid calendar (Julian before that day, Gregorian after).

Spark up to 2.4 wrote files with the hybrid calendar, and Spark 3.0 still wrote INT96 timestamps with it. Later versions
do this if ``LEGACY`` is configured (``spark.sql.parquet.datetimeRebaseModeInWrite``, for INT96 timestamps
``int96RebaseModeInWrite``). The footer of a file shows which calendar the file uses. The same number means different
days in the two calendars: day -354280 is 1000-01-01 in a file with the hybrid calendar, and 1000-01-06 in the proleptic
Gregorian calendar, which Delta, Arrow and Spark 3 use.

Times of day differ, too. Before 1900, zones had local mean times, which Java's old time classes do not know. So in a
zone other than UTC, every time before 1900 in such a file may be off by some minutes, depending on the zone. Such times
are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.errors import UnsupportedFeatureError

_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"
_UTC = {"UTC", "Etc/UTC", "GMT", "Z", "Zulu", "UCT", "Etc/GMT", "+00:00"}

_FIRST_GREGORIAN = -141427  # 1582-10-15, in days since 1970
_YEAR_1900 = -25567
_JULIAN_DAY_1970 = 2440588
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True)
class HybridCalendar:
    """The use of the hybrid calendar in one file.

    Attributes:
        datetimes: whether dates, and timestamps with a zone that are stored as integers, use it.
        int96: whether timestamps that are stored as INT96 use it.
        zone: the time zone of the writer's clock; None: the file does not have it.
    """

    datetimes: bool
    int96: bool
    zone: str | None

    @classmethod
    def of(cls, footer: Mapping[bytes, bytes] | None) -> HybridCalendar | None:
        """The calendar of a Parquet file by its key-value metadata; None: proleptic Gregorian."""
        if not footer or _VERSION not in footer:
            return None
        version = _numbers(footer[_VERSION])
        datetimes = version < (3, 0) or b"org.apache.spark.legacyDateTime" in footer
        int96 = version < (3, 1) or b"org.apache.spark.legacyINT96" in footer
        zone = footer.get(_ZONE, b"").decode("utf-8", "replace") or None
        return cls(datetimes, int96, zone) if datetimes or int96 else None

    def rebased(self, column: pa.ChunkedArray, physical: Sequence[str]) -> pa.ChunkedArray:
        """The column in the proleptic Gregorian calendar.

        Args:
            column: as Arrow reads it from the file, INT96 as microseconds.
            physical: the physical type of each of its leaves.

        Raises:
            UnsupportedFeatureError: the column has a time before 1900, in a zone other than UTC or in a file that does
                not name its zone.
        """
        if not any(pa.types.is_temporal(leaf) for leaf in _leaves(column.type)):
            return column
        chunks = [self._rebased(chunk, iter(physical)) for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type)

    def may_change(self, kind: pa.DataType, physical: Sequence[str]) -> bool:
        """Whether a column of this type, whose leaves have these physical types, may need conversion."""
        return any(self._needs_conversion(leaf, stored) for leaf, stored in zip(_leaves(kind), physical, strict=False))

    def _needs_conversion(self, leaf: pa.DataType, stored: str) -> bool:
        if pa.types.is_timestamp(leaf):
            # Spark always writes timestamps without a zone in the Gregorian calendar, whatever calendar its dates use.
            return self.int96 if stored == "INT96" else self.datetimes and leaf.tz is not None
        return self.datetimes and pa.types.is_date32(leaf)

    def _rebased(self, array: pa.Array, physical: Iterator[str]) -> pa.Array:
        kind = array.type
        if not kind.num_fields:
            if not self._needs_conversion(kind, next(physical)):
                return array
            if pa.types.is_timestamp(kind):
                return self._rebased_timestamps(array)
            return _with_values(array, _gregorian_days(numbers_of(array, np.int32)))
        if pa.types.is_struct(kind):
            children = [self._rebased(array.field(index), physical) for index in range(kind.num_fields)]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
        if pa.types.is_map(kind):
            keys, items = self._rebased(array.keys, physical), self._rebased(array.items, physical)
            inner = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        else:
            inner = self._rebased(array.values, physical)
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inner]
        )

    def _rebased_timestamps(self, array: pa.Array) -> pa.Array:
        per_day = _PER_DAY[array.type.unit]
        values = numbers_of(array, np.int64)
        days, time_of_day = np.divmod(values, per_day)
        if self.zone not in _UTC:
            if pc.any(pc.and_(pa.array(days < _YEAR_1900), array.is_valid()), min_count=0).as_py():
                zone = f"the zone {self.zone}" if self.zone else "an unknown zone (the file names none)"
                raise UnsupportedFeatureError(
                    f"the file has times before 1900 in {zone}, written with the calendar that Spark used before "
                    "version 3; expected UTC, because the local mean times of other zones are not supported",
                    hint="Rewrite the file's rows with Spark, which converts them to the Gregorian calendar",
                )
            return array
        return _with_values(array, _gregorian_days(days) * per_day + time_of_day)


def _gregorian_days(days: np.ndarray) -> np.ndarray:
    """Convert days since 1970 in the hybrid calendar to days of the same dates in the proleptic Gregorian calendar."""
    early = days < _FIRST_GREGORIAN
    if not early.any():
        return days
    julian = days[early].astype(np.int64) + _JULIAN_DAY_1970
    # Convert the Julian day number to a Julian date, and the same date of the Gregorian calendar to its day number
    # (Richards, Explanatory Supplement to the Astronomical Almanac, chapter 15). A 29 February that the Gregorian
    # calendar lacks becomes 1 March.
    shifted = julian + 32082
    year = (4 * shifted + 3) // 1461
    in_year = shifted - 1461 * year // 4
    month = (5 * in_year + 2) // 153  # from March
    day = in_year - (153 * month + 2) // 5 + 1
    number = day + (153 * month + 2) // 5 + 365 * year + year // 4 - year // 100 + year // 400 - 32045
    result = days.copy()
    result[early] = number - _JULIAN_DAY_1970
    return result


def _numbers(version: bytes) -> tuple[int, ...]:
    """The numbers of a version: (3, 5, 1) of ``3.5.1-amzn``; text that is not a version counts as a new version."""
    numbers = []
    for part in version.split(b"-")[0].split(b"."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers) or (99,)


def _with_values(array: pa.Array, values: np.ndarray) -> pa.Array:
    mask = array.is_null().to_numpy(zero_copy_only=False)
    plain = np.ascontiguousarray(values)
    rebuilt = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(plain)])
    return pc.if_else(pa.array(mask), pa.scalar(None, array.type), rebuilt) if array.null_count else rebuilt


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if not kind.num_fields:
        yield kind
    for index in range(kind.num_fields):
        yield from _leaves(kind.field(index).type)
