"""The plan of an actor's operation, as a function of the versions before it, and the rules that tables may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

#: id -> key and part.
Rows = Mapping[int, tuple[int, int]]
#: The properties of a table, and under names of this simulation its columns and its description.
Properties = Mapping[str, str]

KEYS, PARTS = 4, 2
_CONSTRAINT = "delta.constraints."
#: The conditions of CHECK constraints, and whether they are true for a key and a part.
RULES: Mapping[str, Callable[[int, int], bool]] = {
    f"key <> {key} OR part = {part}": (lambda k, p, key=key, part=part: k != key or p == part)
    for key in range(KEYS)
    for part in range(PARTS)
} | {f"key < {KEYS}": lambda key, _: key < KEYS}


class State(Protocol):
    """What a version has."""

    @property
    def rows(self) -> Rows: ...

    @property
    def properties(self) -> Properties: ...


@dataclass(frozen=True)
class OperationPlan:
    """The plan of an actor's operation.

    Attributes:
        adds: rows of an append or an overwrite, and those of a merge's source, which replace rows with their ids.
        goes: whether a row is to be deleted or replaced, or updated if there is ``becomes``; None: no row is.
        becomes: the new key and part of an updated row, at least one of which is another.
        if_new: rows of ``adds`` are added only if no row has their key.
        sets: new values of properties; None removes a property.
        restores: the version that is restored.
    """

    verb: str
    adds: Rows = field(default_factory=dict)
    goes: Callable[[int, int, int], bool] | None = None
    becomes: Callable[[int, int], tuple[int, int]] | None = None
    if_new: bool = False
    sets: Mapping[str, str | None] = field(default_factory=dict)
    restores: int | None = None

    def rows_after(self, history: Sequence[State]) -> Rows:
        """The rows after the operation on the last of these versions."""
        rows = history[-1].rows
        if self.restores is not None:
            return history[self.restores].rows
        if self.verb == "overwrite":
            return self.adds
        goes = self.goes or (lambda *_: False)
        becomes = self.becomes
        if becomes is not None:
            return {number: becomes(*row) if goes(number, *row) else row for number, row in rows.items()}
        keys = {key for key, _ in rows.values()} if self.if_new else set()
        added = {number: row for number, row in self.adds.items() if row[0] not in keys}
        return {row_number: row for row_number, row in rows.items() if not goes(row_number, *row)} | added

    def properties_after(self, history: Sequence[State]) -> Properties:
        """The properties after the operation on the last of these versions."""
        if self.restores is not None:
            return history[self.restores].properties
        after = {**history[-1].properties, **self.sets}
        return {name: value for name, value in after.items() if value is not None}

    def breaks_a_rule(self, history: Sequence[State]) -> bool:
        """Whether the rows after the operation violate a constraint of the table after the operation."""
        return breaks_a_rule(self.rows_after(history), self.properties_after(history))


def constraints_of(properties: Properties) -> dict[str, str]:
    """The constraints among properties: name -> condition."""
    return {
        name.removeprefix(_CONSTRAINT): condition
        for name, condition in properties.items()
        if name.startswith(_CONSTRAINT)
    }


def constraint(name: str, condition: str | None) -> dict[str, str | None]:
    """The property of a constraint; without a condition, its removal."""
    return {_CONSTRAINT + name: condition}


def breaks_a_rule(rows: Rows, properties: Properties) -> bool:
    """Whether one of the rows violates a constraint."""
    return any(not RULES[condition](*row) for condition in constraints_of(properties).values() for row in rows.values())


def may_be_broken(condition: str, lowest: int, highest: int) -> bool:
    """Whether a row with a key from the lowest to the highest may violate a constraint."""
    return any(not RULES[condition](key, part) for key in range(lowest, highest + 1) for part in range(PARTS))
