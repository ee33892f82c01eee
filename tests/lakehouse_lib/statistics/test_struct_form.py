"""The JSON text of statistics that are stored as structs."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakehouse_lib.statistics import stats_json

DAY = 86_400
FIRST, BEHIND = -719_162 * DAY, 2_932_897 * DAY  # the years 1 to 9999, seconds since the epoch


def shown(values: pa.Array) -> list[object]:
    """The JSON values of these bounds, each the bound of a file."""
    structs = pa.StructArray.from_arrays([pa.StructArray.from_arrays([values], ["x"])], ["minValues"])
    stats = stats_json(pa.chunked_array([pa.nulls(len(values), pa.string())]), pa.chunked_array([structs]))
    return [json.loads(text)["minValues"].get("x") for text in stats.to_pylist()]


@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 10**3), ("us", 10**6)])
@pytest.mark.parametrize(("zone", "end"), [(None, ""), ("UTC", "Z"), ("America/Los_Angeles", "Z"), ("+14:00", "Z")])
def test_moments_of_years_that_python_has(unit: str, ticks: int, zone: str | None, end: str) -> None:
    moments = [FIRST * ticks - 1, FIRST * ticks, 0, (BEHIND - 1) * ticks, BEHIND * ticks, 2**63 - 1, -(2**63), None]
    assert shown(pa.array(moments, pa.timestamp(unit, zone))) == [
        None,
        f"0001-01-01T00:00:00.000000{end}",
        f"1970-01-01T00:00:00.000000{end}",
        f"9999-12-31T23:59:59.000000{end}",
        None,
        None,
        None,
        None,
    ]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    assert shown(pa.array([1_999], pa.timestamp("ns"))) == ["1970-01-01T00:00:00.000001"]


@pytest.mark.parametrize(("kind", "ticks"), [(pa.date32(), 1), (pa.date64(), DAY * 1_000)])
def test_days_of_years_that_python_has(kind: pa.DataType, ticks: int) -> None:
    first, behind = FIRST // DAY, BEHIND // DAY
    days = pa.array([ticks * day for day in (first - 1, first, behind - 1, behind)], kind)
    assert shown(days) == [None, "0001-01-01", "9999-12-31", None]


def test_values_without_statistics_are_left_out() -> None:
    assert shown(pa.array([2**62, None], pa.duration("s"))) == [None, None]
    assert stats_json(pa.chunked_array([["s", None]]), pa.chunked_array([["a", "b"]])).to_pylist() == ["s", None]
