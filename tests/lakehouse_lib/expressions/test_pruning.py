"""Pruning never drops a file with a match, compared by brute force over the rows."""

from __future__ import annotations

import json
import math
import time

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from lakehouse_lib.data_skipping import evaluate_partitions, may_match
from lakehouse_lib.data_skipping.file_pruning import decide, needs
from lakehouse_lib.data_skipping.file_values import FileValues
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import from_filters, matches, parse
from lakehouse_lib.protocol.partition_values import to_strings
from lakehouse_lib.schema import ArrayType, Field, MapType, Schema, TableLayout
from lakehouse_lib.statistics import Bounds, float_ranges, from_footer, indexed_columns
from tests.lakehouse_lib.expressions.predicate_cases import NAMES, SCHEMA, VALUES, conditions, rows
from tests.table_builder import files_with

EVERYTHING = indexed_columns(TableLayout(SCHEMA), {})


def stats_of(table: pa.Table, row_group_size: int, nan_known: bool) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_group_size)
    meta = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata
    return from_footer(meta, SCHEMA, indexed=EVERYTHING, floats=float_ranges(table) if nan_known else None)


@st.composite
def statistics_as_others_write_them(draw, text: str) -> str | None:
    """The same statistics with less in them, or wider; all of them are legal."""
    how = draw(st.integers(0, 5))
    body = json.loads(text, parse_float=str, parse_int=int)
    if how <= 1:
        return text
    if how == 2:
        return draw(st.sampled_from([None, "", "{}", "not json", '{"numRecords":1']))
    if how == 3:
        for key in draw(st.sets(st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount"]))):
            del body[key]
    if how == 4:
        body["tightBounds"] = False
        body["nullCount"] = {
            name: draw(st.integers(0, body["numRecords"])) for name in body["nullCount"] if name != "nested_"
        }
        # Bounds stay bounds; a count of nulls is exact only if it is 0 or all rows.
        for name, count in list(body["nullCount"].items()):
            if count in (0, body["numRecords"]):
                del body["nullCount"][name]
    text = json.dumps(body, ensure_ascii=False)
    for name in ("minValues", "maxValues"):
        for column, value in (body.get(name) or {}).items():
            if isinstance(value, str) and column.split("_")[0] in ("float", "double", "decimal"):
                text = text.replace(json.dumps(value), value)
    return text


@given(data=st.data(), sql=conditions())
def test_never_drops_a_match(data, sql):
    tables = data.draw(st.lists(rows(4), min_size=1, max_size=3))
    stats = [
        data.draw(
            statistics_as_others_write_them(stats_of(table, data.draw(st.integers(1, 4)), data.draw(st.booleans())))
        )
        for table in tables
    ]
    predicate = parse(sql, SCHEMA)
    decisions = may_match(predicate, files_with(stats), TableLayout(SCHEMA))
    assert decisions.null_count == 0
    for table, keep, text in zip(tables, decisions.to_pylist(), stats, strict=True):
        has_match = pc.any(matches(predicate, table)).as_py()
        assert keep or not has_match, text


@given(data=st.data(), table=rows(5))
def test_partition_values_decide_exactly(data, table):
    kinds = [kind for kind in VALUES if kind != "binary"]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True))
    names = [NAMES[kind] for kind in chosen]
    sql = data.draw(conditions(chosen))
    # A partition value of the empty string is null.
    columns = {name: to_strings(table.column(name), SCHEMA.field(name).type) for name in names}
    typed = table
    if "string_" in names:
        emptied = columns["string_"]
        typed = table.set_column(table.schema.get_field_index("string_"), "string_", emptied)
    values = [
        dict(zip(names, row, strict=True)) for row in zip(*(c.to_pylist() for c in columns.values()), strict=True)
    ]
    files = files_with([None] * table.num_rows, values)
    predicate = parse(sql, SCHEMA)
    assert predicate.partition_only(names)
    expected = matches(predicate, typed)
    assert evaluate_partitions(predicate, files, TableLayout(SCHEMA, tuple(names))).equals(expected)
    assert may_match(predicate, files, TableLayout(SCHEMA, tuple(names))).equals(pc.fill_null(expected, False))


def stat(low, high, nulls=0, count=10, name="x") -> str:
    return json.dumps(
        {"numRecords": count, "minValues": {name: low}, "maxValues": {name: high}, "nullCount": {name: nulls}}
    )


