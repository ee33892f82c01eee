"""Every version of every table that ``write.py`` wrote: both engines read what delta-spark read.

`make interop` runs it, not `make test`, because it needs delta-spark. A difference fails. A table with a feature that
is not supported has to be refused with the feature's name. The matrix shows these, and what DuckDB reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, PathOutsideTableError, UnsupportedFeatureError
from lakehouse_lib.features import FEATURES
from tests.interop.delta_spark.expected import (
    Version,
    Written,
    difference,
    names_and_types,
    rows_of,
    written,
)
from tests.interop.delta_spark.scripts import scripts
from tests.peers import collected, read_duckdb

FOLDER = Path(".peers/delta-spark-tables").resolve()
TABLES = {table.name: table for table in written(FOLDER)}
SCRIPTS = scripts()
NAMES = list(SCRIPTS)
#: Tables whose files are in another table's folder, which a reader must be allowed to read.
CLONES = {name for name, steps in SCRIPTS.items() if any("SHALLOW CLONE" in step for step in steps)}

Outcomes = dict[str, dict[str, str]]
Filter = tuple[str, str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_every_script_was_written() -> None:
    assert sorted(TABLES) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_schema(name: str, engine: Engine, outcomes: Outcomes) -> None:
    table = TABLES[name]
    outcomes[name]["versions"] = str(len(table.versions))
    wrong, refused = compared(table.versions, lambda version: version_as_spark_read_it(table, version, engine))
    outcomes[name][engine.name] = summary(len(table.versions), wrong, refused)
    assert wrong == []


@pytest.mark.parametrize("name", sorted(CLONES))
def test_a_clone_is_refused_unless_allowed_roots_include_its_source(name: str, engine: Engine) -> None:
    with pytest.raises(PathOutsideTableError, match="allowed_roots"):
        rows(DeltaTable(TABLES[name].path), engine)


@pytest.mark.parametrize("name", NAMES)
def test_conditions(name: str, outcomes: Outcomes) -> None:
    """Pruning by delta-spark's statistics and partition values loses no row."""
    table = TABLES[name]
    version = table.versions[-1]
    assert version.rows is not None
    spark_rows = rows_of(version.rows)

    masks = dict(conditions(spark_rows))

    def compare(condition: Filter) -> str:
        return difference(opened(table).to_pyarrow_table(filters=[condition]), spark_rows.filter(masks[condition]))

    wrong, refused = compared(masks, compare)
    outcomes[name]["conditions"] = summary(len(masks), wrong, refused)
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_history_and_time_travel(name: str) -> None:
    table = TABLES[name]
    versions = [version for version in table.versions if version.timestamp is not None]
    try:
        commits = {commit["version"]: commit for commit in opened(table).history()}
    except UnsupportedFeatureError:
        return
    for version in versions:
        commit = commits[version.number]
        assert (commit["timestamp"], commit["operation"]) == (version.timestamp, version.operation), version.number
        moment = EPOCH + timedelta(milliseconds=version.timestamp or 0)
        assert opened(table, timestamp=moment).version() == version.number


@pytest.mark.parametrize("name", [name for name in NAMES if name in TABLES and TABLES[name].changes is not None])
def test_changes(name: str, engine: Engine, outcomes: Outcomes) -> None:
    table = TABLES[name]
    assert table.changes is not None
    assert table.changes_from is not None
    spark_changes = rows_of(table.changes)
    spans = [(table.changes_from, table.versions[-1].number)]
    spans += [(version, version) for version in range(table.changes_from, table.versions[-1].number + 1)]

    def compare(span: tuple[int, int]) -> str:
        first, last = span
        our_changes = changes(table, engine, first, last)
        expected_changes = spark_changes.filter(
            (pc.field("_commit_version") >= first) & (pc.field("_commit_version") <= last)
        )
        # delta-spark was asked once, with the latest schema. An earlier range does not have later columns.
        return difference(
            our_changes, expected_changes if span == spans[0] else expected_changes.select(our_changes.column_names)
        )

    wrong, refused = compared(spans, compare)
    outcome = summary(len(spans), wrong, refused)
    before = outcomes[name].get("changes")
    outcomes[name]["changes"] = outcome if before in (None, outcome) else f"{before} / {outcome}"
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_the_reader_of_duckdb_is_compared(name: str, outcomes: Outcomes) -> None:
    """DuckDB's reader (delta-kernel-rs) fails no test; the matrix shows where it differs."""
    table = TABLES[name]
    readable = [version for version in table.versions if version.rows is not None]
    differing: list[int] = []
    unread: list[int] = []
    for version in readable:
        try:
            duckdb_rows = read_duckdb(table.path, version.number)
        except duckdb.Error:
            unread.append(version.number)
            continue
        if difference(duckdb_rows, rows_of(version.rows)):
            differing.append(version.number)
    same = len(readable) - len(differing) - len(unread)
    parts = [f"{same} same"] if same else []
    parts += [f"{len(unread)} not read"] if unread else []
    parts += [f"{len(differing)} differ"] if differing else []
    outcomes[name]["duckdb"] = ", ".join(parts)


