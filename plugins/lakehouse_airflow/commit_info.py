"""The part of a commitInfo that Airflow shows on a page and in XCom, which every viewer may read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakehouse_airflow.registry import is_configured, load_registry
from lakehouse_lib.fleet.locations import place

WITHHELD = "withheld, because the table holds rows of a subject"

#: Operation parameters that quote a condition on rows, as Delta's writers name them: predicate, matchedPredicates, ...
_CONDITION = re.compile("predicate|where|filter|condition", re.IGNORECASE)


def shown_info(info: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """The commitInfo without the conditions of its operation, where a subject's rows are in the table at ``uri``.

    The predicate of a delete may name a person. Erasures put a label in its place; other deletes and other writers do
    not. commitInfo of any other table is returned as it is.

    Raises:
        RegistryError: the registry cannot be read, so nothing says whose rows the table holds.
    """
    parameters = info.get("operationParameters")
    if not isinstance(parameters, Mapping) or not _holds_subjects(uri):
        return dict(info)
    shown = {name: WITHHELD if _CONDITION.search(str(name)) else value for name, value in parameters.items()}
    return {**info, "operationParameters": shown}


def _holds_subjects(uri: str) -> bool:
    """Whether a subject of the registry has rows in the table at ``uri``, or in the table it is the quarantine of."""
    if not is_configured():
        return False
    registry = load_registry()
    names = {name for subject in registry.subjects for name in registry.subject(subject).places()}
    return place(uri) in {place(registry.table(name).uri) for name in names}
