"""The operator that ends an erasure: prove that no row of the person is left, and put the record into the ledger."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import timezone

from lakehouse_airflow.erasure.plan import delete_identifiers
from lakehouse_airflow.erasure.request import Erasure
from lakehouse_airflow.errors import NotErasedError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.erasure_operator import ApprovedErasureOperator
from lakehouse_airflow.operators.erasure.erase import CLEAR_FROM_DELETE

if TYPE_CHECKING:
    from lakehouse_lib.ledger import Document
    from lakehouse_lib.privacy.places import Place
    from lakehouse_lib.privacy.purge import Proof

LANDING_NOTE = "Landing files are not erased, and the person's rows in landing files are not counted"


class LakehouseErasureReportOperator(ApprovedErasureOperator):
    """Counts the person's rows in every file on disk, and puts the record into the ledger if none is left.

    Then the operator deletes the person's keys from the ledger. The record is made once. A cleared task returns the
    same record.

    Returns:
        ``{"request", "digest", "subject", "person", "tables": {table: {"before", "after"}}, "unattributed": {table:
        {"records", "mentions"}}, "notes"}``. ``before`` and ``after`` are the numbers of rows and files on disk.
        ``unattributed`` are the numbers of records on disk without a readable key. ``notes`` names other places where
        the person's data may be.

    Raises:
        AirflowFailException: there is no valid approval, a row is left, or a table was recreated.
    """

    def run(self, erasure: Erasure) -> dict[str, Any]:
        record = erasure.record
        if record is None:
            with erasure.without_keys(), as_task_failure():
                record = self._finish(erasure)
        else:
            self.log.info("request %s is finished: it has its record", erasure.request)
        with as_task_failure():
            delete_identifiers(erasure.ledger, erasure.request)
        for note in record["notes"]:
            self.log.warning(note)
        tables = {
            entry["table"]: {"before": entry["on_disk_before"], "after": entry["on_disk_after"]}
            for entry in record["tables"]
        }
        names = ("request", "digest", "subject", "person", "unattributed", "notes")
        return {**{name: record[name] for name in names}, "tables": tables}

    def _finish(self, erasure: Erasure) -> Document:
        from lakehouse_lib.privacy.purge import prove

        hook = LakehouseHook(self.lakehouse_conn_id)
        erasure.require_same_tables(hook)
        proofs: dict[str, Proof] = {}
        unattributed = {}
        for table, place in erasure.places.items():
            options = hook.storage_options(table)
            proofs[table] = prove(place.uri, place.keys.sql(), storage_options=options)
            unknown = _remaining_unattributed(place, options)
            if unknown is not None:
                unattributed[table] = unknown
        failures = [
            f"{table}: {proof.rows} rows, {len(proof.unreadable)} files that cannot be read"
            for table, proof in proofs.items()
            if not proof.clean
        ]
        if failures:
            raise NotErasedError(
                f"the {erasure.plan['subject']} of request {erasure.request} is not erased from disk "
                f"({'; '.join(failures)}): {CLEAR_FROM_DELETE}. Files of a running writer can be purged an hour later"
            )
        record = _record(erasure, hook, proofs, unattributed)
        return erasure.ledger.put(erasure.request, "record", record)


def _remaining_unattributed(place: Place, options: dict[str, str] | None) -> dict[str, int] | None:
    from lakehouse_lib.privacy.keys import any_of
    from lakehouse_lib.privacy.purge import prove

    if not place.unattributed:
        return None
    conditions = (
        any_of([each.predicate for each in place.unattributed]),
        any_of([each.mentions_predicate for each in place.unattributed]),
    )
    records, mentions = (prove(place.uri, sql, storage_options=options).rows for sql in conditions)
    return {"records": records, "mentions": mentions} if records else None


def _record(
    erasure: Erasure, hook: LakehouseHook, proofs: dict[str, Proof], unattributed: dict[str, dict[str, int]]
) -> Document:
    from lakehouse_lib import engine_info
    from lakehouse_lib.ledger import digest
    from lakehouse_lib.privacy.places import counts, total_rows
    from lakehouse_lib.privacy.traces import find_traces

    plan, decision = erasure.plan, erasure.decision
    recorded_rows: defaultdict[str, dict[int | None, int | None]] = defaultdict(dict)
    for step in erasure.ledger.steps(erasure.request, "delete"):
        for each in step["tables"]:
            recorded_rows[each["table"]][each["version"]] = each["rows"]
    now = timezone.utcnow()
    tables, remains = [], []
    for entry in plan["tables"]:
        table, place = entry["table"], erasure.places[entry["table"]]
        options = hook.storage_options(table)
        traces = find_traces(place.uri, erasure.request, entry["version"] + 1, storage_options=options)
        # The commits of a killed try are only in the log, because the try has put nothing into the ledger. Commits that
        # a log cleanup has deleted are only in the ledger.
        deleted = recorded_rows[table] | traces.deleted
        tables.append(
            {
                **{name: entry[name] for name in ("table", "uri", "table_id")},
                "version_before": entry["version"],
                "version_after": proofs[table].version,
                "rows_found": entry["rows"],
                "rows_deleted": total_rows(deleted.values()),
                "on_disk_before": entry["on_disk"],
                "on_disk_after": counts(proofs[table]),
                "files_removed": _purged_files(erasure, table),
            }
        )
        remains.append({"table": table, "what": proofs[table].note, "until": _expires(traces.log_retention, now)})
    notes = sorted({*(proof.note for proof in proofs.values()), LANDING_NOTE, *_notes(plan, unattributed)})
    return {
        "format": 1,
        "request": erasure.request,
        "digest": digest(plan),
        **{name: plan[name] for name in ("subject", "person", "dag_id", "run_id", "requester", "found_at")},
        "erase_mentions": plan["erase_mentions"],
        "approver": decision["approver"],
        "approved_at": decision["answered_at"],
        "recorded_at": now.isoformat(),
        "library": engine_info(),
        "tables": tables,
        "unattributed": unattributed,
        "left": [*remains, {"table": None, "what": LANDING_NOTE, "until": None}],
        "notes": notes,
    }


def _purged_files(erasure: Erasure, table: str) -> list[Document]:
    """The files that the tries of the request have purged, with partition values hidden.

    Each of these files is deleted. A file that still existed would contain the person's rows, and the report would
    fail.
    """
    from lakehouse_lib.privacy.partition_values import without_partition_values

    files = {
        (file["path"], file["sha256"]): file
        for step in erasure.ledger.steps(erasure.request, "purge")
        if step["table"] == table
        for file in step["files"]
    }
    return [{**files[key], "path": without_partition_values(key[0])} for key in sorted(files)]


def _expires(retention: timedelta | None, now: datetime) -> str | None:
    """The time (ISO 8601) at which the last log entry about the person's rows expires; None: it does not expire."""
    return None if retention is None else (now + retention).isoformat()


def _notes(plan: Document, unattributed: dict[str, dict[str, int]]) -> list[str]:
    conditions = {entry["table"]: entry["unattributed"] for entry in plan["tables"]}
    return [
        f"{table}: {counts['records']} records without a readable key are not erased; {counts['mentions']} of "
        f"them mention the {plan['subject']}. They are the records WHERE {conditions[table]['condition']}, or with "
        "a key that cannot be read"
        for table, counts in unattributed.items()
    ]
