"""Typed keys: compared as sets, stored as JSON, and rendered as a condition with the same meaning in another engine."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from lakehouse_lib.privacy.keys import ColumnKeys, PersonKeys, RecordLines
from lakehouse_lib.schema import Field, PrimitiveType


def longs(*values: int | str, column: str = "k") -> ColumnKeys:
    return ColumnKeys.of(Field(column, PrimitiveType("long")), values)


def lines(*runs: tuple[int, int], file: str = "f", source: str = "s") -> RecordLines:
    return RecordLines(source, file, runs)


def keys(*parts: ColumnKeys | RecordLines) -> PersonKeys:
    columns = tuple(part for part in parts if isinstance(part, ColumnKeys))
    return PersonKeys(columns, tuple(part for part in parts if isinstance(part, RecordLines)))


@pytest.mark.parametrize(
    ("older_keys", "newer_keys", "covers"),
    [
        (keys(), keys(), True),
        (keys(longs(1)), keys(), True),
        (keys(), keys(longs()), True),
        (keys(), keys(longs(1)), False),
        (keys(longs(1, 2)), keys(longs(2)), True),
        (keys(longs(2)), keys(longs(1, 2)), False),
        (keys(longs(1), longs(2)), keys(longs(1, 2)), True),
        (keys(longs(1, column="K")), keys(longs(1)), True),
        (keys(longs(1, column="other")), keys(longs(1)), False),
        (keys(ColumnKeys("k", "string", ("1",))), keys(longs(1)), False),
        (keys(lines((2, 9))), keys(lines((3, 4), (9, 9))), True),
        (keys(lines((2, 9))), keys(lines((9, 10))), False),
        (keys(lines((2, 9))), keys(lines((1, 1))), False),
        (keys(lines((2, 4)), lines((5, 9))), keys(lines((3, 8))), True),
        (keys(lines((2, 9), (3, 4))), keys(lines((5, 6))), True),
        (keys(lines((2, 4)), lines((6, 9))), keys(lines((3, 8))), False),
        (keys(lines((2, 9))), keys(lines((2, 9), file="g")), False),
        (keys(lines((2, 9))), keys(lines((2, 9), source="t")), False),
        (keys(lines((1, 10**9))), keys(lines((7, 10**8))), True),
    ],
)
def test_keys_cover_other_keys(older_keys: PersonKeys, newer_keys: PersonKeys, covers: bool) -> None:
    assert older_keys.covers(newer_keys) is covers


@pytest.mark.parametrize(
    "person",
    [
        keys(),
        keys(longs()),
        keys(longs(2)),
        keys(longs(2, "3", "x", 2**70)),
        keys(ColumnKeys("a `b\"'", "string", ("it's", "", "1"))),
        keys(ColumnKeys("d", "decimal(10,0)", (1, 2)), lines((2, 3), (30, 60), (70, 70), file="o'f", source='"')),
    ],
)
def test_json_and_back_is_the_same(person: PersonKeys) -> None:
    again = PersonKeys.from_dict(json.loads(json.dumps(person.to_dict())))
    assert again == person
    assert again.sql() == person.sql()


@pytest.mark.parametrize(
    ("person", "expected"),
    [
        (keys(), []),
        (keys(longs(2, 5)), [2, 5]),
        (keys(longs(2), lines((1, 1), (4, 30))), [1, 2, *range(4, 31)]),
        (keys(lines((1, 3), file="o'f")), []),
    ],
)
def test_the_condition_is_true_for_exactly_the_keys(person: PersonKeys, expected: list[Any]) -> None:
    table = "select n as k, 's' as _source, 'f' as _file, n as _line from range(40) as t(n)"
    matches = duckdb.sql(
        f"select k from ({table}) where {person.sql().replace('`', chr(34)).replace(chr(92), chr(39))}"
    )
    assert sorted(row[0] for row in matches.fetchall()) == expected
