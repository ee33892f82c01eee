"""The plan of an erasure: where a person's rows are, written to the ledger and read back.

The plan says what will be deleted and holds no identifier. The keys that lead to the rows are a document of their own,
bound to the plan by a keyed digest, and are deleted when the request is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import mask_secret

from lakehouse_airflow.approval import APPROVE, NotApprovedError
from lakehouse_airflow.markdown import code
from lakehouse_lib.fleet.registry import RESPONSE_HOURS, Registry, Subject

if TYPE_CHECKING:
    from lakehouse_airflow.hook import LakehouseHook
    from lakehouse_lib.ledger import Document, Ledger
    from lakehouse_lib.privacy.places import Place

KIND = "erasure"


def find(hook: LakehouseHook, configured: Subject, subject_id: int | str, *, erase_mentions: bool) -> dict[str, Place]:
    """Find a person's rows now, by table, without counting the files on disk.

    Args:
        configured: the registry's subject with the quarantines of its tables.
        erase_mentions: count unattributed records that mention the person among their rows.
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
    """The document with the person's id and keys: the only one of a request that identifies them."""
    tables = {
        place.table: {
            "keys": place.keys.to_dict(),
            "unattributed": [each.to_dict() for each in place.unattributed],
        }
        for place in places
    }
    return {"format": 1, "request": request, "id": subject_id, "tables": tables}


def places_of(ledger: Ledger, plan: Document) -> tuple[int | str, dict[str, Place]]:
    """The person's id and the places of a plan, by table, with their keys from the ledger.

    Raises:
        LedgerError: the keys are edited or sealed with another key.
        NotApprovedError: the keys are deleted, or belong to another plan.
    """
    from lakehouse_lib.privacy.keys import PersonKeys
    from lakehouse_lib.privacy.places import Place
    from lakehouse_lib.privacy.unattributed import Unattributed

    request = plan["request"]
    keys = ledger.find(request, "keys")
    if keys is None:
        raise NotApprovedError(
            f"request {request} is over: its keys are deleted, because it was rejected, not answered in time, or "
            "overtaken by rows with new keys; "
            "trigger the erasure again"
        )
    if ledger.keyed_digest(keys) != plan["keys"]:
        raise NotApprovedError(f"the keys of request {request} are not those of its plan; trigger the erasure again")
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
    """Delete what may hold an identifier: the keys, and the files of purges, whose folders name partitions.

    The keys go last: by them a later run finds a request that was left halfway.
    """
    ledger.delete_steps(request, "purge")
    ledger.delete(request, "keys")


def is_over(ledger: Ledger, request: str, registry: Registry, now: datetime) -> bool:
    """Whether nothing will need the keys of a request: its record stands, the answer was no, or it has none in time.

    Its own run deletes them, unless that was killed, deleted or marked by hand, or its DAG went with the subject. No
    answer counts as none a day after the request's time, which is the default where the registry does not have the
    subject any more. An approved request without a record is not over: no other one might find its keys again.

    Raises:
        LedgerError: one of its documents is edited or sealed with another key.
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
    """Refuse a plan of another kind of person.

    Raises:
        NotApprovedError: the plan is about another subject.
    """
    if plan["subject"] != subject:
        raise NotApprovedError(f"request {plan['request']} is about a {plan['subject']}; expected a {subject}")


def question(plan: Document) -> tuple[str, str]:
    """Headline and text (Markdown) of the question about a plan. Neither holds an identifier.

    Names of suppliers' files are left out: they may hold one, and Markdown.
    """
    lines = [
        f"Request `{plan['request']}`, made at {plan['found_at']} by {code(plan['requester'])} for the "
        f"{plan['subject']} known here as `{plan['person'][:16]}`.",
        "",
        "Deleted for good, on disk too, and with them the versions that hold them:",
        "",
        *(f"* {entry['table']}: {entry['rows']} rows in {entry['files']} files" for entry in plan["tables"]),
    ]
    for entry in plan["tables"]:
        unknown = entry["unattributed"]
        if unknown is not None:
            fate = "erased too" if unknown["erased"] else "kept"
            lines += [
                "",
                f"{entry['table']} also has {unknown['records']} records without a readable key: WHERE "
                f"{code(unknown['condition'])}, or with a key that cannot be read. {unknown['mentions']} of them hold "
                f"one of the person's keys as a field; these are {fate}.",
            ]
    return f"Erase the {plan['subject']} of request {plan['request']}?", "\n".join(lines)
