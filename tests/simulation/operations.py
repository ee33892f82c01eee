"""What an operation does to rows, apart from files and logs: the specification that commits are judged by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Rows by their ids: what each is grouped by, and what increments count up.
Rows = Mapping[str, tuple[int, int]]

#: A commit that says of itself nothing, such as vacuum's notes.
NOTHING: Mapping[str, Any] = {"kind": "nothing"}


def applied(operation: Mapping[str, Any], rows: Rows) -> Rows:
    """What an operation makes of the rows before it."""
    key = operation.get("key")
    match operation["kind"]:
        case "append":
            return {**rows, **_own(operation)}
        case "increment":
            return {one: (k, v + (k == key)) for one, (k, v) in rows.items()}
        case "delete":
            return {one: (k, v) for one, (k, v) in rows.items() if k != key}
        case "overwrite":
            return _own(operation)
        case "nothing" | "compact" | "count":
            return rows
        case unknown:
            raise ValueError(f"the operation {unknown}")


def replayed(operations: Iterable[Mapping[str, Any]]) -> Rows:
    """What operations make of nothing, one after the other."""
    rows: Rows = {}
    for operation in operations:
        rows = applied(operation, rows)
    return rows


def _own(operation: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {one: (k, v) for one, (k, v) in operation["rows"].items()}