@pytest.mark.parametrize(
    ("kind", "low", "high", "misses", "hits"),
    [
        (
            "long",
            5,
            9,
            ["x = 4", "x > 9", "x < 5", "x IN (1, 4, 10)", "x <=> 4", "x IS NULL", "x BETWEEN 10 AND 12"],
            ["x = 5", "x >= 9", "x <= 5", "x IN (1, 7)", "x != 5", "x IS NOT NULL", "NOT (x = 5)", "x NOT IN (5)"],
        ),
        ("long", 5, 5, ["x != 5", "x NOT IN (5, 6)", "NOT (x = 5)", "x NOT IN (1, NULL)"], ["x = 5", "x IN (5)"]),
        ("string", "b", "d", ["x LIKE 'a%'", "x LIKE 'e%'", "x = 'a'"], ["x LIKE 'b%'", "x LIKE 'd_'", "x LIKE '%z'"]),
        ("string", "abc", "abz", ["x LIKE 'ac%'"], ["x LIKE 'ab%'", "x LIKE 'a%'", "x LIKE 'abq%'"]),
        (
            "double",
            1.0,
            2.0,
            ["x = 3", "x < 1", "x > 3 AND x < 5", "x BETWEEN 3 AND 5", "x IN (3)"],
            ["x > 3", "x != 1"],
        ),
        ("date", "2020-01-01", "2020-01-31", ["x = '2020-02-01'", "x < DATE '2020-01-01'"], ["x = '2020-01-31'"]),
        (
            "timestamp",
            "2020-01-01T00:00:00.000Z",
            "2020-01-01T00:00:00.123Z",
            ["x > '2020-01-01T00:00:00.125Z'"],
            ["x = '2020-01-01T00:00:00.123999Z'"],
        ),
        ("decimal(5,2)", 1.5, 2.25, ["x > 2.25", "x IN (1.4, 2.26)"], ["x = 2.25", "x IN (9.9, 1.5, 0)"]),
        ("decimal(20,2)", 1.0, 1.2345678901234568e16, ["x > 12345678901234600"], ["x = 12345678901234567.89"]),
    ],
)
def test_pruning_by_bounds(kind, low, high, misses, hits):
    schema = Schema([Field("x", kind)])
    files = files_with([stat(low, high)])
    for sql in misses:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [False], sql
    for sql in hits:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [True], sql


def test_only_nulls_match_nothing_but_null():
    schema = Schema([Field("x", "long")])
    files = files_with(['{"numRecords":3,"nullCount":{"x":3}}'])
    for sql, keep in [
        ("x > 1", False),
        ("x IS NULL", True),
        ("x IS NOT NULL", False),
        ("NOT (x > 1)", False),
        ("x IS DISTINCT FROM 1", True),
        ("x NOT IN (1)", False),
        ("x > 1 OR TRUE", True),
    ]:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [keep], sql


def test_a_count_of_nulls_inside_an_array_does_not_prune():
    # deltalake 0.20.2 counts entries that a file of empty arrays does not have.
    schema = Schema([Field("a", ArrayType("long", True)), Field("m", MapType("string", "long", True))])
    files = files_with(['{"numRecords":2,"nullCount":{"a":2,"m":2}}', '{"numRecords":2,"nullCount":{"a":0,"m":0}}'])
    for sql in ["a IS NOT NULL", "a IS NULL", "m IS NOT NULL", "m IS NULL"]:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [True, True], sql


def test_a_count_of_nulls_that_the_bounds_contradict_is_ignored():
    # deltalake 0.20.2 counts a map's keys and values under these names, also if the table has columns of these names.
    schema = Schema([Field("value", "long"), Field("attributes", MapType("string", "string", True))])
    bounds = '"minValues":{"value":5},"maxValues":{"value":6}'
    files = files_with([f'{{"numRecords":2,{bounds},"nullCount":{{"key":2,"value":2}}}}'])
    for sql, keep in [("value = 5", True), ("value IS NOT NULL", True), ("value = 7", False)]:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [keep], sql


def test_conditions_that_cannot_prune_keep_the_file():
    schema = Schema([Field("x", "long"), Field("y", "long"), Field("s", "string")])
    files = files_with([stat(5, 9)])
    for sql in ["x + 1 = 100", "x = y", "upper(s) = 'A'", "x % 2 = 5", "coalesce(y, 1) = 100", "y = 100"]:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == [True], sql
    assert may_match(parse("upper(s) = 'A' AND x = 1", schema), files, TableLayout(schema)).to_pylist() == [False]


