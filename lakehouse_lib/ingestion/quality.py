"""Read quality suites, in the JSON of Great Expectations, as rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError

#: The key in an expectation's ``meta`` that says among which rows keys must be unique, and the values of this key.
UNIQUE_IN = "unique_in"
_BATCH, _TABLE = "batch", "table"
_UNIQUENESS = ("expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique")
_KEYS = {"type", "kwargs", "meta", "id", "name", "notes", "description", "severity"}


def read_rules(suite: Any, columns: Sequence[str]) -> list[Rule]:
    """The rules of a suite's JSON.

    Raises:
        QualityError: the suite is empty or malformed, an id is missing or duplicate, or a rule names an unknown column.
    """
    hint = 'Write {"name": ..., "expectations": [{"type": ..., "kwargs": {...}, "meta": {"rule_id": ...}}]}'
    if not isinstance(suite, dict) or not isinstance(suite.get("expectations"), list):
        raise QualityError("the quality suite is not valid; expected a list of expectations", hint=hint)
    if not suite["expectations"]:
        raise QualityError(
            "the quality suite is empty; expected at least one rule", hint="Add a rule, or leave out the suite"
        )
    rules: list[Rule] = []
    for entry in suite["expectations"]:
        is_expectation = isinstance(entry, dict) and not set(entry) - _KEYS and isinstance(entry.get("type"), str)
        if not is_expectation or not all(isinstance(entry.get(key) or {}, dict) for key in ("meta", "kwargs")):
            raise QualityError(f"{entry!r} is not a valid expectation of a quality suite", hint=hint)
        identity = (entry.get("meta") or {}).get("rule_id")
        if not isinstance(identity, str) or not identity or identity in {rule.id for rule in rules}:
            raise QualityError(
                f"the rule {entry!r} has no unique meta.rule_id", hint="Give each rule a meta.rule_id of its own"
            )
        arguments = entry.get("kwargs") or {}
        if not isinstance(arguments.get("column_list") or [], list):
            raise QualityError(f"the rule {identity} has a column_list that is not a list", hint=hint)
        named = [
            *(arguments[key] for key in ("column", "column_A", "column_B") if key in arguments),
            *(arguments.get("column_list") or ()),
        ]
        unknown = [name for name in named if name not in columns]
        if unknown:
            raise QualityError(
                f"the rule {identity} names unknown columns {', '.join(map(str, unknown))}; expected columns of the "
                "table",
                hint=f"The columns are {', '.join(columns)}",
            )
        is_against_table = _is_against_table(entry["type"], entry["meta"], identity)
        rules.append(Rule(identity, entry["type"], arguments, named[0] if named else None, is_against_table))
    return rules


def _is_against_table(kind: str, meta: Mapping[str, Any], identity: str) -> bool:
    """Whether a rule judges uniqueness among the rows of the batch and of the table."""
    if UNIQUE_IN not in meta:
        return False
    if kind not in _UNIQUENESS or meta[UNIQUE_IN] not in (_BATCH, _TABLE):
        raise QualityError(
            f"the rule {identity} ({kind}) has meta.{UNIQUE_IN} {meta[UNIQUE_IN]!r}; expected {_BATCH!r} or {_TABLE!r}",
            hint=f"Only {' and '.join(_UNIQUENESS)} have meta.{UNIQUE_IN}",
        )
    return bool(meta[UNIQUE_IN] == _TABLE)
