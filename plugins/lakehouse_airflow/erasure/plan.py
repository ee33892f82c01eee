"""The plan of an erasure: the number of a person's rows by table, written to the ledger and read back.

The plan contains no identifier. The person's keys are in a separate document, and the plan has the keyed digest of this
document. The keys are deleted when the request is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import mask_secret

from lakehouse_airflow.approval import APPROVE
from lakehouse_airflow.errors import NotApprovedError
from lakehouse_airflow.markdown import code
from lakehouse_lib.fleet.registry import RESPONSE_HOURS, Registry, Subject

if TYPE_CHECKING:
    from lakehouse_airflow.hook import LakehouseHook
    from lakehouse_lib.ledger import Document, Ledger
    from lakehouse_lib.privacy.places import Place

KIND = "erasure"


def find(hook: LakehouseHook, configured: Subject, subject_id: int | str, *, erase_mentions: bool) -> dict[str, Place]:
    """Find a person's rows in the latest versions, by table name. Older files on disk are not searched.

    Args:
        configured: the registry's subject, with the quarantines of its tables.
        erase_mentions: count unattributed records that mention the person as rows.
    """
    from lakehouse_lib.privacy.places import find_places
    from lakehouse_lib.privacy.subject import subject_from_config

    uris = {table: hook.uri(table) for table in configured.places()}
    return find_places(
        subject_from_config(configured.model_dump(include={"id_type", "rows"}, exclude_none=True)),
        subject_id,
        uris,
        erase_mentions=erase_mentions,
        storage_options={table: hook.storage_options(table) for table in uris},
    )


def keys_document(request: str, subject_id: int | str, places: Iterable[Place]) -> Document:
    """The document with the person's id and keys, the only document of a request that identifies the person."""
    tables = {
        place.table: {
            "keys": place.keys.to_dict(),
            "unattributed": [each.to_dict() for each in place.unattributed],
        }
        for place in places
    }
    return {"format": 1, "request": request, "id": subject_id, "tables": tables}


def places_of(ledger: Ledger, plan: Document) -> tuple[int | str, dict[str, Place]]:
    """The person's id, and the places of a plan by table. The keys of the places are read from the ledger.

    Raises:
        LedgerError: the keys are edited or sealed with another key.
        NotApprovedError: the keys are deleted or belong to another plan.
    """
    from lakehouse_lib.privacy.keys import PersonKeys
    from lakehouse_lib.privacy.places import Place
    from lakehouse_lib.privacy.unattributed import Unattributed

    request = plan["request"]
    keys = ledger.find(request, "keys")
    if keys is None:
        raise NotApprovedError(
            f"request {request} is over and its keys are deleted, because it was rejected, not answered in time, or "
            "ended by the arrival of rows with new keys; trigger the erasure again"
        )
    if ledger.keyed_digest(keys) != plan["keys"]:
        raise NotApprovedError(f"the keys of request {request} do not belong to its plan; trigger the erasure again")
    mask_secret(str(keys["id"]))
    places = {}
    for entry in plan["tables"]:
        table_keys = keys["tables"][entry["table"]]
        places[entry["table"]] = Place(
            **{name: value for name, value in entry.items() if name != "unattributed"},
            keys=PersonKeys.from_dict(table_keys["keys"]),
            unattributed=tuple(Unattributed.from_dict(each) for each in table_keys["unattributed"]),
            erase_mentions=plan["erase_mentions"],
        )
    return keys["id"], places


def delete_identifiers(ledger: Ledger, request: str) -> None:
    """Delete the documents that may hold an identifier: the keys, and the files of purges with their partition folders.

    The keys are deleted last: if the deletion is interrupted, a later run finds the request by its keys.
    """
    ledger.delete_steps(request, "purge")
    ledger.delete(request, "keys")


def is_over(ledger: Ledger, request: str, registry: Registry, now: datetime) -> bool:
    """Whether a request no longer needs its keys: it has its record, was rejected, or was not answered in time.

    The run of a request deletes the keys, unless the run was killed, deleted or marked by hand, or the registry does
    not have the subject. A request counts as unanswered a day after its response time. If the registry does not have
    the subject, the default response time applies. An approved request without a record is not over, because another
    request may not find its keys again.

    Raises:
        LedgerError: a document of the request is edited or sealed with another key.
    """
    plan = ledger.find(request, "plan")
    if plan is None:
        return False
    decision = ledger.find(request, "decision")
    if decision is not None:
        return decision["answer"] != APPROVE or ledger.find(request, "record") is not None
    policy = registry.subjects.get(plan["subject"])
    waits = timedelta(hours=RESPONSE_HOURS if policy is None else policy.response_hours, days=1)
    return datetime.fromisoformat(plan["found_at"]) + waits < now


def require_subject(plan: Document, subject: str) -> None:
    """Check that the plan is about this subject of the registry.

    Raises:
        NotApprovedError: the plan is about another subject.
    """
    if plan["subject"] != subject:
        raise NotApprovedError(f"request {plan['request']} is about a {plan['subject']}; expected a {subject}")


def question(plan: Document) -> tuple[str, str]:
    """The headline and text (Markdown) of the question about a plan. Neither holds an identifier.

    Names of source files are left out, because they may hold an identifier or Markdown.
    """
    lines = [
        f"Request `{plan['request']}`, made at {plan['found_at']} by {code(plan['requester'])} for the "
        f"{plan['subject']} with the hash `{plan['person'][:16]}`.",
        "",
        "These rows will be deleted for good, also on disk. Older versions of the tables with these rows cannot be "
        "read afterwards.",
        "",
        *(f"* {entry['table']}: {entry['rows']} rows in {entry['files']} files" for entry in plan["tables"]),
    ]
    for entry in plan["tables"]:
        unknown = entry["unattributed"]
        if unknown is not None:
            fate = "will be erased, too" if unknown["erased"] else "will be kept"
            lines += [
                "",
                f"{entry['table']} also has {unknown['records']} records without a readable key: WHERE "
                f"{code(unknown['condition'])}, or with a key that cannot be read. {unknown['mentions']} of them hold "
                f"one of the person's keys as a field; these {fate}.",
            ]
    return f"Erase the {plan['subject']} of request {plan['request']}?", "\n".join(lines)
