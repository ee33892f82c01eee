"""The effect of each operation on rows, without files and logs: the specification that commits are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Row id -> the row's key and its counter.
Rows = Mapping[str, tuple[int, int]]

#: The stored row tracking values of rows: row id and row commit version; None: the commit's version.
RowIds = Mapping[str, tuple[int, int | None]]

#: A commit without an operation, such as vacuum's.
NOTHING: Mapping[str, Any] = {"kind": "nothing"}


def applied(operation: Mapping[str, Any], rows: Rows) -> Rows:
    """The rows after an operation, from the rows before."""
    key = operation.get("key")
    match operation["kind"]:
        case "append":
            return {**rows, **_own(operation)}
        case "increment":
            return {name: (k, v + (k == key)) for name, (k, v) in rows.items()}
        case "delete":
            return {name: (k, v) for name, (k, v) in rows.items() if k != key}
        case "overwrite":
            return _own(operation)
        case "insert":
            return {**rows, **derived(operation, rows)}
        case "nothing" | "compact" | "count":
            return rows
        case unknown:
            raise ValueError(f"the operation is {unknown}; expected a known kind")


def row_ids(stored: Mapping[str, Sequence[int | None]], base: int, version: int) -> dict[str, tuple[int, int]]:
    """The row ids of a file's rows: the stored ids, else the ids from the row's position and the file's first id."""
    ids = {}
    for place, (name, (_, _, *stored_ids)) in enumerate(stored.items()):
        row, own = stored_ids or (None, None)
        ids[name] = (base + place if row is None else row, version if own is None else own)
    return ids


def derived(operation: Mapping[str, Any], rows: Rows) -> dict[str, tuple[int, int]]:
    """The rows of an INSERT ... SELECT: they count the rows of the key that it reads (of every key, if it names none),
    increments included.
    """
    count = sum(v + 1 for k, v in rows.values() if operation["key"] in (None, k))
    return {name: (k, count) for name, (k, _) in _own(operation).items()}


def replayed(operations: Iterable[Mapping[str, Any]], rows: Rows) -> Rows:
    """The rows after several operations."""
    for operation in operations:
        rows = applied(operation, rows)
    return rows


def _own(operation: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (k, v) for name, (k, v) in operation["rows"].items()}
