"""Some of the tables that delta-spark wrote for `make interop`: both engines read the same rows as delta-spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from tests.interop.delta_spark.expected import (
    Version,
    Written,
    difference,
    names_and_types,
    rows_of,
    written,
)
from tests.peers import collected

TABLES = {table.name: table for table in written(Path(__file__).parent.parent / "data" / "delta_spark")}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_tables_of_delta_spark_exist() -> None:
    assert len(TABLES) > 25


def versions_to_read(table: Written, engine: Engine) -> list[Version]:
    """The versions to read: all on Arrow; on Spark, which is slower, the last version of each schema."""
    readable = [version for version in table.versions if version.rows is not None]
    return readable if engine.name == "arrow" else list({version.schema: version for version in readable}.values())


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_schema(name: str, engine: Engine) -> None:
    table = TABLES[name]
    for version in versions_to_read(table, engine):
        assert version.rows is not None
        spark_rows = rows_of(version.rows)
        our_table = DeltaTable(table.path, version=version.number)
        assert names_and_types(json.loads(our_table.schema().to_json())) == version.schema
        assert difference(collected(engine.read(our_table.snapshot, None, None)), spark_rows) == "", version
        assert our_table.count() == spark_rows.num_rows


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if any(v.refused for v in table.versions)])
def test_versions_that_delta_spark_refuses_are_refused(name: str) -> None:
    for version in TABLES[name].versions:
        if version.refused:
            with pytest.raises(DeltaError):
                DeltaTable(TABLES[name].path, version=version.number).to_pyarrow_table()


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.changes is not None])
def test_changes(name: str, engine: Engine) -> None:
    table = TABLES[name]
    assert table.changes is not None
    our_changes = collected(DeltaTable(table.path, engine=engine).load_cdf(starting_version=table.changes_from))
    # Without in-commit timestamps a commit's time is that of its file, which a checkout does not keep.
    assert difference(our_changes.drop(["_commit_timestamp"]), rows_of(table.changes).drop(["_commit_timestamp"])) == ""


def test_history_and_time_travel_by_the_times_in_commits() -> None:
    table = TABLES["in_commit_timestamps"]
    commits = {commit["version"]: commit for commit in DeltaTable(table.path).history()}
    for version in table.versions:
        commit = commits[version.number]
        assert (commit["timestamp"], commit["operation"]) == (version.timestamp, version.operation)
        moment = EPOCH + timedelta(milliseconds=version.timestamp or 0)
        assert DeltaTable(table.path, timestamp=moment).version() == version.number
