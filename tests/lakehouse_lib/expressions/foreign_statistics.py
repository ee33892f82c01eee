"""The statistics and partition values that several other writers write for a file with known rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st

from tests.lakehouse_lib.expressions.brute_force import (
    DAY,
    FLOATS,
    TIMES,
    Row,
    day_text,
    moment_text,
)

#: A logical path as in COLUMNS -> the names in the log.
Names = Callable[[str], tuple[str, ...]]

_CUT = 32


def statistics(physical: list[Row], names: Names, columns: dict[str, str]) -> st.SearchStrategy[str | None]:
    """The statistics that one of the writers writes for these columns; a deletion vector may hide some of the rows."""
    return st.one_of(
        _spark(physical, names, columns),
        _spark(physical, names, columns),
        _rust(physical, names, columns),
        st.sampled_from([None, "", "{}", "not json", '{"numRecords":1', "[]", '{"numRecords":null}']),
    )


@st.composite
def _spark(draw: st.DrawFn, physical: list[Row], names: Names, columns: dict[str, str]) -> str:
    tie_breakers = draw(st.sampled_from(["utf-16", "code point"]))
    zone = draw(st.sampled_from([0, -300, 330]))
    body: dict[str, Any] = {"numRecords": len(physical), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for path, kind in columns.items():
        non_nulls = [row[path] for row in physical if row[path] is not None]
        _put(body["nullCount"], names(path), len(physical) - len(non_nulls))
        if kind in ("boolean", "binary") or not non_nulls:
            continue
        low, high = _ends(kind, non_nulls)
        if kind == "string":
            _put(body["minValues"], names(path), low[:_CUT])
            cut = _cut_max(high, tie_breakers)
            if cut is not None:
                _put(body["maxValues"], names(path), cut)
            continue
        _put(body["minValues"], names(path), _json(low, kind, zone))
        _put(body["maxValues"], names(path), _json(high, kind, zone))
    return _dump(draw(_bent(body, physical)))


@st.composite
def _rust(draw: st.DrawFn, physical: list[Row], names: Names, columns: dict[str, str]) -> str:
    body: dict[str, Any] = {"numRecords": len(physical), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for path, kind in columns.items():
        non_nulls = [row[path] for row in physical if row[path] is not None]
        _put(body["nullCount"], names(path), len(physical) - len(non_nulls))
        numbers = [number for number in non_nulls if number == number]
        if kind == "binary" or not numbers:
            continue
        low, high = _ends(kind, numbers)
        for key, value in (("minValues", low), ("maxValues", high)):
            if isinstance(value, Decimal):
                _put(body[key], names(path), float(value))
            elif not isinstance(value, float) or math.isfinite(value):
                _put(body[key], names(path), _json(value, kind, 0, fine=True))
    return _dump(draw(_bent(body, physical)))


@st.composite
def _bent(draw: st.DrawFn, body: dict[str, Any], physical: list[Row]) -> dict[str, Any]:
    """The same statistics with less in them, wider, or with nonsense; a reader must accept all of these."""
    how = draw(st.sampled_from(["as it is", "as it is", "less", "wide", "nonsense"]))
    if how == "less":
        for key in draw(st.sets(st.sampled_from(sorted(body)))):
            del body[key]
    if how == "wide":
        body["tightBounds"] = False
        # Under a deletion vector, a null count is exact only if it is 0 or the number of rows.
        for inner, name, count in _members(body["nullCount"]):
            if 0 < count < len(physical):
                inner[name] = draw(st.integers(1, max(1, len(physical) - 1)))
    if how == "nonsense":
        key = draw(st.sampled_from(["minValues", "maxValues", "nullCount"]))
        members = list(_members(body[key]))
        for inner, name, _ in draw(st.lists(st.sampled_from(members), max_size=4)) if members else []:
            inner[name] = draw(st.sampled_from([None, [], {}, "x", "NaN", [1], {"a": 1}, 10**400, "2020-13-45"]))
            if key == "nullCount" and isinstance(inner[name], int):
                inner[name] = "1"
    return body


def _ends(kind: str, values: list[Any]) -> tuple[Any, Any]:
    if kind in FLOATS:
        order: Callable[[Any], Any] = lambda value: (value != value, value if value == value else 0.0)  # noqa: E731
    elif kind == "string":
        order = lambda value: value.encode()  # noqa: E731
    else:
        order = lambda value: value  # noqa: E731
    return min(values, key=order), max(values, key=order)


def _cut_max(text: str, tie_breakers: str) -> str | None:
    if len(text) <= _CUT:
        return text
    if tie_breakers == "utf-16":
        # Until 2024 delta-spark compared UTF-16 units, with U+FFFD as an upper bound.
        units = text.encode("utf-16-be")
        end = 2 * _CUT
        while end < len(units) and int.from_bytes(units[end : end + 2], "big") >= 0xFFFD:
            end += 2
        if end >= len(units):
            return text
        # A surrogate pair cut in two is not text.
        prefix = units[:end].decode("utf-16-be", "replace")
        return None if prefix.encode("utf-16-be") != units[:end] else prefix + "\ufffd"
    for end in range(_CUT, min(len(text), 2 * _CUT)):
        if text[end] < "\x7f":
            return text[:end] + "\x7f"
        if text[end] < "\U0010ffff":
            return text[:end] + "\U0010ffff"
    return text if len(text) <= 2 * _CUT else None


def _json(value: Any, kind: str, zone: int, *, fine: bool = False) -> Any:
    if kind in FLOATS:
        return value if math.isfinite(value) else str(value).replace("nan", "NaN").replace("inf", "Infinity")
    if kind == "date":
        return day_text(value)
    if kind in TIMES:
        if fine:
            return moment_text(value).replace(" ", "T") + "Z" * (kind == "timestamp")
        if kind == "timestamp_ntz" or abs(value) > 50_000_000_000_000_000:
            return moment_text(value).replace(" ", "T")[:-3] + "Z" * (kind == "timestamp")
        sign = "-" if zone < 0 else "+"
        local = moment_text(value + zone * 60_000_000).replace(" ", "T")[:-3]
        return f"{local}{sign}{abs(zone) // 60:02}:{abs(zone) % 60:02}" if zone else f"{local}Z"
    return value


def _dump(body: dict[str, Any]) -> str:
    marks: dict[str, str] = {}

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(member) for key, member in value.items()}
        if isinstance(value, Decimal):
            mark = f"@@{len(marks)}@@"
            marks[f'"{mark}"'] = f"{value:f}"
            return mark
        return value

    text = json.dumps(shown(body), ensure_ascii=False)
    for mark, exact in marks.items():
        text = text.replace(mark, exact)
    return text


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _members(tree: dict[str, Any]) -> list[tuple[dict[str, Any], str, Any]]:
    members = []
    for name, value in tree.items():
        members += _members(value) if isinstance(value, dict) else [(tree, name, value)]
    return members


def partition_text(value: Any, kind: str) -> st.SearchStrategy[str | None]:
    """The texts of a partition value in the log. The empty string is null."""
    if value is None:
        return st.sampled_from([None, ""])
    if kind in FLOATS:
        return st.just(repr(value).replace("nan", "NaN").replace("inf", "Infinity"))
    if kind == "boolean":
        return st.just(str(value).lower())
    if kind == "date":
        return st.just(day_text(value))
    if kind == "binary":
        return st.just("".join(f"\\u00{byte:02X}" for byte in value))
    if kind in TIMES:
        text = moment_text(value)
        if kind == "timestamp_ntz":
            return st.just(text) if value % DAY else st.sampled_from([text, text[:19]])
        return st.sampled_from([text, text.replace(" ", "T") + "Z"])
    return st.just(f"{value:f}" if isinstance(value, Decimal) else str(value))
