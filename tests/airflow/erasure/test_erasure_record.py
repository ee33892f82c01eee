"""The documents that an erasure leaves in the ledger: one complete record without an identifier, after any failure."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable as Peer
from deltalake import write_deltalake

from lakehouse_airflow.operators.base import job_operator
from lakehouse_airflow.operators.erasure import erase as erasure_tasks
from lakehouse_airflow.operators.erasure import locate
from lakehouse_airflow.pages.views.erasure import Documents, erasure_rows
from lakehouse_lib import DeltaTable
from lakehouse_lib.ledger import digest
from lakehouse_lib.store import LocalStore
from tests.airflow.erasure_runs import ANN, JobInThisProcess, Run, append, ledger, on_disk
from tests.peers import parquet_files
from tests.slow_cases import some_slow
from tests.table_builder import longs

LONG = 4711471147114711471


def texts(folder: Path) -> str:
    return "".join(f"{file}: {file.read_text()}" for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.fixture
def folder(registry_file: Path) -> Path:
    """The ledger's folder."""
    return registry_file.parent / "ledger"


@pytest.fixture
def person(tables: Path) -> Run:
    """A run for a customer with an id of 19 digits, whose orders are in partitions of that id."""
    write_deltalake(
        tables / "orders",
        pa.table({"o_orderkey": [7001], "o_custkey": [LONG]}),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["o_custkey"],
    )
    append(tables / "lineitem", l_orderkey=[7001])
    append(tables / "customer", c_custkey=[LONG])
    return Run(LONG)


def test_the_record_has_people_versions_files_and_times(person: Run, tables: Path) -> None:
    person.locate()
    places = person.places()
    before = {table: Peer(place.uri).version() for table, place in places.items()}
    old = {file: file.read_bytes() for file in parquet_files(tables)}
    person.delete()
    deleted = {table: Peer(place.uri).version() for table, place in places.items()}
    person.purge()
    returned = person.report()

    record = ledger().read(person.request, "record")
    assert (record["requester"], record["approver"], record["subject"]) == ("bob", ANN, "customer")
    assert record["digest"] == digest(person.plan()) == person.left["locate"]["digest"] == returned["digest"]
    assert (record["run_id"], record["dag_id"]) == (
        person.context["dag_run"].run_id,
        person.context["dag_run"].dag_id,
    )
    times = [datetime.fromisoformat(record[name]) for name in ("found_at", "approved_at", "recorded_at")]
    assert times == sorted(times)
    assert record["library"].startswith("lakehouse")
    tables_of = {entry["table"]: entry for entry in record["tables"]}
    assert {name: entry["version_before"] for name, entry in tables_of.items()} == before
    assert {name: entry["version_after"] for name, entry in tables_of.items()} == deleted
    assert {name: (entry["rows_found"], entry["rows_deleted"]) for name, entry in tables_of.items()} == dict.fromkeys(
        before, (1, 1)
    )
    gone = {hashlib.sha256(content).hexdigest() for file, content in old.items() if not file.exists()}
    removed = [file for entry in record["tables"] for file in entry["files_removed"]]
    assert gone == {file["sha256"] for file in removed}
    assert sum(file["bytes"] for file in removed) == sum(len(old[file]) for file in old if not file.exists())
    log = {each["table"]: each["until"] for each in record["left"]}
    assert datetime.fromisoformat(log["orders"]) - times[-1] == timedelta(days=30)
    assert log[None] is None


