"""What an operation does to rows, apart from files and logs: the specification that commits are judged by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Rows by their ids: what each is grouped by, and what increments count up.
Rows = Mapping[str, tuple[int, int]]

#: What rows keep when they are copied, by their names: row id and version; None: the version of the commit.
RowIds = Mapping[str, tuple[int, int | None]]

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
        case "insert":
            return {**rows, **derived(operation, rows)}
        case "nothing" | "compact" | "count":
            return rows
        case unknown:
            raise ValueError(f"the operation {unknown}")


def row_ids(stored: Mapping[str, Sequence[int | None]], base: int, version: int) -> dict[str, tuple[int, int]]:
    """Of the rows of a file: what is stored after key and value, else what their place and their file's commit say."""
    found = {}
    for place, (one, (_, _, *kept)) in enumerate(stored.items()):
        row, own = kept or (None, None)
        found[one] = (base + place if row is None else row, version if own is None else own)
    return found


def derived(operation: Mapping[str, Any], rows: Rows) -> dict[str, tuple[int, int]]:
    """What an INSERT ... SELECT adds: rows that count those of the key it reads (of every key, where it names none),
    increments and all."""
    count = sum(v + 1 for k, v in rows.values() if operation["key"] in (None, k))
    return {one: (k, count) for one, (k, _) in _own(operation).items()}


def replayed(operations: Iterable[Mapping[str, Any]], rows: Rows) -> Rows:
    """What operations make of rows, one after the other."""
    for operation in operations:
        rows = applied(operation, rows)
    return rows


def _own(operation: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {one: (k, v) for one, (k, v) in operation["rows"].items()}
