"""The rows of the page of all tables, made from the records of health and of maintenance runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: The columns by which the rows can be sorted, with their titles. Each is an attribute of ``TableRow``.
COLUMNS = {
    "name": "Table",
    "score": "Score",
    "files": "Files",
    "small_files": "Small files",
    "bytes": "Size",
    "rows": "Rows",
    "commits_per_day": "Versions a day",
    "checkpoint_lag": "Checkpoint lag",
    "reclaimable_bytes": "Reclaimable",
    "committed_at": "Last commit",
    "gain": "Next maintenance",
    "ran_at": "Last run",
    "looked_at": "Measured",
}
#: The columns whose values are those of the record of health.
NUMBERS = frozenset(
    ["score", "files", "small_files", "bytes", "rows", "commits_per_day", "checkpoint_lag", "reclaimable_bytes"]
)


@dataclass(frozen=True)
class Due:
    """A verb that the next maintenance may run.

    Attributes:
        query_bytes, bytes_freed: the predicted gain of a deferred step; None: no plan has this step yet.
    """

    verb: str
    query_bytes: int | None = None
    bytes_freed: int | None = None


@dataclass(frozen=True)
class TableRow:
    """A table of the registry. Times are ms since the epoch; None: not known.

    Attributes:
        reasons: the reasons of the score, as in the record.
        committed_at: the time of the latest version.
        looked_at: the time of the record of health.
        due: the verbs that the next maintenance may run.
        gain: the bytes that a query no longer reads after the deferred steps, plus the bytes that these steps free.
        ran_verbs, ran_status, ran_error, ran_at: the steps of the newest run; if steps have failed, only these steps.
    """

    name: str
    score: int | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()
    files: int | None = None
    small_files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    commits_per_day: float | None = None
    checkpoint_lag: float | None = None
    reclaimable_bytes: int | None = None
    committed_at: int | None = None
    looked_at: int | None = None
    due: tuple[Due, ...] = ()
    gain: int | None = None
    ran_verbs: tuple[str, ...] = ()
    ran_status: str | None = None
    ran_error: str | None = None
    ran_at: int | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether a step has ended after the health was recorded."""
        return self.ran_at is not None and self.looked_at is not None and self.ran_at > self.looked_at


def table_rows(names: Iterable[str], looks: pa.Table, steps: pa.Table) -> list[TableRow]:
    """A row for each table.

    Args:
        looks: the newest health of each table (``HealthRecord.latest``).
        steps: the newest step of each table and verb (``RunRecord.latest``).
    """
    look_of = {
        row["table"]: row for row in _plain_rows(looks, ("table", *NUMBERS, "timestamp", "looked_at", "reasons"))
    }
    steps_of: dict[str, list[dict[str, Any]]] = {}
    fields = ("run", "table", "verb", "status", "error", "finished_at")
    for step in _plain_rows(steps, (*fields, "predicted_query_bytes", "predicted_bytes_freed")):
        steps_of.setdefault(step["table"], []).append(step)
    return [_row(name, look_of.get(name), steps_of.get(name, [])) for name in names]


def matching_rows(rows: Iterable[TableRow], search: str) -> list[TableRow]:
    """The rows that contain all words of a search in the name, the reasons, the verbs or the status of the last run."""
    words = search.lower().split()
    return [row for row in rows if all(word in _search_text(row) for word in words)]


def sorted_rows(rows: Iterable[TableRow], column: str, *, descending: bool) -> list[TableRow]:
    """The rows, sorted by a column of ``COLUMNS``, then by name. Rows without a value are last in both directions."""
    by_name = sorted(rows, key=lambda row: row.name)
    rated = [row for row in by_name if getattr(row, column) is not None]
    rated.sort(key=lambda row: getattr(row, column), reverse=descending)
    return [*rated, *(row for row in by_name if getattr(row, column) is None)]


def totals(rows: Sequence[TableRow]) -> dict[str, int]:
    """The numbers of tables, files, bytes and reclaimable bytes, as far as known.

    ``failed`` is the number of tables whose last run failed, ``unseen`` the number of tables without a row in
    the record of health.
    """
    return {
        "tables": len(rows),
        "files": sum(row.files or 0 for row in rows),
        "bytes": sum(row.bytes or 0 for row in rows),
        "reclaimable_bytes": sum(row.reclaimable_bytes or 0 for row in rows),
        "failed": sum(row.ran_status == "failed" for row in rows),
        "unseen": sum(row.looked_at is None for row in rows),
    }


def newest_look(looks: pa.Table) -> Mapping[str, Any] | None:
    """``rows`` and ``looked_at`` of the newest row of the record of health; None if there is no row.

    Args:
        looks: rows of the record, oldest first.
    """
    rows = _plain_rows(looks.slice(max(0, len(looks) - 1)), ("rows", "looked_at"))
    return rows[0] if rows else None


def milliseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of timestamps in µs as ms since the epoch."""
    return pc.divide(pc.cast(times, pa.int64()), 1000)


def _plain_rows(rows: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    chosen = rows.select(list(names))
    for number, field in enumerate(chosen.schema):
        if pa.types.is_timestamp(field.type):
            chosen = chosen.set_column(number, field.name, milliseconds(chosen[field.name]))
    plain: list[dict[str, Any]] = chosen.to_pylist()
    return plain


def _row(name: str, look: Mapping[str, Any] | None, steps: Sequence[Mapping[str, Any]]) -> TableRow:
    reasons: tuple[Mapping[str, Any], ...] = ()
    numbers: dict[str, Any] = {}
    if look is not None:
        reasons = tuple(json.loads(look["reasons"]))
        numbers = {**{key: look[key] for key in NUMBERS}, "committed_at": look["timestamp"]}
        numbers["looked_at"] = look["looked_at"]
    deferred = [step for step in steps if step["status"] == "deferred"]
    due = [Due(step["verb"], step["predicted_query_bytes"], step["predicted_bytes_freed"]) for step in deferred]
    planned_verbs = {step["verb"] for step in steps if step["status"] == "deferred" or _is_later(step, look)}
    due += [Due(verb) for verb in dict.fromkeys(reason["verb"] for reason in reasons) if verb not in planned_verbs]
    ended_steps = [step for step in steps if step["finished_at"] is not None]
    if ended_steps:
        newest = max(ended_steps, key=lambda step: step["finished_at"])
        run_steps = [step for step in ended_steps if step["run"] == newest["run"]]
        failed = [step for step in run_steps if step["status"] == "failed"]
        numbers["ran_verbs"] = tuple(step["verb"] for step in failed or run_steps)
        numbers["ran_status"] = (failed or run_steps)[0]["status"]
        numbers["ran_error"] = failed[0]["error"] if failed else None
        numbers["ran_at"] = newest["finished_at"]
    gain = sum((step.query_bytes or 0) + (step.bytes_freed or 0) for step in due)
    return TableRow(name, reasons=reasons, due=tuple(due), gain=gain if deferred else None, **numbers)


def _is_later(step: Mapping[str, Any], look: Mapping[str, Any] | None) -> bool:
    """Whether a step was done after the health was recorded, so that the record does not include its effect."""
    return look is not None and step["status"] == "done" and step["finished_at"] > look["looked_at"]


def _search_text(row: TableRow) -> str:
    names = [row.name, *(reason["name"] for reason in row.reasons), *(step.verb for step in row.due)]
    return " ".join([*names, *(name.replace("_", " ") for name in names[1:]), row.ran_status or ""]).lower()