def test_a_divisor_of_zero_in_a_partition_is_excluded_by_an_earlier_condition():
    schema = Schema([Field("p", "long"), Field("x", "long")])
    files = files_with([stat(5, 9)] * 3, [{"p": "0"}, {"p": "2"}, {"p": "50"}])
    layout = TableLayout(schema, ("p",))
    predicate = parse("p <> 0 AND x = 6 AND 100 / p > 10", schema)
    assert may_match(predicate, files, layout).to_pylist() == [False, True, False]
    assert may_match(parse("p = 0 OR x = 1 OR 100 / p > 10", schema), files, layout).to_pylist() == [True, True, False]
    with pytest.raises(InvalidPredicateError, match="divide by zero"):
        may_match(parse("100 / p > 10", schema), files, layout)


def test_partition_values_beyond_a_long_are_refused():
    schema = Schema([Field("p", "long"), Field("x", "long")])
    files = files_with([stat(5, 9)], [{"p": str((1 << 63) - 1)}])
    for decided in (may_match, evaluate_partitions):
        with pytest.raises(InvalidPredicateError, match=r"'p \+ 1 > 0' cannot be evaluated") as raised:
            decided(parse("p + 1 > 0", schema, table="/tables/orders"), files, TableLayout(schema, ("p",)))
        assert raised.value.table == "/tables/orders"


def test_a_table_without_files():
    schema = Schema([Field("x", "long"), Field("p", "long")])
    for sql in ["x = 1", "p = 1", "TRUE", "p = 1 AND x IN (1, 2)"]:
        assert may_match(parse(sql, schema), files_with([]), TableLayout(schema, ("p",))).to_pylist() == []


@pytest.mark.slow
def test_many_values_over_many_files_are_fast():
    schema = Schema([Field("x", "long")])
    files = files_with([stat(i * 10, i * 10 + 9) for i in range(100_000)])
    predicate = parse(f"x IN ({','.join(str(i * 1000) for i in range(10_000))})", schema)
    started = time.perf_counter()
    decisions = may_match(predicate, files, TableLayout(schema))
    assert time.perf_counter() - started < 5
    assert decisions.to_pylist() == [i % 100 == 0 for i in range(100_000)]


def test_split_separates_partition_conjuncts():
    schema = Schema([Field("x", "long"), Field("p", "string")])
    first, rest = parse("p = 'a' AND x > 1 AND p <> 'b'", schema).split(["p"])
    assert first is not None
    assert rest is not None
    assert (first.columns, rest.columns) == ({"p"}, {"x"})
    assert first.sql == "((`p` = 'a') AND (`p` != 'b'))"
    both = parse("p = 'a' OR x > 1", schema)
    assert both.split(["p"]) == (None, both)
    alone = parse("p = 'a'", schema)
    assert alone.split(["p"]) == (alone, None)


@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        ("x = '{0}\U0001f600'", True),
        ("x LIKE '{0}\U0001f600%'", True),
        ("x > '{0}\ufffd'", True),
        ("x = 'z'", False),
        ("x LIKE 'z%'", False),
        ("x LIKE 'x\U0010ffff%'", False),
        ("x LIKE 'y\U0010ffff%'", False),
    ],
)
def test_a_maximum_truncated_by_spark_until_2024_covers_its_values(condition, keep):
    # U+FFFD was used as the greatest character. It is the greatest UTF-16 unit, but not the greatest character.
    stem = "y" * 32
    files = files_with([stat(stem, stem + "\ufffd")])
    schema = Schema([Field("x", "string")])
    assert may_match(parse(condition.format(stem), schema), files, TableLayout(schema)).to_pylist() == [keep]


def test_bounds_of_a_float_that_was_widened_cover_its_doubles():
    # The float 0.1 is the double 0.10000000149011612, but files from before the type change have 0.1.
    files = files_with([stat(0.1, 0.1), stat(-0.1, -0.1)])
    widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    schema = Schema([Field("x", "double", metadata=widened)])
    for sql, keep in [
        ("x = 0.10000000149011612", [True, False]),
        ("x = CAST(0.1 AS FLOAT)", [True, False]),
        ("x = -0.10000000149011612", [False, True]),
        ("x < -0.1", [False, True]),
        ("x = 0.11", [False, False]),
    ]:
        assert may_match(parse(sql, schema), files, TableLayout(schema)).to_pylist() == keep, sql