def test_no_permanent_document_has_an_identifier(
    person: Run, tables: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    person.locate()
    request = folder / person.request
    assert str(LONG) in (request / "keys.json").read_text()
    for stays in ("plan", "decision"):
        assert str(LONG) not in (request / f"{stays}.json").read_text()
        assert "7001" not in re.findall("[0-9a-f]+", (request / f"{stays}.json").read_text())
    results = [person.delete(), person.purge(), person.report()]
    assert str(LONG) not in texts(folder)
    assert "o_custkey=*/" in (request / "record.json").read_text()
    assert {path.name for path in request.glob("*.json")} == {"plan.json", "decision.json", "record.json"}
    assert str(LONG) not in json.dumps([results, person.left])
    assert str(LONG) not in "".join(capfd.readouterr())


def test_requests_for_one_person_have_the_same_hash(tables: Path) -> None:
    runs = [Run(1), Run(1), Run(2)]
    for run in runs:
        run.look()
    persons = [run.left["locate"]["person"] for run in runs]
    assert persons[0] == persons[1] != persons[2]
    assert len({run.left["locate"]["digest"] for run in runs}) == 3


def test_clearing_tasks_does_not_change_a_record(tables: Path, folder: Path) -> None:
    run = Run()
    run.locate()
    returned = run.finish()
    before = texts(folder)
    append(tables / "orders", o_orderkey=[2], o_custkey=[2])
    version = Peer(str(tables / "orders")).version()
    assert run.delete() == {}
    assert run.purge() == {"request": run.request, "tables": {}}
    assert run.report() == returned
    assert texts(folder) == before
    assert Peer(str(tables / "orders")).version() == version


def test_keys_that_a_killed_report_left_are_deleted_by_the_next_try(
    tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run()
    run.locate()
    run.delete()
    run.purge()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", broken)
        with pytest.raises(KeyboardInterrupt):
            run.report()
    assert (folder / run.request / "record.json").exists()
    assert (folder / run.request / "keys.json").exists()
    run.report()
    assert not (folder / run.request / "keys.json").exists()
    assert list((folder / run.request / "steps").glob("purge-*")) == []


def test_keys_of_unanswered_requests_are_deleted(tables: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of an approved request stay, because no other request might find the rows again."""
    unanswered, approved = Run(1), Run(2)
    unanswered.look()
    approved.locate()
    now = datetime.now(UTC)
    for days, stays in ((30.9, True), (31.1, False)):
        monkeypatch.setattr(locate, "timezone", SimpleNamespace(utcnow=lambda days=days: now + timedelta(days=days)))
        Run(1).look()
        assert (folder / unanswered.request / "keys.json").exists() is stays
    with pytest.raises(AirflowFailException, match="is over and its keys are deleted"):
        unanswered.answer()
    approved.finish()


def test_keys_of_a_removed_subject_are_deleted(
    tables: Path, registry_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unanswered, approved = Run(1), Run(2)
    unanswered.look()
    approved.locate()
    body = json.loads(registry_file.read_text())
    body["subjects"]["buyer"] = body["subjects"].pop("customer")
    registry_file.write_text(json.dumps(body))
    now = datetime.now(UTC)
    for days, stays in ((30.9, True), (31.1, False)):
        monkeypatch.setattr(locate, "timezone", SimpleNamespace(utcnow=lambda days=days: now + timedelta(days=days)))
        other = Run(1)
        other.context["params"]["buyer_id"] = 1
        locate.LakehouseLocateSubjectOperator(task_id="locate", subject="buyer").execute(other.context)
        assert (folder / unanswered.request / "keys.json").exists() is stays
    assert (folder / approved.request / "keys.json").exists()


def test_a_broken_document_of_another_request_does_not_fail_the_run(
    tables: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other, run = Run(1), Run(2)
    other.look()
    (folder / other.request / "plan.json").write_text("{}")
    run.locate()
    assert f"the keys of request {other.request} are left in the ledger: " in capfd.readouterr().out
    run.finish()
    assert on_disk(tables / "orders") == [1]


def broken(*_: Any) -> None:
    raise KeyboardInterrupt


def removed_files(run: Run) -> set[str]:
    record = ledger().read(run.request, "record")
    return {file["sha256"] for entry in record["tables"] for file in entry["files_removed"]}


@pytest.mark.parametrize("calls", some_slow([0, 1, 2], 1))
def test_files_that_an_earlier_try_purged_are_in_the_record(
    tables: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """A purge is killed before its first, second or third deletion."""
    run = Run(1)
    run.locate()
    old = {file: file.read_bytes() for file in parquet_files(tables)}
    run.delete()
    delete_many, done = LocalStore.delete_many, []

    def killed(store: LocalStore, paths: Any) -> None:
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(1)
        delete_many(store, paths)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", killed)
        with pytest.raises(KeyboardInterrupt):
            run.purge()
    assert len(done) == calls
    run.purge()
    run.report()
    gone = {hashlib.sha256(content).hexdigest() for file, content in old.items() if not file.exists()}
    assert len(gone) == 3
    assert removed_files(run) == gone


def test_a_file_is_deleted_only_after_the_ledger_has_its_name(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    run.locate()
    run.delete()
    before = parquet_files(tables)
    monkeypatch.setattr(erasure_tasks, "timezone", None)  # so that the note fails
    with pytest.raises(AttributeError):
        run.purge()
    assert parquet_files(tables) == before


class BreaksOff(JobInThisProcess):
    """A job whose second delete fails; the result of the first delete is reported."""

    def run(self) -> dict[str, Any]:
        failing = self.deletes[1]
        self.deletes = self.deletes[:1]
        self.partial_result = super().run()
        raise AirflowException(f"StoreError: it failed where {failing['predicate']}")


def test_the_record_includes_the_work_of_an_interrupted_delete(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    run.locate()
    with monkeypatch.context() as patch:
        patch.setattr(job_operator, "JobSubmission", BreaksOff)
        with pytest.raises(AirflowException, match=f"^StoreError: it failed where <keys of request {run.request}>$"):
            run.delete()
    run.finish()
    record = ledger().read(run.request, "record")
    assert {entry["table"]: entry["rows_deleted"] for entry in record["tables"]} == {
        "customer": 0,
        "lineitem": 1,
        "orders": 1,
    }


def test_rows_in_files_without_statistics_are_erased_and_their_number_is_unknown(tables: Path) -> None:
    orders = tables / "orders"
    shutil.rmtree(orders)
    write_deltalake(orders, longs(o_orderkey=[10, 20, 21], o_custkey=[1, 2, 2]), partition_by=["o_custkey"])
    log = orders / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    run = Run()
    run.locate()
    run.finish()
    record = ledger().read(run.request, "record")
    entry = next(entry for entry in record["tables"] if entry["table"] == "orders")
    assert (entry["rows_found"], entry["rows_deleted"], entry["on_disk_after"]["rows"]) == (2, None, 0)
    documents = Documents(run.plan(), ledger().read(run.request, "decision"), record)
    (row,) = erasure_rows([documents], [], {run.dag_id: "customer"})
    assert (row.status.text, row.rows) == ("erased", None)


def test_no_error_quotes_a_key(tables: Path) -> None:
    run = Run(LONG)
    append(tables / "orders", o_orderkey=[7001], o_custkey=[LONG])
    run.locate()
    with pytest.raises(AirflowFailException, match=r"RetentionError: .*Delete the rows first") as error:
        run.purge()
    assert str(LONG) not in str(error.value)
    DeltaTable(tables / "orders").delete(f"o_custkey = {LONG}")
    table = pa.table({"o_orderkey": [1], "buyer": [1]})
    write_deltalake(tables / "orders", table, mode="overwrite", schema_mode="overwrite")
    for task in (run.purge, run.report):
        with pytest.raises(AirflowFailException) as error:
            task()
        assert str(LONG) not in str(error.value)


@pytest.mark.slow
def test_two_concurrent_erasures_of_the_same_tables_lose_no_rows(tables: Path) -> None:
    for _ in range(3):  # several versions, so that both purges rewrite files
        append(tables / "orders", o_orderkey=[10, 20, 30], o_custkey=[1, 2, 3])
        append(tables / "lineitem", l_orderkey=[10, 20, 30])
    runs = [Run(1), Run(2)]
    for run in runs:
        run.locate()
    errors: list[BaseException] = []

    def erase(run: Run) -> None:
        for task in (run.delete, run.purge, run.report):
            for _ in range(6):
                try:
                    task()
                    break
                except AirflowException as error:  # a lost race; the next try continues
                    errors.append(error)
                    run.delete()
            else:
                return

    threads = [threading.Thread(target=erase, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    for run in runs:
        if ledger().find(run.request, "record") is None:  # files of the other one were too young to go
            run.finish()
    assert on_disk(tables / "orders") == [30, 30, 30]
    assert on_disk(tables / "lineitem") == [30, 30, 30]
    for table in ("orders", "lineitem"):
        assert len(Peer(str(tables / table)).to_pyarrow_table()) == 3
    for run in runs:
        record = ledger().read(run.request, "record")
        assert {entry["on_disk_after"]["rows"] for entry in record["tables"]} == {0}
