"""No file with a match is pruned, and rows equal those of plain Python, for every type and many writers' statistics."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lakehouse_lib.data_skipping import evaluate_partitions, may_match
from lakehouse_lib.expressions import matches, parse
from lakehouse_lib.schema import Field, Schema, StructType, TableLayout
from tests.lakehouse_lib.expressions.brute_force import COLUMNS, PATHS, Condition, Row, conditions, rows, some_columns
from tests.lakehouse_lib.expressions.foreign_statistics import partition_text, statistics
from tests.table_builder import files_with

#: Rows and conditions need many draws of Hypothesis.
large = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
)


def _field(name: str, kind: Any) -> Field:
    # A physical name is the logical name of another column, which must not be confused.
    return Field(
        name, kind, metadata={"delta.columnMapping.physicalName": f"col-{name}" if name != "long_" else "short_"}
    )


SCHEMA = Schema(
    [
        *(_field(path, kind) for kind, path in PATHS.items()),
        _field(
            "odd name",
            StructType(
                [
                    _field("inner", "long"),
                    _field("deep", StructType([_field("word", "string")])),
                    _field("at", "timestamp"),
                ]
            ),
        ),
    ]
)


def logical(path: str) -> tuple[str, ...]:
    return tuple(path.replace("`", "").split("."))


def physical(path: str) -> tuple[str, ...]:
    return tuple("short_" if name == "long_" else f"col-{name}" for name in logical(path))


def column(values: list[Any], kind: str) -> pa.Array:
    arrow = SCHEMA.field(PATHS[kind]).type.to_arrow()
    if kind == "date":
        return pa.array(values, pa.int32()).cast(arrow)
    if kind.startswith("timestamp"):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us")).cast(arrow)
    return pa.array(values, arrow)


def table_of(table_rows: list[Row]) -> pa.Table:
    def of(path: str) -> pa.Array:
        return column([row[path] for row in table_rows], COLUMNS[path])

    deep = pa.StructArray.from_arrays([of("`odd name`.deep.word")], ["word"])
    odd = pa.StructArray.from_arrays([of("`odd name`.inner"), deep, of("`odd name`.at")], ["inner", "deep", "at"])
    return pa.Table.from_arrays([*(of(path) for path in PATHS.values()), odd], schema=SCHEMA.to_arrow())


def _in_log(value: Any) -> Any:
    """The value as a partition value, for which the empty string is null."""
    return None if value in ("", b"") else value


@large
@given(data=st.data())
def test_a_file_with_a_match_is_kept(data: st.DataObject) -> None:
    columns = data.draw(some_columns(), "columns")
    partitions = data.draw(st.sets(st.sampled_from([path for path in columns if path in PATHS.values()] or [""])))
    partitions -= {""}
    mapping = data.draw(st.sampled_from(["none", "name", "id"]), "mapping")
    names = logical if mapping == "none" else physical
    file_rows: list[tuple[list[Row], list[Row]]] = []
    stats, values = [], []
    for _ in range(data.draw(st.integers(1, 3), "files")):
        stored = data.draw(rows(4, columns))
        pairs = []
        for path in sorted(partitions):
            value = _in_log(stored[0][path])
            for row in stored:
                row[path] = value
            if value is not None or data.draw(st.booleans()):
                pairs.append((names(path)[0], data.draw(partition_text(value, columns[path]))))
        live = data.draw(st.lists(st.sampled_from(stored), unique_by=id), "live") if len(stored) > 1 else stored
        measured = {path: kind for path, kind in columns.items() if path not in partitions}
        stats.append(data.draw(statistics(stored, names, measured), "stats"))
        values.append(pairs)
        file_rows.append((stored, live))
    every = [row for stored, _ in file_rows for row in stored]
    condition = data.draw(conditions(every, columns), "condition")

    predicate = parse(condition.sql, SCHEMA)
    decisions = may_match(predicate, files_with(stats, values), TableLayout(SCHEMA, tuple(sorted(partitions)), mapping))
    assert decisions.null_count == 0
    for (_, live), keep, said, keys in zip(file_rows, decisions.to_pylist(), stats, values, strict=True):
        assert keep or not any(condition.holds(row) is True for row in live), (said, keys)


@large
@given(data=st.data())
def test_rows_are_true_false_or_null_as_in_sql(data: st.DataObject) -> None:
    columns = data.draw(some_columns(), "columns")
    table_rows = data.draw(rows(6, columns), "rows")
    condition = data.draw(conditions(table_rows, columns), "condition")
    expected = [condition.holds(row) for row in table_rows]
    table = table_of(table_rows)
    predicate = parse(condition.sql, SCHEMA)
    assert matches(predicate, table).to_pylist() == expected


@pytest.mark.slow
@large
@given(data=st.data())
def test_partition_values_decide_exactly(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(PATHS)), min_size=1, max_size=3, unique=True))
    columns = {PATHS[kind]: kind for kind in kinds}
    mapping = data.draw(st.sampled_from(["none", "name"]))
    names = logical if mapping == "none" else physical
    table_rows = [{path: _in_log(row[path]) for path in columns} for row in data.draw(rows(5, columns))]
    values = [
        [(names(path)[0], data.draw(partition_text(row[path], kind))) for path, kind in columns.items()]
        for row in table_rows
    ]
    condition: Condition = data.draw(conditions(table_rows, columns), "condition")
    files = files_with([None] * len(table_rows), values)
    predicate = parse(condition.sql, SCHEMA)
    expected = [condition.holds(row) for row in table_rows]
    layout = TableLayout(SCHEMA, tuple(columns), mapping)
    assert evaluate_partitions(predicate, files, layout).to_pylist() == expected
    assert may_match(predicate, files, layout).to_pylist() == [truth is True for truth in expected]


@pytest.mark.parametrize("kind", sorted(PATHS))
def test_an_unknown_bound_keeps_the_file(kind: str) -> None:
    path = PATHS[kind]
    files = files_with([None, "{}", '{"numRecords":5}'], [[], [], []])
    for sql in (f"{path} IS NULL", f"{path} IS NOT NULL", f"NOT ({path} IS NULL)"):
        assert may_match(parse(sql, SCHEMA), files, TableLayout(SCHEMA)).to_pylist() == [True] * 3
