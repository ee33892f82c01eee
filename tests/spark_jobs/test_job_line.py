"""The last line of a job's output, after success and after every error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.errors import InvalidArgumentError
from spark_jobs import (
    add_constraint,
    aggregate,
    apply_changes,
    clone,
    compact,
    compute_statistics,
    delete_rows,
    erase,
    ingest,
    merge_rows,
    reorg,
    update_rows,
    z_order,
)
from spark_jobs.job import run_job
from spark_jobs.process.command_line import Arguments, command_line
from tests.slow_cases import some_slow
from tests.spark_jobs.loading import Shop

JOBS = {
    job.__name__.rpartition(".")[2]: (job.arguments, job.prepare)
    for job in (
        add_constraint,
        aggregate,
        apply_changes,
        clone,
        compact,
        compute_statistics,
        delete_rows,
        erase,
        ingest,
        merge_rows,
        reorg,
        update_rows,
        z_order,
    )
}


def line_of(capsys: pytest.CaptureFixture[str], job: str, *argv: str) -> tuple[int, dict[str, Any]]:
    arguments, prepare = JOBS[job]
    code = run_job(arguments(), prepare, list(argv))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return code, json.loads(out)


@pytest.mark.parametrize("job", some_slow([*JOBS], 3))
def test_help_names_every_option(job: str) -> None:
    done = subprocess.run([sys.executable, "-m", f"spark_jobs.{job}", "--help"], capture_output=True, check=True)
    assert done.stdout.startswith(f"usage: spark_jobs.{job}".encode())
    assert {"aggregate": b"--output", "erase": b"--deletes-file"}.get(job, b"--table") in done.stdout


def test_the_parser_reads_the_values_that_were_written() -> None:
    parameters = [Parameter("names", "names", "x", default=()), Parameter("seconds", "seconds", "x", default=None)]
    values = {"names": ("a b", "`c`"), "seconds": 1_234_567.25}
    parsed = vars(Arguments("job", "", parameters).parse_args(command_line(parameters, values)))
    assert {name: parsed[name] for name in values} == values
    for name in ("a,b", " a", "a ", ""):
        with pytest.raises(InvalidArgumentError, match=r"names is .*; expected names without commas"):
            command_line(parameters, {"names": ("x", name)})


@pytest.mark.parametrize("job", JOBS)
def test_missing_arguments_are_an_error_line(capsys: pytest.CaptureFixture[str], job: str) -> None:
    code, line = line_of(capsys, job)
    assert code == 1
    assert (line["lakehouse"], line["job"], line["type"]) == ("error", job, "InvalidArgumentError")
    assert "required" in line["message"]


@pytest.mark.parametrize(
    ("job", "more"),
    [
        ("compact", []),
        ("compute_statistics", []),
        ("reorg", []),
        ("z_order", ["--columns", "a"]),
        ("delete_rows", ["--predicate", "a = 1"]),
        ("update_rows", ["--updates", '{"a": "1"}']),
        ("add_constraint", ["--constraints", '{"c": "a > 1"}']),
        ("clone", ["--target", "t"]),
        ("apply_changes", ["--events", "nowhere", "--keys", "id", "--sequence-by", "ts"]),
        ("merge_rows", ["--source", "s", "--predicate", "target.a = source.a", "--clauses", "[]"]),
    ],
)
def test_a_missing_table_is_an_error_without_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, job: str, more: list[str]
) -> None:
    code, line = line_of(capsys, job, "--table", str(tmp_path / "nowhere"), *more)
    assert (code, line["type"]) == (1, "TableNotFoundError")
    assert "nowhere" in line["message"]
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
@pytest.mark.parametrize("name", ["日本.sql", os.fsdecode(b"caf\xe9.sql")])
def test_the_line_is_ascii_for_every_encoding_of_the_output(tmp_path: Path, encoding: str, name: str) -> None:
    command = [sys.executable, "-m", "spark_jobs.delete_rows", "--table", str(tmp_path), "--predicate-file", name]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding}, timeout=60)
    line = json.loads(done.stdout.decode("ascii"))
    assert (done.returncode, line["type"]) == (1, "InvalidArgumentError")
    assert name in line["message"]


def test_empty_predicate_deletes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "predicate.sql").write_text(" \n")
    code, line = line_of(
        capsys, "delete_rows", "--table", str(tmp_path), "--predicate-file", str(tmp_path / "predicate.sql")
    )
    assert (code, line["type"]) == (1, "InvalidPredicateError")


@pytest.mark.parametrize(
    ("deletes", "kind"),
    [
        ({"table": "t", "predicate": "a = 1"}, "InvalidArgumentError"),
        ([{"table": "t"}], "InvalidArgumentError"),
        ([{"table": "t", "predicate": 1}], "InvalidArgumentError"),
        ([{"table": "t", "predicate": " ", "request": "0" * 20}], "InvalidPredicateError"),
        ([{"table": "nowhere", "predicate": "a = 1", "request": "0" * 20}], "TableNotFoundError"),
    ],
)
def test_an_invalid_erasure_starts_no_spark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, deletes: Any, kind: str
) -> None:
    (tmp_path / "deletes.json").write_text(json.dumps(deletes))
    code, line = line_of(capsys, "erase", "--deletes-file", str(tmp_path / "deletes.json"))
    assert (code, line["type"]) == (1, kind)


def test_errors_show_only_the_names_of_storage_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, table = tmp_path / "options.json", str(tmp_path / "t")
    for text, said in (
        ("hunter2", "is not valid JSON"),
        ('["hunter2"]', "a valid JSON object of objects"),
        ("", "valid JSON"),
    ):
        file.write_text(text)
        code, line = line_of(capsys, "compact", "--table", table, "--storage-options-file", str(file))
        assert (code, line["type"]) == (1, "InvalidArgumentError")
        assert said in line["message"]
        assert "hunter2" not in line["message"]
    file.write_text(json.dumps({table: {"aws_secret_access_key": "hunter2"}}))
    code, line = line_of(capsys, "compact", "--table", table, "--storage-options-file", str(file))
    assert "storage options ['aws_secret_access_key'] do not apply to a local table" in line["message"]
    assert "hunter2" not in line["message"]


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        (["--landing", "/dev/null"], "LandingError", "is a file"),
        (["--landing", "/nowhere"], "LandingError", "does not exist"),
        (["--schema", "/nowhere"], "InvalidArgumentError", "the schema file /nowhere cannot be read"),
        (["--source", "a/b"], "InvalidArgumentError", "source is 'a/b'"),
        (["--files-per-batch", "0"], "InvalidArgumentError", "expected a whole number of at least 1"),
        (["--settle-seconds", "-1"], "InvalidArgumentError", "expected a number of at least 0"),
        (["--delimiter", ",,"], "InvalidArgumentError", "delimiter is ',,'"),
        (["--suite", "/dev/null"], "InvalidArgumentError", "is not valid JSON"),
        (["--give-up"], "IngestError", "source 'erp' has no unsettled batch"),
    ],
)
def test_bad_input_of_ingest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[str], kind: str, said: str
) -> None:
    code, line = line_of(capsys, "ingest", *Shop(tmp_path).command_line(*more))
    assert (code, line["lakehouse"], line["type"]) == (1, "error", kind)
    assert said in line["message"]


def test_empty_landing_folder_is_a_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, line = line_of(capsys, "ingest", *Shop(tmp_path).command_line())
    assert code == 0
    assert line["lakehouse"] == "result"
    assert (line["version"], line["batches"], line["files_waiting"]) == (None, [], [])


def test_an_unexpected_error_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("first line\nsecond line")

    code = run_job(compact.arguments(), broken, ["--table", "t"])
    printed = capsys.readouterr()
    assert code == 1
    assert json.loads(printed.out)["message"] == "first line"
    assert "Traceback" in printed.err
    assert "second line" in printed.err
