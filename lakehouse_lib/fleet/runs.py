"""The record of maintenance runs: a Delta table with a row for each step that was run, failed or was deferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.expressions.parsing.parser import Filter
from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord
from lakehouse_lib.fleet.planner.correction import Run
from lakehouse_lib.fleet.planner.step import Effect
from lakehouse_lib.fleet.prediction_error import prediction_error
from lakehouse_lib.fleet.record_table import append_rows, newest_rows, rows_since
from lakehouse_lib.log import clock
from lakehouse_lib.store import open_store

Status = Literal["done", "failed", "deferred"]

_NUMBERS = tuple(item.name for item in fields(Effect))
_KINDS = ("uncorrected", "predicted", "measured")
_TIME = pa.timestamp("us", "UTC")
#: Corrections and waiting times are computed from the rows of this number of days.
_DAYS = 90

#: The columns of the record. ``measured_*`` are null if the step was deferred, has failed, or could not be measured.
SCHEMA = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("table", pa.string()),
        pa.field("verb", pa.string()),
        pa.field("status", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("error_type", pa.string()),
        pa.field("error_code", pa.string()),
        pa.field("error", pa.string()),
        pa.field("planned_at", _TIME),
        pa.field("finished_at", _TIME),
        pa.field("read_version", pa.int64()),
        pa.field("version", pa.int64()),
        pa.field("cost", pa.int64()),
        *(
            pa.field(f"{kind}_{name}", pa.float64() if name == "seconds" else pa.int64())
            for kind in _KINDS
            for name in _NUMBERS
        ),
    ]
)


@dataclass(frozen=True)
class StepRecord:
    """The outcome of a step of a plan.

    Attributes:
        run: the id of the maintenance run.
        planned_at, finished_at: ms since the epoch; ``finished_at`` is None for a deferred step.
        version: the version that the step committed; None: the step committed nothing.
        cost: the predicted cost in bytes (``Step.cost``).
        uncorrected: the prediction without the corrections by earlier runs.
        measured: the measured effect; None for a step that was deferred, has failed, or could not be measured.
        error_type: the name of the error's class, ``error_code`` its code, and ``error`` its text; None without an
            error.
    """

    run: str
    table: str
    verb: str
    status: Status
    reason: str
    planned_at: int
    read_version: int
    cost: int
    uncorrected: Effect
    predicted: Effect
    measured: Effect | None = None
    version: int | None = None
    finished_at: int | None = None
    error_type: str | None = None
    error_code: str | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with ``prediction_error`` (None: not measured)."""
        values = {
            item.name: value.to_dict() if isinstance(value, Effect) else value
            for item in fields(self)
            for value in [getattr(self, item.name)]
        }
        error = None if self.measured is None else prediction_error([(self.predicted, self.measured)])
        return {**values, "prediction_error": error}


class RunRecord:
    """The record of maintenance runs in ``RECORDS/runs``. The table is created by the first write.

    Args:
        records: the location of the platform's own tables.

    Attributes:
        records: the store of the platform's own tables.
        store: the store of the table ``runs``.
        deleted_files: the record of the files that vacuums of the runs delete.
    """

    def __init__(self, records: str, storage_options: Mapping[str, str] | None = None) -> None:
        options = dict(storage_options or {})
        self.records = open_store(records, options)
        self.store = open_store(f"{records.rstrip('/')}/runs", options)
        self.deleted_files = DeletedFilesRecord(records, options)

    def append(self, entries: Sequence[StepRecord]) -> None:
        """Write the entries in one commit."""
        if not entries:
            return
        rows = pa.Table.from_pylist([_row(entry) for entry in entries], SCHEMA)
        append_rows(self.store, rows)

    def finished(self, now: int) -> list[Run]:
        """The finished steps of the last 90 days whose effect was measured, oldest first.

        Args:
            now: ms since the epoch.
        """
        rows = self._rows(["done"], now)
        rows = rows.filter(pc.is_valid(rows["measured_seconds"])).sort_by("finished_at")
        return [
            Run(
                row["table"],
                row["verb"],
                *(Effect(**{name: row[f"{kind}_{name}"] for name in _NUMBERS}) for kind in _KINDS),
            )
            for row in rows.to_pylist()
        ]

    def waiting(self, now: int) -> dict[tuple[str, str], int]:
        """The waiting steps: table and verb -> the time since which the step waits, in ms since the epoch.

        A step waits since a plan first deferred it. If a run does a part of the step, the time that it has waited
        becomes shorter by the same share of its bytes.

        Args:
            now: ms since the epoch.
        """
        rows = _oldest_first(self._rows(["done", "deferred"], now))
        sizes = pc.add(rows["predicted_bytes_read"], rows["predicted_bytes_written"]).to_pylist()
        times = pc.divide(pc.cast(rows["planned_at"], pa.int64()), 1000).to_pylist()
        columns = [rows[name].to_pylist() for name in ("table", "verb", "run", "status")]
        since: dict[tuple[str, str], int] = {}
        parts: dict[tuple[str, str], tuple[str, int, int]] = {}  # the run of a part, its bytes, since when it waited
        for table, verb, run, status, size, moment in zip(*columns, sizes, times, strict=True):
            step = (table, verb)
            if status == "done":
                parts[step] = run, size, since.pop(step, moment)
                continue
            part_run, part_size, start = parts.pop(step, (None, 0, moment))
            if part_run == run:
                since[step] = moment - int((moment - start) * (1 - min(part_size / max(size, 1), 1)))
            else:
                since.setdefault(step, moment)
        return since

    def series(self, table: str, days: float, now: int | None = None) -> pa.Table:
        """The rows (``SCHEMA``) of a table that were planned in the last ``days``, oldest first.

        Args:
            now: ms since the epoch; None: this machine's clock.
        """
        return _oldest_first(self._since(days, now, [("table", "=", table)]))

    def latest(self, days: float, now: int | None = None) -> pa.Table:
        """The newest row (``SCHEMA``) of each table and verb that was planned in the last ``days``, oldest first.

        A step waits if its newest row has the status ``deferred``.

        Args:
            now: ms since the epoch; None: this machine's clock.
        """
        return newest_rows(_oldest_first(self._since(days, now)), ["table", "verb"])

    def _rows(self, statuses: Sequence[Status], now: int) -> pa.Table:
        return self._since(_DAYS, now, [("status", "in", list(statuses))])

    def _since(self, days: float, now: int | None, filters: Sequence[Filter] = ()) -> pa.Table:
        moment = (clock.now() if now is None else now) - int(days * 86_400_000)
        return rows_since(self.store, SCHEMA, "planned_at", moment, filters)


def _oldest_first(rows: pa.Table) -> pa.Table:
    """The rows, sorted by time.

    If a run has done only a part of a step, the step has two rows of this run: first ``done``, then ``deferred``,
    because the rest of the step waits.
    """
    return rows.sort_by([("planned_at", "ascending"), ("status", "descending")])


def _row(entry: StepRecord) -> dict[str, Any]:
    row = {
        name: getattr(entry, name)
        for name in (
            "run",
            "table",
            "verb",
            "status",
            "reason",
            "error_type",
            "error_code",
            "error",
            "read_version",
            "version",
            "cost",
        )
    }
    row["planned_at"] = entry.planned_at * 1000
    row["finished_at"] = None if entry.finished_at is None else entry.finished_at * 1000
    for kind in _KINDS:
        effect = getattr(entry, kind)
        row |= {f"{kind}_{name}": None if effect is None else getattr(effect, name) for name in _NUMBERS}
    return row
