"""Jobs in the process of their caller: small work by Arrow, and no work that should be Spark's."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidPredicateError, TableNotFoundError
from lakehouse_lib.operations.results import ChangeResult
from spark_jobs.job import Result, run_in_process
from spark_jobs.process.command_line import file_option
from spark_jobs.process.private_files import in_this_process, private_path
from tests.peers import parquet_files
from tests.slow_cases import some_slow

JOBS = {
    "compact": [],
    "z_order": ["--columns=id"],
    "reorg": [],
    "compute_statistics": [],
    "delete_rows": ["--predicate=id % 2 = 0"],
    "update_rows": ['--updates={"id": "id + 100"}', "--predicate=id % 2 = 0"],
    "merge_rows": [
        "--source={source}",
        "--predicate=target.id = source.id",
        '--clauses=[{"when_matched_update_all": {}}, {"when_not_matched_insert_all": {}}]',
    ],
    "add_constraint": ['--constraints={"positive": "id + 1 > 0"}'],
    "clone": ["--target={target}"],
    "apply_changes": ["--events={source}", "--keys=id", "--sequence-by=name"],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four files without statistics of ``name``, and with a dropped column."""
    table = tmp_path / "table"
    for number in range(4):
        rows = pa.table({"id": pa.array(range(number, 40, 4)), "name": ["a"] * 10, "old": [0] * 10})
        configuration = {"delta.dataSkippingStatsColumns": "id"}
        write_deltalake(table, rows, mode="append", configuration=configuration if number == 0 else None)
    alter = DeltaTable(table).alter
    alter.set_table_properties({"delta.dataSkippingStatsColumns": "id,name", "delta.columnMapping.mode": "name"})
    alter.drop_columns(["old"])
    write_deltalake(tmp_path / "source", pa.table({"id": pa.array([2, 50]), "name": ["b", "b"]}))
    return table


def run(job: str, table: Path, max_bytes: int | None, *more: str) -> Result | None:
    module = importlib.import_module(f"spark_jobs.{job}")
    places = {"{source}": str(table.parent / "source"), "{target}": str(table.parent / "target")}
    words = [f"--table={table}", *(more or JOBS[job])]
    for place, path in places.items():
        words = [word.replace(place, path) for word in words]
    return run_in_process(module.arguments(), module.prepare, words, max_bytes)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_reads_more_bytes_needs_spark_and_has_done_nothing(table: Path, job: str) -> None:
    version, files = DeltaTable(table).version(), parquet_files(table)
    assert run(job, table, 100) is None
    assert DeltaTable(table).version() == version
    assert parquet_files(table) == files


@pytest.mark.parametrize("max_bytes", some_slow([None, 1 << 30], 1))
@pytest.mark.parametrize("job", JOBS)
def test_a_small_job_runs_here(table: Path, job: str, max_bytes: int | None) -> None:
    version = DeltaTable(table).version()
    result = run(job, table, max_bytes)
    assert result is not None
    assert result["job"] == job
    expected = 0 if job == "clone" else version + 1
    assert result["version"] == expected
    json.dumps(result)


def test_a_job_with_nothing_to_do_reads_nothing(table: Path) -> None:
    DeltaTable(table).optimize.compact()
    result = run("compact", table, 0)
    assert result is not None
    assert result["version"] is None


def test_a_job_that_only_spark_can_run_is_left_to_it(table: Path) -> None:
    predicate = "--predicate=soundex(name) = 'A000'"
    assert run("delete_rows", table, 1 << 30, predicate) is None
    with pytest.raises(InvalidPredicateError):
        run("delete_rows", table, None, predicate)


def test_errors_are_those_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        run("compact", tmp_path / "none", None)


def test_private_files_exist_only_in_the_block(table: Path) -> None:
    module = importlib.import_module("spark_jobs.delete_rows")
    name = file_option(module.DELETE_ROWS.parameters, "predicate_file")
    words = [f"--table={table}", name, private_path("predicate-file")]
    with in_this_process({"predicate-file": "id < 4"}):
        result = run_in_process(module.arguments(), module.prepare, words, None)
    assert result is not None
    assert result["metrics"]["numDeletedRows"] == 4
    assert set(ChangeResult("", 0, 0, {}).to_dict()) <= set(result)
