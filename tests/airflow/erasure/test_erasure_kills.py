"""A task of an erasure is killed between two of its steps: no identifier is left, and the record is right."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import write_deltalake

from lakehouse_airflow.operators.erasure import erase as erasure_tasks
from lakehouse_airflow.operators.erasure import locate
from lakehouse_lib.ledger import Ledger
from lakehouse_lib.privacy import purge
from lakehouse_lib.store import LocalStore
from tests.airflow.erasure_runs import ANN, Run, answer_to, append, asked_by, ledger
from tests.peers import parquet_files

LONG = 4711471147114711471


@pytest.fixture
def folder(registry_file: Path) -> Path:
    """The ledger's folder."""
    return registry_file.parent / "ledger"


def kill(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def locate_a_month_later(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the erasure of another person a month later, which deletes leftovers of earlier requests."""
    now = datetime.now(UTC) + timedelta(days=31.1)
    monkeypatch.setattr(locate, "timezone", SimpleNamespace(utcnow=lambda: now))
    run = Run(1)
    run.look()
    return run


@pytest.mark.parametrize("name", ["plan", "keys"])
def test_keys_of_a_killed_locate_are_deleted(
    tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    put = Ledger.put

    def killed(self: Ledger, request: str, called: str, document: Any) -> Any:
        standing = put(self, request, called, document)
        return kill() if called == name else standing

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            Run().look()
    run = locate_a_month_later(monkeypatch)
    assert list(folder.rglob("*keys*")) == [folder / run.request / "keys.json"]


def test_partly_written_keys_are_deleted(tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary file is left if the process is killed before it renames the file."""
    unlink, link = Path.unlink, os.link

    def left(path: Path, **options: Any) -> None:
        if "keys" not in path.name:
            unlink(path, **options)

    def killed(aside: Path, target: Path) -> None:
        kill() if "keys" in target.name else link(aside, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", left)
        patch.setattr(os, "link", killed)
        with pytest.raises(KeyboardInterrupt):
            Run().look()
    (aside,) = folder.rglob("*keys*")
    assert aside.name != "keys.json"
    run = locate_a_month_later(monkeypatch)
    assert list(folder.rglob("*keys*")) == [folder / run.request / "keys.json"]


@pytest.mark.parametrize("is_retried", [True, False])
def test_keys_of_a_rejected_request_are_deleted(
    tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_retried: bool
) -> None:
    run = Run()
    run.look()
    approval = run.approval()
    kwargs = asked_by(approval, run.context)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", kill)
        with pytest.raises(KeyboardInterrupt):
            approval.execute_complete(run.context, answer_to("Reject", ANN), **kwargs)
    assert (folder / run.request / "keys.json").exists()
    if is_retried:
        assert run.approval().execute(run.context)["answer"] == "Reject"
    else:
        locate_a_month_later(monkeypatch)
    assert not (folder / run.request / "keys.json").exists()


def test_keys_of_a_request_without_a_question_are_deleted(tables: Path, folder: Path) -> None:
    """Of a run that was cleared after its question: its task ``approve`` asks about one request only."""
    run = Run()
    run.look()
    asked_by(run.approval(), run.context)
    run.look()
    approval = run.approval()
    with pytest.raises(AirflowFailException, match="cannot ask about request"):
        approval.execute(run.context)
    assert not (folder / run.request / "keys.json").exists()


def test_keys_of_a_finished_request_are_deleted(tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of the request was killed, and the run deleted."""
    run = Run()
    run.locate()
    run.delete()
    run.purge()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", kill)
        with pytest.raises(KeyboardInterrupt):
            run.report()
    Run(1).look()
    assert not (folder / run.request / "keys.json").exists()
    assert list((folder / run.request / "steps").glob("purge-*")) == []


def test_a_delete_that_was_killed_after_its_commits_is_in_the_record(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run()
    run.locate()
    with monkeypatch.context() as patch:
        patch.setattr(erasure_tasks, "_note_deletes", kill)
        with pytest.raises(KeyboardInterrupt):
            run.delete()
    run.finish()
    tables_of_record = ledger().read(run.request, "record")["tables"]
    deleted = {entry["table"]: entry["rows_deleted"] for entry in tables_of_record}
    assert deleted == {"customer": 0, "lineitem": 1, "orders": 1}


def test_the_record_names_the_version_of_the_proof(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the person arrives after its table was proven clean."""
    run = Run()
    run.locate()
    run.delete()
    run.purge()
    prove = purge.prove

    def prove_and_append(uri: str, *arguments: Any, **options: Any) -> purge.Proof:
        proof = prove(uri, *arguments, **options)
        if uri.endswith("customer"):
            append(Path(uri), c_custkey=[2])
        return proof

    monkeypatch.setattr(purge, "prove", prove_and_append)
    run.report()
    (customer,) = (e for e in ledger().read(run.request, "record")["tables"] if e["table"] == "customer")
    assert (customer["version_before"], customer["version_after"]) == (0, 0)


@pytest.mark.parametrize("is_approved", [False, True])
def test_no_error_names_a_partition(tables: Path, *, is_approved: bool) -> None:
    orders = pa.table({"o_orderkey": [7001], "o_custkey": [LONG]})
    options = {"mode": "overwrite", "schema_mode": "overwrite", "partition_by": ["o_custkey"]}
    write_deltalake(tables / "orders", orders, **options)
    run = Run(LONG)
    if is_approved:
        run.locate()
    for file in parquet_files(tables / "orders"):
        if f"o_custkey={LONG}" in str(file):
            Path(tables / "orders", file).unlink()
    with pytest.raises(AirflowException, match=r"DataFileMissingError: .* o_custkey=\*/part-.* is missing") as error:
        run.delete() if is_approved else run.look()
    assert str(LONG) not in str(error.value)
