"""Hide the conditions in a commitInfo before a page or XCom shows it: any viewer may read pages and XCom."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_airflow.registry import is_configured, load_registry
from lakehouse_lib.store.schemes import canonical_location

WITHHELD = "withheld, because the table holds rows of a subject"

#: Operation parameters that quote a condition on rows, as Delta's writers name them: predicate, matchedPredicates, ...
_CONDITION = re.compile("predicate|where|filter|condition", re.IGNORECASE)


def shown_info(info: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """The commitInfo, without the conditions of its operation if the table at ``uri`` has rows of a subject.

    The predicate of a delete may name a person. An erasure commits a label instead of the predicate. Other deletes, and
    other writers, commit the predicate.

    Raises:
        RegistryError: the registry cannot be read, so it is unknown whether the table has rows of a subject.
    """
    return shown_infos([info], uri)[0]


def shown_infos(infos: Sequence[Mapping[str, Any]], uri: str) -> list[dict[str, Any]]:
    """Several commitInfos of the table at ``uri``, each as ``shown_info`` returns it. The registry is read once."""
    return [_without_conditions(info) for info in infos] if _holds_subjects(uri) else [dict(info) for info in infos]


def _without_conditions(info: Mapping[str, Any]) -> dict[str, Any]:
    parameters = info.get("operationParameters")
    if not isinstance(parameters, Mapping):
        return dict(info)
    shown = {name: WITHHELD if _CONDITION.search(str(name)) else value for name, value in parameters.items()}
    return {**info, "operationParameters": shown}


def _holds_subjects(uri: str) -> bool:
    """Whether the table at ``uri`` is a subject's table in the registry, or the quarantine of such a table."""
    if not is_configured():
        return False
    registry = load_registry()
    names = {name for subject in registry.subjects for name in registry.subject(subject).places()}
    return canonical_location(uri) in {canonical_location(registry.table(name).uri) for name in names}