@pytest.mark.parametrize("changes", [{}, {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}])
def test_infinite_bounds_hold_infinity_however_wide_the_column_is(changes):
    schema = Schema([Field("x", "double", metadata=changes)])
    infinite = pa.array([math.inf, -math.inf, -math.inf])
    high = pa.array([math.inf, -math.inf, math.inf])
    counts = [pa.array([0, 0, 0]), pa.array([1, 1, 2])]
    file_values = FileValues(3, {}, {("x",): Bounds(infinite, high, *counts)})
    for value, keep in [(math.inf, [True, False, True]), (-math.inf, [False, True, True]), (1.5, [False, False, True])]:
        predicate = from_filters([("x", "=", value)], schema)
        assert decide(predicate, file_values, TableLayout(schema)).to_pylist() == keep, value


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_mapped_columns_are_found_by_their_physical_names(mapping):
    def mapped(name, kind, physical):
        return Field(name, kind, metadata={"delta.columnMapping.physicalName": physical})

    # The columns were renamed to each other's old names.
    schema = Schema([mapped("a", "long", "b"), mapped("b", "long", "a"), mapped("p", "string", "q")])
    stats = json.dumps({"numRecords": 1, "minValues": {"a": 1, "b": 2}, "maxValues": {"a": 1, "b": 2}})
    files = files_with([stats], [{"q": "x", "p": "y"}])
    for sql, keep in [("a = 2", True), ("a = 1", False), ("b = 1", True), ("p = 'x'", True), ("p = 'y'", False)]:
        assert may_match(parse(sql, schema), files, TableLayout(schema, ("p",), mapping)).to_pylist() == [keep], sql
    columns = needs(
        parse("a = 1 AND p = 'x' AND upper(p) = 'X' AND a + b > 1", schema), TableLayout(schema, ("p",), mapping)
    )
    assert (set(columns.partitions), set(columns.bounds)) == ({"q"}, {("b",)})


@pytest.mark.parametrize(
    ("kind", "low", "high", "misses", "hits"),
    [
        (
            "timestamp",
            "2024-03-01T00:00:00.000Z",
            "2024-03-01T23:59:59.998Z",
            ["CAST(x AS DATE) = '2024-03-02'", "date(x) < DATE '2024-03-01'", "year(x) = 2023", "year(x) > 2024"],
            ["CAST(x AS DATE) = '2024-03-01'", "to_date(x) >= '2024-03-01'", "year(x) = 2024", "month(x) = 7"],
        ),
        (
            "integer",
            5,
            9,
            ["CAST(x AS BIGINT) = 4", "CAST(x AS DOUBLE) > 9.5", "coalesce(x, 7) = 4", "nvl(x, 1) > 9"],
            ["CAST(x AS BIGINT) = 5", "CAST(x AS STRING) = '1'", "coalesce(x, 7) = 7", "abs(x) = 1", "x % 2 = 5"],
        ),
        (
            "string",
            "b",
            "d",
            ["startswith(x, 'a')", "x LIKE ANY ('a%', 'e%')", "CASE WHEN x > 'x' THEN TRUE ELSE x < 'b' END"],
            ["startswith(x, 'b')", "x NOT LIKE ALL ('a%', 'b%')", "x ILIKE 'a%'", "x RLIKE '^a'", "upper(x) = 'A'"],
        ),
        ("boolean", None, None, [], ["x", "NOT x", "x IS TRUE", "x IS NOT FALSE", "x = TRUE"]),
    ],
)
def test_pruning_by_bounds_through_functions(kind, low, high, misses, hits):
    test_pruning_by_bounds(kind, low, high, misses, hits)


def test_a_million_files_cost_little_more_than_the_comparisons():
    count = 1_000_000
    low = np.arange(count) * 10
    zeros = pa.array(np.zeros(count, np.int64))
    bounds = {("x",): Bounds(pa.array(low), pa.array(low + 9), zeros, pa.array(np.full(count, 10)))}
    schema = Schema([Field("x", "long")])
    predicate = parse("x BETWEEN 5000000 AND 5000100 AND x IS NOT NULL", schema)
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        decisions = decide(predicate, FileValues(count, {}, bounds), TableLayout(schema))
        taken.append(time.perf_counter() - started)
    assert decisions.true_count == 11
    assert min(taken) < 1  # 5 ms on a quiet machine
