"""Erasures and their records as the pages show them, made from the documents of the ledger and the DAG runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.approval import APPROVE
from lakehouse_lib.privacy.places import total_rows

if TYPE_CHECKING:
    from lakehouse_airflow.pages.dag_state import RunState
    from lakehouse_lib.ledger import Document


@dataclass(frozen=True)
class Documents:
    """The documents of an erasure in the ledger; None: not written yet."""

    plan: Document
    decision: Document | None = None
    record: Document | None = None


@dataclass(frozen=True)
class Status:
    """The status of an erasure, as the pages show it.

    Attributes:
        style: the CSS class of the text.
        advice: what to do; empty if there is nothing to do.
    """

    text: str
    style: str = ""
    advice: str = ""


@dataclass(frozen=True)
class ErasureRow:
    """An erasure in the list. Times are ms since the epoch; None: not known.

    Attributes:
        request: None: the run has made no request yet, or the ledger cannot be read.
        run: None: the run was deleted.
        rows: the number of deleted rows, or before the record the number of rows in the plan; None: not known.
    """

    subject: str
    request: str | None
    requester: str | None
    requested_at: int | None
    status: Status
    run: RunState | None
    approver: str | None = None
    rows: int | None = None
    files_removed: int | None = None
    recorded_at: int | None = None


@dataclass(frozen=True)
class ErasedTable:
    """A table of an erasure, from the record, or from the plan if there is no record yet.

    Attributes:
        before, after: the numbers of rows and files on disk; ``after`` is None without a record.
        removed: the removed files, from the record.
        unattributed: a text about the records without a readable key; empty if there are none.
    """

    name: str
    uri: str
    version_before: int
    rows_found: int
    before: Mapping[str, int]
    version_after: int | None = None
    rows_deleted: int | None = None
    after: Mapping[str, int] | None = None
    removed: tuple[Mapping[str, Any], ...] = ()
    unattributed: str = ""


def status_of(documents: Documents | None, run: RunState | None) -> Status:
    """The status of an erasure, derived from its documents and its run.

    Args:
        documents: None: the run has made no request, or the ledger cannot be read.
        run: None: the run was deleted.
    """
    decision = None if documents is None else documents.decision
    if documents is not None and documents.record is not None:
        return Status("erased", "done")
    if decision is not None and decision["answer"] != APPROVE:
        return Status("rejected")
    if run is None:
        return Status("not finished", "failed", "Its run was deleted. Trigger the erasure again.")
    if run.question is not None:
        return Status("waits for an answer", "fair")
    if run.state == "failed":
        advice = "Clear the run from the task delete on." if decision else "Trigger the erasure again."
        return Status("failed", "failed", f"Its run has failed. {advice}")
    if run.state != "success":
        return Status("is being erased" if decision else "is being planned")
    if documents is None:
        return Status("its run has ended")
    return Status("not finished", "failed", "Its run has ended without a record. Trigger the erasure again.")


def erasure_rows(
    documents: Iterable[Documents], runs: Iterable[RunState], subject_of: Mapping[str, str]
) -> list[ErasureRow]:
    """The erasures, newest first.

    Args:
        documents: the documents of requests. Subjects that are not in ``subject_of`` are left out.
        runs: the runs of these requests, and runs that may have made no request yet.
        subject_of: the subject of each erasure DAG.
    """
    run_of = {(run.dag_id, run.run_id): run for run in runs}
    rows = []
    runs_with_plan = set()
    for documents_of_request in documents:
        plan = documents_of_request.plan
        if plan["subject"] in subject_of.values():
            name = (plan["dag_id"], plan["run_id"])
            runs_with_plan.add(name)
            rows.append(_row(documents_of_request, run_of.get(name)))
    for name, run in run_of.items():
        if name not in runs_with_plan and run.dag_id in subject_of:
            subject = subject_of[run.dag_id]
            rows.append(ErasureRow(subject, None, run.user, run.queued_at, status_of(None, run), run))
    return sorted(rows, key=lambda row: row.requested_at or 0, reverse=True)


def erased_tables(documents: Documents) -> list[ErasedTable]:
    """The tables of an erasure, in the order of its plan."""
    record = documents.record
    entries = {entry["table"]: entry for entry in record["tables"]} if record is not None else {}
    return [_table(entry, entries.get(entry["table"])) for entry in documents.plan["tables"]]


def milliseconds_of(text: str | None) -> int | None:
    """A time of a document (ISO 8601) as ms since the epoch; None for None."""
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)


def _row(documents: Documents, run: RunState | None) -> ErasureRow:
    plan, decision, record = documents.plan, documents.decision, documents.record
    tables: Sequence[Mapping[str, Any]] = plan["tables"] if record is None else record["tables"]
    return ErasureRow(
        plan["subject"],
        plan["request"],
        plan["requester"],
        milliseconds_of(plan["found_at"]),
        status_of(documents, run),
        run,
        approver=None if decision is None else decision["approver"]["name"],
        rows=total_rows(entry["rows" if record is None else "rows_deleted"] for entry in tables),
        files_removed=None if record is None else sum(len(entry["files_removed"]) for entry in tables),
        recorded_at=None if record is None else milliseconds_of(record["recorded_at"]),
    )


def _table(planned: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> ErasedTable:
    unknown = planned["unattributed"]
    words = ""
    if unknown is not None:
        fate = "erased, too" if unknown["erased"] else "kept"
        words = f"{unknown['records']:,}, of which {unknown['mentions']:,} mention the person; these are {fate}"
    table = ErasedTable(
        planned["table"],
        planned["uri"],
        planned["version"],
        planned["rows"],
        planned["on_disk"],
        unattributed=words,
    )
    if recorded is None:
        return table
    return replace(
        table,
        version_after=recorded["version_after"],
        rows_deleted=recorded["rows_deleted"],
        after=recorded["on_disk_after"],
        removed=tuple(recorded["files_removed"]),
    )
