"""The cases of the benchmark: a verb, its table, and the rows that the table must have afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import checks, data

OUTPUT_FILES = 16
_FEW_KEYS = 100


@dataclass(frozen=True)
class Case:
    """A verb on a table.

    Attributes:
        source: the table, which is copied for each run.
        expected: a query of the rows after the verb, where ``target`` is the table before (``checks.content``).
        changed: a condition that is true for the rows that the verb changes; None: it changes no row.
    """

    verb: str
    title: str
    source: Path
    arguments: dict[str, Any]
    expected: str = "FROM target"
    changed: str | None = None


def chosen(prefixes: Sequence[str]) -> list[str]:
    """The names of the cases that a prefix selects: a whole name, or the part of a name before a hyphen.

    Raises:
        ValueError: a prefix has no case.
    """
    for prefix in prefixes:
        if not any(_matches(name, prefix) for name in CASES):
            raise ValueError(f"case is {prefix}; expected {', '.join(CASES)}, or the first words of a name")
    return [name for name in CASES if any(_matches(name, prefix) for prefix in prefixes)]


def _matches(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}-")


def _compact(home: Path, rows: int) -> Case:
    return Case("compact", f"compact {data.SMALL_FILES} files", data.make(home, rows, "small"), {})


def _z_order(home: Path, rows: int) -> Case:
    table = data.make(home, rows, "small")
    size = sum(Path(path).stat().st_size for path in checks.files(table))
    arguments = {"columns": ["customer", "item"], "target_size": math.ceil(size / OUTPUT_FILES)}
    title = f"z_order {data.SMALL_FILES} files by customer and item into about {OUTPUT_FILES}"
    return Case("z_order", title, table, arguments)


def _delete(home: Path, rows: int, *, kind: str) -> Case:
    customer = data.customers(rows) // 2
    return Case(
        "delete",
        f"delete one customer from {_described(kind)}",
        data.make(home, rows, kind),
        {"predicate": f"customer = {customer}"},
        f"FROM target WHERE customer <> {customer}",
        f"customer = {customer}",
    )


def _update(home: Path, rows: int, *, kind: str) -> Case:
    customer = data.customers(rows) // 2
    quantity = f"CASE WHEN customer = {customer} THEN quantity + 1 ELSE quantity END AS quantity"
    return Case(
        "update",
        f"update one customer in {_described(kind)}",
        data.make(home, rows, kind),
        {"updates": {"quantity": "quantity + 1"}, "predicate": f"customer = {customer}"},
        f"SELECT * REPLACE ({quantity}) FROM target",
        f"customer = {customer}",
    )


def _merge(home: Path, rows: int, *, kind: str, share: int) -> Case:
    count = rows // share
    source = data.changes(home, rows, count)
    return _merge_of(home, rows, kind, f"merge {count:,} orders into {_described(kind)}", source)


def _merge_into_files(home: Path, rows: int, *, files: int, has_few_keys: bool = False) -> Case:
    count = _FEW_KEYS if has_few_keys else rows // 1_000
    source = data.changes_of_files(home, rows, count, files)
    amount = f"{files} of the files" if files > 1 else "one of the files"
    title = f"merge about {count:,} orders that are in {amount}, of {data.SMALL_FILES} files ordered by order_id"
    return _merge_of(home, rows, "small", title, source)


def _merge_of(home: Path, rows: int, kind: str, title: str, source: Path) -> Case:
    table = data.make(home, rows, kind)
    return Case("merge", title, table, {"source": str(source)}, checks.merged(source), checks.in_source(source))


def _described(kind: str) -> str:
    return {
        "big": f"{data.BIG_FILES} big files",
        "marked": f"{data.BIG_FILES} big files, deletion vectors enabled",
        "clustered": f"about {data.CLUSTERED_FILES} files, Z-ordered by customer",
    }[kind]


CASES: dict[str, Callable[[Path, int], Case]] = {
    "compact": _compact,
    "z_order": _z_order,
    "delete-copy": partial(_delete, kind="big"),
    "delete-vectors": partial(_delete, kind="marked"),
    "update-copy": partial(_update, kind="big"),
    "update-vectors": partial(_update, kind="marked"),
    "merge-keys-copy": partial(_merge, kind="big", share=1_000),
    "merge-keys-vectors": partial(_merge, kind="marked", share=1_000),
    "merge-tenth-copy": partial(_merge, kind="big", share=10),
    "merge-tenth-vectors": partial(_merge, kind="marked", share=10),
    "clustered-update": partial(_update, kind="clustered"),
    "clustered-merge-one-file": partial(_merge_into_files, files=1),
    "clustered-merge-ten-files": partial(_merge_into_files, files=10),
    "clustered-merge-few-keys": partial(_merge_into_files, files=10, has_few_keys=True),
}
