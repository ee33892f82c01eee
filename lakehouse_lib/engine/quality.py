"""Quality rules and verdicts: the values that ingestion and the quality gate of an engine exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """An expectation of a Great Expectations suite.

    Attributes:
        id: ``meta.rule_id`` of the expectation.
        type: the name of the expectation.
        arguments: its keyword arguments.
        column: the column that it checks, or the first of several columns; None: it checks the whole table.
        is_against_table: whether a uniqueness rule also compares with the rows of the table (``meta.unique_in``).
    """

    id: str
    type: str
    arguments: Mapping[str, Any]
    column: str | None
    is_against_table: bool = False

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.id} ({self.type}: {arguments})"


def is_rule_broken(broken: int, counted: int, mostly: float) -> bool:
    """Whether too many rows break a rule about single rows.

    As in Great Expectations, the share of rows that pass is computed as a double.

    Args:
        broken: the number of rows that do not pass.
        counted: the number of rows to which the rule applies; read only if ``mostly`` is below 1.
        mostly: the share of the counted rows that must pass.
    """
    return broken > 0 and (mostly >= 1 or (counted - broken) / counted < mostly)


@dataclass(frozen=True)
class Verdict:
    """The quality gate's result for a batch.

    Attributes:
        passing: a DataFrame of the rows that break no rule.
        failing: a DataFrame of the other rows, with an array ``__violations`` of (column, reason, rule); None if all
            rows pass.
        rows_failing: the number of failing rows.
        broken: the number of rows that break a rule, by rule id; a row may break several rules.
    """

    passing: Any
    failing: Any
    rows_failing: int
    broken: Mapping[str, int]
