"""The objects that a job leaves in its folder: outcome, pulse, and the request to stop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lakehouse_lib.errors import InvalidArgumentError, StoreError, TableNotFoundError
from lakehouse_lib.store import LocalStore
from spark_jobs.job import FailedAfterWork, run_job
from spark_jobs.process import job_objects
from spark_jobs.process.command_line import Arguments
from spark_jobs.process.job_objects import JobObjects, job_place

NAME = "0123abcd-4567"
SCHEMA = json.loads((Path(__file__).parents[2] / "docs/job-outcome.schema.json").read_text())


def objects_in(folder: Path) -> JobObjects:
    return JobObjects(job_place(str(folder), None), NAME)


def outcome_of(folder: Path, prepare: Any, *argv: str) -> dict[str, Any] | None:
    run_job(Arguments("compact", "", ()), prepare, [f"--job-folder={folder}", f"--job-name={NAME}", *argv])
    return objects_in(folder).outcome("compact")


def test_a_result_is_the_outcome(tmp_path: Path) -> None:
    pulses = []

    def prepare(_: Namespace) -> dict[str, Any]:
        pulses.append(objects_in(tmp_path).pulse())
        return {"table": "t", "read_version": 1, "version": None, "metrics": {"numFiles": 2}}

    line = outcome_of(tmp_path, prepare)
    assert line is not None
    assert line["lakehouse"] == "result"
    jsonschema.validate(line, SCHEMA)
    assert pulses[0]
    assert objects_in(tmp_path).pulse() is None  # the job has ended


@pytest.mark.parametrize(
    "error",
    [
        TableNotFoundError("there is no table", table="t"),
        FailedAfterWork(TableNotFoundError("x", table="t"), {"tables": []}),
        ValueError("no error of the library"),
    ],
)
def test_an_error_is_the_outcome(tmp_path: Path, error: Exception) -> None:
    def prepare(_: Namespace) -> dict[str, Any]:
        raise error

    line = outcome_of(tmp_path, prepare)
    assert line is not None
    assert line["lakehouse"] == "error"
    jsonschema.validate(line, SCHEMA)


def test_an_invalid_argument_is_the_outcome(tmp_path: Path) -> None:
    line = outcome_of(tmp_path, lambda _: {}, "--no-such-option")
    assert line is not None
    assert (line["lakehouse"], line["type"]) == ("error", "InvalidArgumentError")


@pytest.mark.parametrize("is_result", [True, False])
def test_the_line_is_printed_if_the_outcome_cannot_be_put(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    is_result: bool,
) -> None:
    def prepare(_: Namespace) -> dict[str, Any]:
        if is_result:
            return {"table": "t", "version": 1}
        raise TableNotFoundError("the table does not exist", table="t")

    def refuse(store: LocalStore, path: str, data: bytes) -> bool:
        raise StoreError("the disk is full", table=store.root)

    monkeypatch.setattr(LocalStore, "put_if_absent", refuse)
    code = run_job(Arguments("compact", "", ()), prepare, [f"--job-folder={tmp_path}", f"--job-name={NAME}"])
    line = json.loads(capsys.readouterr().out)
    assert (code, line["lakehouse"]) == ((0, "result") if is_result else (1, "error"))
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        {"lakehouse": "result", "job": "erase"},
        {"lakehouse": "error", "job": "compact"},
        {"lakehouse": "error", "job": "compact", "type": "A", "message": "b", "result": []},
        {"lakehouse": "none", "job": "compact"},
        [],
    ],
)
def test_an_invalid_object_is_not_an_outcome(tmp_path: Path, line: Any) -> None:
    (tmp_path / f"{NAME}.outcome.json").write_text(json.dumps(line))
    with pytest.raises(ValueError, match="is not the outcome of a job compact"):
        objects_in(tmp_path).outcome("compact")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"job": "x"} if line == [] else {**line, "job": 1}, SCHEMA)


@pytest.mark.parametrize("name", ["", "../x", "0123abcd", "0123abcd-45/7", "0123ABCD-45"])
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        JobObjects(job_place(str(tmp_path), None), name)


def test_a_cancelled_job_does_not_begin(tmp_path: Path) -> None:
    objects_in(tmp_path).stop()
    line = outcome_of(tmp_path, lambda _: pytest.fail("it began"))
    assert line is not None
    assert "was cancelled before it began" in line["message"]


def test_a_cancelled_job_ends_at_its_next_pulse(tmp_path: Path) -> None:
    code = f"""
import time
from spark_jobs.process import job_objects
job_objects.PULSE_SECONDS = 0.05
with job_objects.JobObjects(job_objects.job_place({str(tmp_path)!r}, None), {NAME!r}).beating():
    time.sleep(600)
"""
    job = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while objects_in(tmp_path).pulse() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    objects_in(tmp_path).stop()
    assert job.wait(60) == 1
    assert job_objects.PULSE_SECONDS == 10
