"""Operators that erase a person as approved: delete the rows, then purge the files that still hold them.

Both operators read the plan, its keys and the decision from the ledger, verify these documents, and make the conditions
from the keys. Rows that arrive while the approval waits may have new keys. So the delete searches again, and fails
before it deletes anything if there are new keys.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import timezone

from lakehouse_airflow.erasure import plan as erasure_plan
from lakehouse_airflow.erasure.request import Erasure, ErasureTasks
from lakehouse_airflow.errors import PlanOutdatedError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.erasure_operator import ApprovedErasureOperator
from lakehouse_airflow.operators.base.job_operator import SubmitOperator
from lakehouse_lib.catalogue import ERASE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.privacy.places import Place

#: The advice after a failed run. The first task is not cleared: after a delete, it would find neither the keys of the
#: deleted rows nor the files that still have these rows.
CLEAR_FROM_DELETE = "clear this run from its delete task on; that task deletes the rows, or says what to do"


class LakehouseEraseOperator(SubmitOperator):
    """Deletes a person's rows from the tables of an approved plan, in one Spark application.

    Before the deletes, the operator searches again, because rows with new keys may have arrived. Without this search,
    it would delete a new order, but not the order's line items, because the plan does not have the key of the order. A
    retry may find fewer keys, because an earlier try has deleted rows. The deletes use the keys of the plan. If the
    request already has its record, the operator does nothing.

    Args:
        subject: a subject of the registry.
        located_by: task id of the LakehouseLocateSubjectOperator.
        approved_by: task id of the LakehouseErasureApprovalOperator.

    Returns:
        ``{"job", "request", "tables": [{"table" (URI), "read_version", "version", "metrics"}]}``. Tables without rows
        of the person are left out.

    Raises:
        AirflowFailException: there is no valid approval, rows with new keys have arrived, or the registry has moved a
            table. Nothing is deleted.
    """

    job = ERASE.name
    job_parameters = ERASE.parameters
    ui_color = "#fce8e6"

    def __init__(self, *, subject: str, located_by: str, approved_by: str, **kwargs: Any) -> None:
        # Each try checks the tables before it deletes, so no delete of an earlier try may still run.
        super().__init__(**{**kwargs, "durable": False})
        self.erasure = ErasureTasks(subject, located_by, approved_by)
        self._places: list[Place] = []
        self._request = ""

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            erasure = self.erasure.open(context)
        if erasure.record is not None:
            self.log.info("request %s is finished: it has its record, and nothing is left to delete", erasure.request)
            return {"job": self.job, "request": erasure.request, "tables": []}
        self.log.info("request %s: approved by %s", erasure.request, erasure.decision["approver"]["id"])
        hook = LakehouseHook(self.lakehouse_conn_id)
        with erasure.without_keys(), as_task_failure():
            self._require_no_new_keys(hook, erasure)
            self._places = [place for place in erasure.places.values() if _has_rows(hook, place)]
        self._request = erasure.request
        if not self._places:
            return {"job": self.job, "request": erasure.request, "tables": []}
        with erasure.without_keys():
            try:
                result = super().execute(context)
            except AirflowException:
                partial_result = self._submission.partial_result if self._submission is not None else None
                _note_deletes(erasure, partial_result or {})
                raise
            _note_deletes(erasure, result)
        return {**result, "request": erasure.request}

    def _require_no_new_keys(self, hook: LakehouseHook, erasure: Erasure) -> None:
        from lakehouse_lib.privacy.drift import find_arrivals, find_recreated, has_lost_keys

        mentions = erasure.plan["erase_mentions"]
        now = erasure_plan.find(hook, erasure.subject, erasure.identifier, erase_mentions=mentions)
        recreated = find_recreated(erasure.places, now)
        if recreated:
            raise PlanOutdatedError(
                f"tables were recreated since request {erasure.request} was planned ({', '.join(recreated)}), and this "
                "try has deleted nothing; trigger the erasure again"
            )
        tables = find_arrivals(erasure.places, now)
        if not tables:
            return
        if has_lost_keys(erasure.places, now):
            # A new search would find neither these keys nor the files on disk that hold their rows.
            advice = (
                "some keys of this request are no longer in the tables, and only this request has them: erase the same "
                f"person in another run, and then clear this run from its task {self.task_id} on"
            )
        else:
            # A new request finds all of these keys, so this request does not need them.
            erasure.ledger.delete(erasure.request, "keys")
            advice = "the request is over, so trigger the erasure again"
        raise PlanOutdatedError(
            f"rows with new keys have arrived since request {erasure.request} was planned ({', '.join(tables)}), and "
            f"this try has deleted nothing; {advice}"
        )

    def opened_tables(self) -> list[str]:
        return [place.table for place in self._places]

    def storage_options(self, hook: LakehouseHook) -> dict[str, dict[str, str] | None]:
        return {place.uri: hook.storage_options(place.table) for place in self._places}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        deletes = [
            {"table": place.uri, "predicate": place.keys.sql(), "request": self._request} for place in self._places
        ]
        return {"deletes_file": json.dumps(deletes)}


class LakehousePurgeOperator(ApprovedErasureOperator):
    """Deletes from disk the files that are not in the latest versions and hold the person's rows.

    Older versions that need one of these files cannot be read afterwards. The SHA-256 of each file is put into the
    ledger before the file is deleted. If the request already has its record, the operator does nothing.

    Returns:
        ``{"request", "tables": {table: {"files", "rows", "bytes", "versions_lost", "changes_lost", "kept",
        "out_of_reach", "hard_linked"}}}``. ``versions_lost`` are versions that cannot be read afterwards.
        ``changes_lost`` are versions whose part of the change data feed cannot be read afterwards. ``kept`` is the
        number of files that stay because they may belong to a running writer. ``out_of_reach`` is the number of files
        that stay because they are behind a symbolic link or in another folder. ``hard_linked`` is the number of deleted
        files whose bytes stay under another name.
    """

    def run(self, erasure: Erasure) -> dict[str, Any]:
        if erasure.record is not None:
            self.log.info("request %s is finished: it has its record, and nothing is left to purge", erasure.request)
        hook = LakehouseHook(self.lakehouse_conn_id)
        reports = {}
        with erasure.without_keys(), as_task_failure():
            erasure.require_same_tables(hook)
            for table, place in erasure.places.items():
                reports[table] = _purge(erasure, place, hook.storage_options(table))
        return {"request": erasure.request, "tables": reports}


def _purge(erasure: Erasure, place: Place, options: dict[str, str] | None) -> dict[str, Any]:
    from lakehouse_lib.errors import RetentionError
    from lakehouse_lib.privacy.file_digests import file_digests
    from lakehouse_lib.privacy.purge import purge
    from lakehouse_lib.store import open_store

    def note(paths: Sequence[str]) -> None:
        # The digests are put before the files are deleted, because an interrupted try cannot report the files
        # afterwards.
        files = [asdict(file) for file in file_digests(open_store(place.uri, options), paths)]
        erasure.ledger.put_step(
            erasure.request, "purge", {"at": timezone.utcnow().isoformat(), "table": place.table, "files": files}
        )

    try:
        report = purge(place.uri, place.keys.sql(), storage_options=options, before_delete=note)
    except RetentionError as error:
        raise AirflowFailException(
            f"RetentionError: {error}. If rows arrived after the delete: {CLEAR_FROM_DELETE}"
        ) from None
    return {
        "files": len(report.files),
        "rows": report.rows,
        "bytes": report.bytes,
        "versions_lost": list(report.versions_lost),
        "changes_lost": list(report.changes_lost),
        "kept": len(report.kept),
        "out_of_reach": len(report.out_of_reach),
        "hard_linked": len(report.hard_linked),
    }


def _has_rows(hook: LakehouseHook, place: Place) -> bool:
    """Whether a table needs a delete: it had rows of the person when the plan was made, or it has such rows now.

    Rows count even if a deletion vector hides them. Line items may arrive after their order was deleted. Then only the
    keys of the plan find these line items.
    """
    from lakehouse_lib.privacy.purge import prove

    if place.has_rows:
        return True
    return prove(place.uri, place.keys.sql(), storage_options=hook.storage_options(place.table)).rows > 0


def _note_deletes(erasure: Erasure, result: dict[str, Any]) -> None:
    """Put the number of rows that this try has deleted into the ledger, for the record."""
    tables = {place.uri: place.table for place in erasure.places.values()}
    deleted = [
        {"table": tables[each["table"]], "version": each["version"], "rows": each["metrics"]["numDeletedRows"]}
        for each in result.get("tables", ())
        if each["table"] in tables
    ]
    if deleted:
        with as_task_failure():
            step = {"at": timezone.utcnow().isoformat(), "tables": deleted}
            erasure.ledger.put_step(erasure.request, "delete", step)
