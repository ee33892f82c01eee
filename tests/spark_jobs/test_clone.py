"""The job that clones a table, and the command line that its operator writes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakehouse_lib
from lakehouse_airflow.operators.metadata.clone import LakehouseCloneOperator
from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import InvalidArgumentError, VersionNotFoundError
from spark_jobs import clone
from tests.spark_jobs.command_lines import command_line_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two versions, an hour apart: the id 0; the ids 0 and 1."""
    table = tmp_path / "t"
    for version in range(2):
        write_deltalake(table, pa.table({"id": [version]}), mode="append")
        os.utime(table / "_delta_log" / f"{version:020d}.json", (NOON + 3_600 * version,) * 2)
    return table


def prepared(table: Path, name: str, **arguments: Any) -> Any:
    target = str(table.parent / name)
    operator = LakehouseCloneOperator(task_id="c", table=str(table), target=target, **arguments)
    assert operator.opened_tables() == [str(table), target]
    return clone.prepare(clone.arguments().parse_args(command_line_of(operator, table.parent)))


@pytest.mark.parametrize(
    ("version", "ids"), [(None, [0, 1]), (0, [0]), ("1", [0, 1]), ("2026-01-31T12:30:00Z", [0])], ids=str
)
def test_a_deep_clone_has_the_rows_of_the_version(spark: Any, table: Path, version: Any, ids: list[int]) -> None:
    result = prepared(table, "copy", version=version)(spark)
    copy = str(table.parent / "copy")
    assert sorted(deltalake.DeltaTable(copy).to_pyarrow_table()["id"].to_pylist()) == ids
    assert (result["table"], result["source"], result["source_version"]) == (copy, str(table), len(ids) - 1)
    assert (result["read_version"], result["version"], result["metrics"]["numCopiedFiles"]) == (None, 0, len(ids))
    with pytest.raises(InvalidArgumentError, match="DELTA_TABLE_ALREADY_EXISTS"):
        prepared(table, "copy")(spark)


def test_a_shallow_clone_refers_to_the_files_of_the_table(spark: Any, table: Path) -> None:
    assert prepared(table, "copy", is_shallow=True)(spark)["metrics"]["numCopiedFiles"] == 0
    copy = lakehouse_lib.DeltaTable(table.parent / "copy", storage_options={"allowed_roots": str(table)})
    assert sorted(copy.to_pyarrow_table()["id"].to_pylist()) == [0, 1]
    assert not list((table.parent / "copy").glob("*.parquet"))


@pytest.mark.parametrize(
    ("version", "error"),
    [("7", VersionNotFoundError), ("2020-01-01", VersionNotFoundError), ("x", InvalidArgumentError)],
)
def test_a_version_that_does_not_exist_starts_no_spark(table: Path, version: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        prepared(table, "copy", version=version)
    assert not (table.parent / "copy").exists()
