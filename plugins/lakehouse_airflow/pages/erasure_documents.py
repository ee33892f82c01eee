"""The documents of erasures in the ledger, with their seals checked. The keys of persons are never read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowException
from fastapi import HTTPException

from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.erasure.plan import KIND
from lakehouse_airflow.pages.views.erasure import Documents
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.ledger import is_request
from lakehouse_lib.threads import map_in_threads

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.ledger import Ledger

logger = logging.getLogger(__name__)

#: The number of newest requests that the page of all erasures reads.
MOST = 200
_READERS = 16


def newest_documents(registry: Registry) -> tuple[list[Documents], str | None]:
    """The documents of the newest erasures, and the reason if documents could not be read (None: all were read)."""
    try:
        ledger = open_ledger(registry)
        requests = ledger.newest_requests("plan", MOST)
    except (AirflowException, DeltaError) as error:
        logger.warning("the ledger cannot be read: %s", error)
        return [], f"The ledger cannot be read: {error}"
    problems: list[str] = []
    read = list(map_in_threads(lambda request: _read_or_report(ledger, request, problems), requests, _READERS))
    return [each for each in read if each is not None and each.plan.get("kind") == KIND], " ".join(problems) or None


def documents_of(registry: Registry, subject: str, request: str) -> Documents:
    """The documents of an erasure.

    Raises:
        HTTPException: 404: the ledger has no such request of this subject, or the id is not valid.
        LedgerError: a document is edited or sealed with another key.
        AirflowFailException: the connection with the ledger's key is missing on this server or not valid, or the
            registry has no ledger.
    """
    ledger = open_ledger(registry)
    documents = _read(ledger, request) if is_request(request) else None
    if documents is None or documents.plan.get("kind") != KIND or documents.plan["subject"] != subject:
        raise HTTPException(404, f"the ledger has no request {request} about a {subject}")
    return documents


def _read_or_report(ledger: Ledger, request: str, problems: list[str]) -> Documents | None:
    try:
        return _read(ledger, request)
    except DeltaError as error:
        problems.append(f"The request {request} cannot be read: {error}.")
        return None


def _read(ledger: Ledger, request: str) -> Documents | None:
    plan = ledger.find(request, "plan")
    if plan is None:
        return None
    return Documents(plan, ledger.find(request, "decision"), ledger.find(request, "record"))
