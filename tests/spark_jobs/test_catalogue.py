"""The catalogue of operations: each operation has a function, a result as JSON, and a command line that parses."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.catalogue import OPERATIONS
from lakehouse_lib.catalogue.operation import Kind, Operation, Parameter, TableOperation
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.load_result import LoadResult
from lakehouse_lib.operations.results import OperationResult
from spark_jobs import aggregate, maintain
from spark_jobs.process.command_line import Arguments, command_line, file_option

JOBS = {path.stem for path in Path(aggregate.__file__).parent.glob("*.py") if "\ndef arguments(" in path.read_text()}
#: A value of each kind that is not the default; the texts look like options.
VALUES: dict[str, Any] = {
    "application": "--an id",
    "assignments": {"a": "-b"},
    "bytes": 5,
    "clauses": [{"when_matched_delete": {"predicate": "-1 < source.a"}}],
    "condition": "-1 < a",
    "count": 7,
    "file": "--a file",
    "hours": 0.5,
    "inputs": [("a", "/x=y"), ("b", "s3://b/c")],
    "integer": -3,
    "location": "s3://a/b=c",
    "locations": ["s3://a/b=c", "-d"],
    "names": ("a", "b"),
    "rate": 0.5,
    "seconds": 1.5,
    "text": "-",
    "text_list": ["", "-"],
    "texts": {"a": "-b"},
    "version": "-",
    "versions": (3, 7),
}


def value_of(parameter: Parameter) -> Any:
    if parameter.kind == "flag":
        return not parameter.default
    return parameter.choices[-1] if parameter.choices else VALUES[parameter.kind]


def test_operations_that_move_bytes_are_jobs() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.moves_bytes} == JOBS - {"aggregate", "maintain"}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_the_function_returns_the_result_of_the_catalogue(operation: Operation) -> None:
    assert inspect.signature(operation.load()).return_annotation == operation.result.__name__
    assert issubclass(operation.result, OperationResult)


TABLE_OPERATIONS = {name: operation for name, operation in OPERATIONS.items() if isinstance(operation, TableOperation)}


@pytest.mark.parametrize("operation", TABLE_OPERATIONS.values(), ids=TABLE_OPERATIONS)
def test_the_function_accepts_the_parameters(operation: TableOperation) -> None:
    taken = inspect.signature(operation.load()).parameters
    named = {parameter.keyword or parameter.name for parameter in operation.parameters} - {"table"}
    assert named <= set(taken)
    assert ("engine" in taken) == operation.moves_bytes
    assert ("on_progress" in taken) == operation.has_progress
    assert operation.parameters[0].name == "table"


@pytest.mark.parametrize("operation", TABLE_OPERATIONS.values(), ids=TABLE_OPERATIONS)
def test_a_result_survives_json(operation: TableOperation, tmp_path: Path) -> None:
    for number in range(2):
        write_deltalake(tmp_path, pa.table({"a": [number, 9]}), mode="append")
    arguments = {
        "z_order": {"columns": ["a"]},
        "delete_rows": {"predicate": "a = 1"},
        "update_rows": {"updates": {"a": "a + 1"}, "predicate": "a = 1"},
        "add_constraint": {"constraints": {"c": "a >= 0"}},
        "restore": {"target": "0"},
        "pin_version": {"name": "a", "version": "0"},
        "release_version": {"name": "a"},
    }.get(operation.name, {})
    if operation.name == "release_version":
        DeltaTable(tmp_path).pin("a")
    snapshot = DeltaTable(tmp_path).snapshot
    result = operation.run(snapshot, ArrowEngine() if operation.moves_bytes else None, **arguments)
    assert type(result) is operation.result
    assert (result.table, result.read_version) == (snapshot.store.root, 1)
    commits = operation.moves_bytes or operation.name == "restore"
    # The log has all statistics of these files, and the files have no deleted rows.
    commits = commits and operation.name not in ("compute_statistics", "reorg")
    assert result.version == (2 if commits else None)
    values = result.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert list(values)[:3] == ["table", "read_version", "version"]


def test_a_parameter_that_is_left_out_has_its_default(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1, 9]}))
    TABLE_OPERATIONS["update_rows"].run(DeltaTable(tmp_path).snapshot, ArrowEngine(), updates={"a": "a + 1"})
    assert DeltaTable(tmp_path).to_pyarrow_table()["a"].to_pylist() == [2, 10]
    for name in ("vacuum", "cleanup", "repair"):
        assert TABLE_OPERATIONS[name].run(DeltaTable(tmp_path).snapshot).dry_run is False, name
        assert TABLE_OPERATIONS[name].run(DeltaTable(tmp_path).snapshot, dry_run=True).dry_run is True, name


def test_a_load_survives_json() -> None:
    batch = {"batch": 0, "files": ["a"], "rows_loaded": 2, "rows_quarantined": 1, "version": 0}
    values = LoadResult("t", None, 0, (batch,), ("b",), {"c": "why"}, {"e": "as before"}, {"d": 0}, "q", None).to_dict()
    assert json.loads(json.dumps(values)) == values
    assert (values["rows_loaded"], values["files_refused"]) == (2, [{"file": "c", "error": "why"}])
    assert values["files_refused_earlier"] == [{"file": "e", "error": "as before"}]


PARAMETERS = {name: operation.parameters for name, operation in OPERATIONS.items()} | {
    "aggregate": aggregate.PARAMETERS,
    "maintain": maintain.PARAMETERS,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_job_parses_the_command_line_of_an_operator(name: str) -> None:
    parameters = PARAMETERS[name]
    parser = Arguments(name, "", parameters)
    values = {parameter.name: value_of(parameter) for parameter in parameters}
    assert vars(parser.parse_args(command_line(parameters, values))) == {
        **values,
        "storage_options": {},
        "commit_metadata": {},
        "spark_connect": None,
        "job_folder": None,
        "job_name": None,
    }
    required = {parameter.name: value_of(parameter) for parameter in parameters if parameter.required}
    defaults = {parameter.name: parameter.default for parameter in parameters} | required
    for settings in (required, defaults, {**dict.fromkeys(values), **required}):
        assert vars(parser.parse_args(command_line(parameters, settings))) == {
            **defaults,
            "storage_options": {},
            "commit_metadata": {},
            "spark_connect": None,
            "job_folder": None,
            "job_name": None,
        }
    for parameter in required:
        with pytest.raises(InvalidArgumentError, match="required"):
            parser.parse_args(command_line(parameters, {**required, parameter: None}))


def test_a_condition_may_be_in_a_file(tmp_path: Path) -> None:
    parameters = PARAMETERS["delete_rows"]
    file = tmp_path / "predicate.sql"
    file.write_text("a = 1")
    line = [*command_line(parameters, {"table": "t"}), file_option(parameters, "predicate_file"), str(file)]
    assert Arguments("delete_rows", "", parameters).parse_args(line).predicate == "a = 1"
    with pytest.raises(InvalidArgumentError, match="not allowed with argument"):
        Arguments("delete_rows", "", parameters).parse_args([*line, "--predicate", "a = 2"])


def test_a_name_that_a_job_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the parameter is 'tabel'; expected one of table, target_file_size"):
        command_line(PARAMETERS["compact"], {"tabel": "t"})
    with pytest.raises(
        InvalidArgumentError, match="'predicate_file'; expected one of where_file, storage_options_file"
    ):
        file_option(PARAMETERS["compact"], "predicate_file")


def test_the_tests_have_a_value_for_every_kind_of_parameter() -> None:
    assert {*VALUES, "flag"} == set(typing.get_args(Kind))


def test_the_catalogue_loads_no_verb() -> None:
    code = "import json, sys; from lakehouse_lib import catalogue; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "numpy", "argparse", "sqlglot", "pyspark"} & set(json.loads(done.stdout))
