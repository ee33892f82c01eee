"""The identity column of a table, version by version: no number is used twice, and the mark covers all numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse_lib.schema import Field

START, STEP = 10, 3
COLUMN = Field(
    "number",
    "long",
    metadata={
        "delta.identity.start": START,
        "delta.identity.step": STEP,
        "delta.identity.allowExplicitInsert": False,
    },
)


class Numbers:
    """The high water mark after each commit, and all numbers so far, those of deleted rows included."""

    def __init__(self) -> None:
        self._mark = START - STEP
        self._used: set[int] = set()

    def remember(self, actions: list[dict[str, Any]]) -> str | None:
        """Remember the high water mark of a commit; returns what is wrong with it."""
        for action in actions:
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                entries = next((field["metadata"] for field in fields if field["name"] == COLUMN.name), {})
                before, self._mark = self._mark, entries.get("delta.identity.highWaterMark", START - STEP)
                if self._mark < before:
                    return f"the high water mark of the identity column goes back from {before} to {self._mark}"
        return None

    def problem(self, before: Mapping[int, int], after: Mapping[int, int]) -> str | None:
        """What is wrong with the numbers of rows before and after a commit; None: nothing."""
        for row, number in after.items():
            if row in before:
                if before[row] != number:
                    return f"the number of the row {row} changes from {before[row]} to {number}"
            elif number in self._used:
                return f"the new row {row} has the number {number}, which is used already"
            elif number is None or not START <= number <= self._mark or (number - START) % STEP:
                return f"the row {row} has the number {number}, and the mark is {self._mark}"
            else:
                self._used.add(number)
        return None
