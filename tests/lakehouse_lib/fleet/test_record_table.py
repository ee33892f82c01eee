"""The platform's own tables: rows are appended, and read from a time on without the files of older rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.expressions.parsing.parser import Filter
from lakehouse_lib.fleet.planner.step import Effect
from lakehouse_lib.fleet.record_table import append_rows, rows_since
from lakehouse_lib.fleet.runs import RunRecord, Status, StepRecord
from lakehouse_lib.store import open_store

DAY = 86_400_000
NOW = 1_750_000_000_123
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("name", pa.string()), ("later", pa.int64())])


def rows(*entries: tuple[int, str]) -> pa.Table:
    moments = pa.array([moment * 1000 for moment, _ in entries], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"at": moments, "name": [name for _, name in entries]})


def names(root: Path, moment: int, *filters: Filter) -> list[str]:
    return sorted(rows_since(open_store(root), SCHEMA, "at", moment, filters)["name"].to_pylist())


def test_rows_from_a_time_on_have_the_columns_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "t"
    assert rows_since(open_store(root), SCHEMA, "at", 0) == SCHEMA.empty_table()
    append_rows(open_store(root), rows((NOW - 2, "before"), (NOW - 1, "just before"), (NOW, "now"), (NOW + 1, "after")))
    assert names(root, NOW) == ["after", "now"]
    assert names(root, NOW - 1, ("name", "in", ["before", "just before"])) == ["just before"]
    assert rows_since(open_store(root), SCHEMA, "at", 0)["later"].null_count == 4
    append_rows(open_store(root), rows((NOW, "wider")).append_column("later", pa.array([7], pa.int64())))
    assert rows_since(open_store(root), SCHEMA, "at", NOW, [("name", "=", "wider")])["later"].to_pylist() == [7]
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=NOW)
    by_delta_rs = deltalake.DeltaTable(root).to_pyarrow_table(filters=[("at", ">=", moment)])
    assert sorted(by_delta_rs["name"].to_pylist()) == names(root, NOW)


def test_corrections_do_not_read_files_of_old_runs(tmp_path: Path) -> None:
    record = RunRecord(str(tmp_path / "records"))
    for moment in (NOW - 91 * DAY, NOW - DAY):
        effect = Effect(bytes_read=moment)
        entry = StepRecord(
            "run", "t", "optimize", "done", "", moment, 1, 1, effect, effect, measured=effect, finished_at=moment
        )
        record.append([entry])
    deferred = StepRecord("run", "t", "vacuum", "deferred", "", NOW - DAY, 1, 1, Effect(), Effect())
    record.append([deferred])
    first = deltalake.DeltaTable(record.store.root, version=0).file_uris()
    assert len(first) == 1
    Path(first[0]).unlink()  # a reader that opens it fails
    assert [run.measured.bytes_read for run in record.finished(NOW)] == [NOW - DAY]
    assert record.waiting(NOW) == {("t", "vacuum"): NOW - DAY}
    with pytest.raises(Exception, match="parquet"):
        record.finished(NOW - 2 * DAY)


def test_the_latest_row_of_a_verb_says_whether_it_waits(tmp_path: Path) -> None:
    record = RunRecord(str(tmp_path / "records"))

    def step(verb: str, status: Status, day: int) -> StepRecord:
        return StepRecord("run", "t", verb, status, "", NOW - day * DAY, 1, 1, Effect(), Effect())

    record.append([step("z_order", "deferred", 1), step("z_order", "done", 1), step("z_order", "failed", 2)])
    record.append([step("vacuum", "deferred", 2), step("vacuum", "done", 1), step("checkpoint", "done", 9)])
    latest = record.latest(7, now=NOW).select(["verb", "status"]).to_pylist()
    assert {row["verb"]: row["status"] for row in latest} == {"z_order": "deferred", "vacuum": "done"}
    statuses = ["deferred", "failed", "done", "done", "deferred"]
    series = record.series("t", 7, now=NOW)
    assert sorted(series["status"].to_pylist()) == sorted(statuses)
    assert series["planned_at"].to_pylist() == sorted(series["planned_at"].to_pylist())
    assert len(record.series("another", 7, now=NOW)) == 0
