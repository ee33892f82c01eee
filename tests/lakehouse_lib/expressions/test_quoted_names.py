"""Column names in double quotes: columns where they cannot be text, text where no column has the name, else refused.

Columns with the name of a function that needs no parentheses are columns.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, InvalidPredicateError, write_deltalake
from lakehouse_lib.expressions import parse, to_spark_sql
from lakehouse_lib.schema import Field, Schema

ROWS = pa.table(
    {
        "a b": [1, 2, 3],
        "k": ["name", "x", "y"],
        "name": ["k", "n", None],
        "s": pa.array([{"x y": 1}, {"x y": 2}, {"x y": 3}]),
        "c`d": [1, 2, 3],
    }
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("t")
    write_deltalake(path, ROWS)
    return path


def rows_where(package_table: Any, sql: str) -> list[int]:
    return sorted(pa.table(package_table.scan(predicate=sql).read_all())["a b"].to_pylist())


@pytest.mark.parametrize(
    "sql",
    [
        '"a b" = 2',
        '"a b" IN (1, 2)',
        'NOT "a b" = 2',
        '"a b" BETWEEN 1 AND 2',
        '"a b" > -1 AND "k" = \'x\'',
        '2 < "a b"',
        '"a b" + 1 = 3',
        '"name" IS NULL',
        '"name" IS NOT NULL AND "name" = \'n\'',
        "\"name\" LIKE 'n%'",
        '"c`d" = 3',
    ],
)
def test_a_name_that_cannot_be_text_is_a_column(root: Path, sql: str) -> None:
    assert rows_where(DeltaTable(root), sql) == rows_where(deltalake.DeltaTable(root), sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('k = "x"', [2]),
        ('s."x y" = 2', [2]),
        ('k IN ("x", "y")', [2, 3]),
        ("k = '\"a b\"'", []),
        ("concat(\"x\", k) = 'xx'", [2]),
        ("k || '-' = \"x-\"", [2]),
    ],
)
def test_text_in_double_quotes_is_text_as_in_spark(root: Path, sql: str, expected: list[int]) -> None:
    assert rows_where(DeltaTable(root), sql) == expected


@pytest.mark.parametrize(
    "sql", ['k = "name"', '"k" = "name"', '"name" = k', "concat(\"name\", k) = 'x'", 'k IN ("name")']
)
def test_text_that_may_be_a_column_is_refused_in_every_verb(root: Path, sql: str) -> None:
    table = DeltaTable(root)
    for act in (
        lambda: table.scan(predicate=sql),
        lambda: table.delete(sql),
        lambda: table.update({"k": "'z'"}, predicate=sql),
    ):
        with pytest.raises(InvalidPredicateError, match=r"DELTA_AMBIGUOUS_COLUMN.*Write `(name|k)` for the column"):
            act()
    assert DeltaTable(root).version() == 0


@pytest.mark.parametrize(
    "sql",
    ['"nmae" IS NOT NULL', "\"nmae\" <> 'x'", "'x' <> \"nmae\"", "k = 'x' OR 'x' <> \"nmae\"", "\"nmae\" LIKE 'n%'"],
)
def test_a_misspelt_name_is_not_read_as_text(root: Path, sql: str) -> None:
    with pytest.raises(InvalidPredicateError, match="'nmae' does not exist"):
        DeltaTable(root).delete(sql)
    with pytest.raises(deltalake.exceptions.DeltaError, match="nmae"):
        deltalake.DeltaTable(root).delete(sql)


def test_names_in_double_quotes_do_not_depend_on_case(root: Path) -> None:
    assert rows_where(DeltaTable(root), '"NAME" IS NOT NULL AND "K" = \'x\'') == [2]


def test_updates_and_merges_name_columns_in_double_quotes(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"Product Id": [1, 2], "v": ["a", "b"]}))
    table = DeltaTable(tmp_path)
    table.update({'"Product Id"': '"Product Id" + 10'}, predicate='"Product Id" = 2')
    source = pa.table({"Product Id": [12, 13], "v": ["c", "d"]})
    merger = table.merge(source, 't."Product Id" = s."Product Id"', "s", "t")
    merger.when_matched_update({"v": 's."v"'}).when_not_matched_insert_all().execute()
    assert table.to_pyarrow_table().sort_by("Product Id").to_pylist() == [
        {"Product Id": 1, "v": "a"},
        {"Product Id": 12, "v": "c"},
        {"Product Id": 13, "v": "d"},
    ]


def test_a_column_with_the_name_of_a_function_is_a_column(tmp_path: Path) -> None:
    days = [dt.date(2020, 1, 1), dt.date(2021, 1, 1), dt.date(2100, 1, 1)]
    write_deltalake(tmp_path, pa.table({"current_date": days, "session_user": ["a", "b", "c"]}))
    table = DeltaTable(tmp_path)
    table.delete("Current_Date < '2020-06-01'")
    table.update({"session_user": "concat(session_user, '!')"}, predicate="current_date < current_date()")
    rows = table.to_pyarrow_table().sort_by("current_date").to_pylist()
    assert [row["session_user"] for row in rows] == ["b!", "c"]
    source = pa.table({"day": days[1:2], "name": ["d"]})
    merger = table.merge(source, "current_date = s.day", "s", "t")
    merger.when_matched_update({"session_user": "s.name"}).execute()
    rows = table.to_pyarrow_table().sort_by("current_date").to_pylist()
    assert [row["session_user"] for row in rows] == ["d", "c"]


def test_a_column_fetch_is_an_argument() -> None:
    schema = Schema([Field("fetch", "string")])
    assert to_spark_sql(parse("initcap(fetch) = 'A'", schema)) == "((INITCAP(`fetch`)) = 'A')"