# --- comparisons


def compared(cases: Iterable[Any], compare: Callable[[Any], str]) -> tuple[list[str], list[str]]:
    """The differences, and the features whose versions are refused."""
    wrong: list[str] = []
    refused: list[str] = []
    for case in cases:
        label = case.number if isinstance(case, Version) else case
        try:
            problem = compare(case)
        except UnsupportedFeatureError as error:
            named = [feature for feature in FEATURES if re.search(rf"\b{feature}\b", str(error))]
            refused += [", ".join(named)] if named else []
            wrong += [] if named else [f"{label}: refused without a feature's name: {error}"]
            continue
        except Exception as error:
            wrong.append(f"{label}: {type(error).__name__}: {str(error)[:500]}")
            continue
        if problem:
            wrong.append(f"{label}: {problem}")
    return wrong, refused


def summary(total: int, wrong: list[str], refused: list[str]) -> str:
    same = total - len(wrong) - len(refused)
    parts = [f"{same} same"] if same else []
    parts += [f"{len(refused)} refused: {', '.join(sorted(set(refused)))}"] if refused else []
    parts += [f"{len(wrong)} WRONG"] if wrong else []
    return ", ".join(parts)


def version_as_spark_read_it(table: Written, version: Version, engine: Engine) -> str:
    if version.rows is None:
        return refusal(table, version, engine)
    our_table = opened(table, version=version.number)
    spark_rows = rows_of(version.rows)
    schema = names_and_types(json.loads(our_table.schema().to_json()))
    if schema != version.schema:
        return f"schema {schema}, not {version.schema}"
    if our_table.count() != spark_rows.num_rows:
        return f"counted {our_table.count()} rows, not {spark_rows.num_rows}"
    return difference(rows(our_table, engine), spark_rows)


def opened(table: Written, **how: Any) -> DeltaTable:
    options = {"allowed_roots": str(FOLDER / "tables")} if table.name in CLONES else None
    return DeltaTable(table.path, storage_options=options, **how)


def refusal(table: Written, version: Version, engine: Engine) -> str:
    """Check that a version that delta-spark cannot read is an error here, or Spark's own error when rows are read."""
    try:
        read = rows(opened(table, version=version.number), engine)
    except DeltaError:
        return ""
    except (PySparkException, Py4JJavaError) as error:
        return "" if "FAILED_READ_FILE.FILE_NOT_EXIST" in str(error) else f"{error}, not {version.refused}"
    return f"{read.num_rows} rows, where delta-spark says: {version.refused}"


def rows(table: DeltaTable, engine: Engine) -> pa.Table:
    return collected(engine.read(table.snapshot, None, None))


def changes(table: Written, engine: Engine, first: int, last: int) -> pa.Table:
    return collected(opened(table, engine=engine).load_cdf(starting_version=first, ending_version=last))


def conditions(spark_rows: pa.Table) -> Iterator[tuple[Filter, pa.Array]]:
    """Conditions on each column that is not nested, each with the mask of the rows for which it is true."""
    for name in spark_rows.column_names:
        column = spark_rows[name]
        if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            continue
        yield (name, "=", None), column.is_null()
        floats = pa.types.is_floating(column.type)
        # In Spark, NaN equals itself and is the largest number; in Arrow neither is true.
        comparable = column.filter(pc.invert(pc.is_nan(column))) if floats else column.drop_null()
        values = sorted(set(comparable.to_pylist()))
        for value in {values[0], values[len(values) // 2], values[-1]} if values else ():
            scalar = pa.scalar(value, column.type)
            yield (name, "=", value), pc.equal(column, scalar)
            if not floats:
                yield (name, "<=", value), pc.less_equal(column, scalar)
                yield (name, ">", value), pc.greater(column, scalar)
