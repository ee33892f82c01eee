"""Quality rules and verdicts: the values that ingestion and an engine exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """One expectation of a suite. ``column``: what it is about (of several the first), or None for the table."""

    id: str
    type: str
    arguments: Mapping[str, Any]
    column: str | None

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.id} ({self.type}: {arguments})"


@dataclass(frozen=True)
class Verdict:
    """What the gate made of a batch.

    Attributes:
        passing: a DataFrame of the rows that break no rule.
        failing: a DataFrame of the others, with an array ``__violations`` of (column, reason, rule); None when there
            are none.
        rows_failing: how many they are.
        broken: rule id -> number of rows that break it; a row may break several.
    """

    passing: Any
    failing: Any
    rows_failing: int
    broken: Mapping[str, int]
