"""Every commit of an operator names the DAG, run, task and try that made it, as delta-rs reads the log."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

import lakehouse_lib
from lakehouse_airflow.operators.base import job_operator
from lakehouse_airflow.operators.change_rows import LakehouseUpdateRowsOperator
from lakehouse_airflow.operators.metadata.alter import LakehouseAlterOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.repair import LakehouseRepairOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from spark_jobs import compact
from spark_jobs.job import run_job
from tests.table_builder import longs

RUN = {"dag_id": "upkeep", "run_id": "manual__1", "task_id": "t", "map_index": 3, "try_number": 2}
CONTEXT: Any = {"ti": SimpleNamespace(**RUN), "dag_run": SimpleNamespace(triggering_user_name="ann")}
SCHEDULED: Any = {"ti": SimpleNamespace(**RUN), "dag_run": SimpleNamespace(triggering_user_name=None)}


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Three versions, of which the last one removes the first two files."""
    table = registry_file.parent / "tables" / "orders"
    for version, mode in enumerate(("append", "append", "overwrite")):
        write_deltalake(table, longs(o_custkey=[version]), mode=mode)
    return table


def makers(table: Path) -> list[tuple[str, Any, Any]]:
    """The operation, the task and the user of the commits after version 2."""
    commits = [commit for commit in DeltaTable(table).history() if commit["version"] > 2]
    return [(commit["operation"], commit.get("airflow"), commit.get("userName")) for commit in commits[::-1]]


def test_commits_in_the_task(orders: Path) -> None:
    changes: list[Any] = [{"set_table_name": {"name": "a"}}, {"set_table_description": {"description": "b"}}]
    LakehouseAlterOperator(task_id="t", table="orders", changes=changes).execute(CONTEXT)
    LakehouseVacuumOperator(task_id="t", table="orders").execute(SCHEDULED)
    (file,) = DeltaTable(orders).file_uris()
    Path(file).unlink()
    LakehouseRepairOperator(task_id="t", table="orders", dry_run=False).execute(CONTEXT)
    restore = LakehouseRestoreOperator(task_id="t", table="orders", target=2, ignore_missing_files=True)
    restore.execute(CONTEXT)
    lakehouse_lib.write_deltalake(orders, longs(o_custkey=[5]), mode="append")
    assert makers(orders) == [
        ("UPDATE TABLE METADATA", RUN, "ann"),
        ("UPDATE TABLE METADATA", RUN, "ann"),
        ("VACUUM START", RUN, None),
        ("VACUUM END", RUN, None),
        ("FSCK", RUN, "ann"),
        ("RESTORE", RUN, "ann"),
        ("WRITE", None, None),
    ]


def test_commits_of_a_job(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator passes the fields in a private file, and the job gives them to all of its commits."""
    passed: dict[str, str] = {}

    class Submission:
        partial_result = None

        def __init__(self, job: str, arguments: list[str], *, private_files: dict[str, str], **_: Any) -> None:
            passed.update(private_files)

        def run(self) -> dict[str, Any]:
            return {"version": None}

    monkeypatch.setattr(job_operator, "JobSubmission", Submission)
    LakehouseOptimizeOperator(task_id="t", table="orders", engine="spark").execute(CONTEXT)
    (tmp_path / "metadata.json").write_text(passed["--commit-metadata-file"])

    def write_twice(options: Any) -> dict[str, Any]:
        for number in (5, 6):
            lakehouse_lib.write_deltalake(options.table, longs(o_custkey=[number]), mode="append")
        return {}

    line = ["--table", str(orders), "--commit-metadata-file", str(tmp_path / "metadata.json")]
    assert run_job(compact.arguments(), write_twice, line) == 0
    lakehouse_lib.write_deltalake(orders, longs(o_custkey=[7]), mode="append")
    assert makers(orders) == [("WRITE", RUN, "ann"), ("WRITE", RUN, "ann"), ("WRITE", None, None)]
    capsys.readouterr()

    for text, message in (("[]", "not a valid JSON object"), ("{", "not valid JSON"), ('{"userName": 7}', "userName")):
        (tmp_path / "metadata.json").write_text(text)
        assert run_job(compact.arguments(), write_twice, line) == 1
        assert message in json.loads(capsys.readouterr().out)["message"]
    assert DeltaTable(orders).version() == 5


def test_all_tries_of_a_task_have_the_same_application_transaction(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[list[str]] = []

    class Submission:
        partial_result = None

        def __init__(self, job: str, arguments: list[str], **_: Any) -> None:
            lines.append(arguments)

        def run(self) -> dict[str, Any]:
            return {"version": None}

    monkeypatch.setattr(job_operator, "JobSubmission", Submission)
    for changes in ({}, {"try_number": 3}, {"map_index": 4}, {"run_id": "a:b"}):
        task: Any = {"ti": SimpleNamespace(**{**RUN, **changes})}
        LakehouseUpdateRowsOperator(task_id="t", table="orders", engine="spark", updates={"o_custkey": "1"}).execute(
            task
        )
        LakehouseOptimizeOperator(task_id="t", table="orders", engine="spark").execute(task)
    application = "--app-transaction=airflow:upkeep"
    table = f"--table={orders}"
    assert lines[::2] == [
        [table, f"{application}:manual__1:t:3"],
        [table, f"{application}:manual__1:t:3"],
        [table, f"{application}:manual__1:t:4"],
        [table, f"{application}:a:b:t:3"],
    ]
    assert lines[1] == [table]
