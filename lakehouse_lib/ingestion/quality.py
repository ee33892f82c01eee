"""Quality suites in the JSON of Great Expectations, read as rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError

_KEYS = {"type", "kwargs", "meta", "id", "name", "notes", "description", "severity"}


def read_rules(suite: Any, columns: Sequence[str]) -> list[Rule]:
    """The rules of a suite's JSON.

    Raises:
        QualityError: the suite is empty or malformed, an id is missing or doubled, or a rule names an unknown column.
    """
    hint = 'Write {"name": ..., "expectations": [{"type": ..., "kwargs": {...}, "meta": {"rule_id": ...}}]}'
    if not isinstance(suite, dict) or not isinstance(suite.get("expectations"), list):
        raise QualityError("the quality suite has no list of expectations", hint=hint)
    if not suite["expectations"]:
        raise QualityError(
            "the quality suite is empty, so it would pass everything", hint="Give it a rule, or no suite"
        )
    rules: list[Rule] = []
    for entry in suite["expectations"]:
        if not isinstance(entry, dict) or set(entry) - _KEYS or not isinstance(entry.get("type"), str):
            raise QualityError(f"the quality suite holds what is no expectation: {entry!r}", hint=hint)
        identity = (entry.get("meta") or {}).get("rule_id")
        if not isinstance(identity, str) or not identity or identity in {rule.id for rule in rules}:
            raise QualityError(f"the rule {entry!r} has no meta.rule_id of its own", hint="Give each rule one")
        arguments = entry.get("kwargs") or {}
        named = [
            *(arguments[key] for key in ("column", "column_A", "column_B") if key in arguments),
            *arguments.get("column_list", ()),
        ]
        unknown = [name for name in named if name not in columns]
        if unknown:
            raise QualityError(
                f"the rule {identity} names columns the table does not have: {', '.join(map(str, unknown))}",
                hint=f"The columns are {', '.join(columns)}",
            )
        rules.append(Rule(identity, entry["type"], arguments, named[0] if named else None))
    return rules
