"""Change events that arrive in a Delta table: each version is applied once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs

from lakehouse_lib import ArrowEngine, DeltaTable, VersionNotFoundError, write_deltalake
from lakehouse_lib.ingestion.change_events import follow
from lakehouse_lib.ingestion.change_events.follow import applied_version, follow_events
from lakehouse_lib.ingestion.change_events.rules import ChangeRules
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store

RULES = ChangeRules(("id",), "ts", "op = 'D'", ("op",))


def arrive(folder: Path, *rows: tuple[int, int, str | None, str]) -> None:
    names = ("id", "ts", "name", "op")
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    write_deltalake(folder / "events", table, mode="append")


def run(folder: Path) -> ChangeResult:
    table, events, deleted = (open_store(folder / name) for name in ("t", "events", "deleted"))
    return follow_events(table, events, RULES, ArrowEngine(), deleted_keys=deleted)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return sorted(DeltaRs(folder / "t").to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def test_each_version_is_applied_once(tmp_path: Path) -> None:
    arrive(tmp_path, (1, 1, "a", "U"), (2, 1, "b", "U"))
    arrive(tmp_path, (2, 2, "c", "D"))
    assert run(tmp_path).metrics["numEvents"] == 3
    assert rows_of(tmp_path) == [{"id": 1, "ts": 1, "name": "a"}]
    assert run(tmp_path).version is None
    arrive(tmp_path, (3, 1, "d", "U"))
    arrive(tmp_path, (1, 5, "e", "U"))
    DeltaTable(tmp_path / "events").optimize.compact()  # no new events
    result = run(tmp_path)
    assert (result.metrics["numEvents"], result.metrics["numTargetRowsUpdated"]) == (2, 1)
    assert rows_of(tmp_path) == [{"id": 1, "ts": 5, "name": "e"}, {"id": 3, "ts": 1, "name": "d"}]
    events = load_snapshot(open_store(tmp_path / "events"))
    assert applied_version(open_store(tmp_path / "t"), events) == events.version == 4


def test_events_that_change_nothing_are_applied_once_too(tmp_path: Path) -> None:
    arrive(tmp_path, (1, 9, "a", "U"))
    run(tmp_path)
    arrive(tmp_path, (1, 3, "late", "U"))
    assert run(tmp_path).version is not None
    assert run(tmp_path).version is None


def test_many_events_are_applied_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_BATCH_BYTES", 1)
    for number in range(3):
        arrive(tmp_path, (number, 1, "a", "U"))
    before = run(tmp_path)
    assert (before.metrics["numEvents"], DeltaRs(tmp_path / "t").version()) == (3, 3)
    for number in range(3):
        arrive(tmp_path, (number, 2, "b", "U"))
    run(tmp_path)
    assert [row["name"] for row in rows_of(tmp_path)] == ["b"] * 3
    assert DeltaRs(tmp_path / "t").version() == 6


def test_rows_deleted_from_the_events_remain_applied(tmp_path: Path) -> None:
    arrive(tmp_path, (1, 1, "a", "U"), (2, 1, "b", "U"))
    run(tmp_path)
    DeltaTable(tmp_path / "events").delete("id = 1")
    run(tmp_path)
    assert len(rows_of(tmp_path)) == 2


def test_a_commit_that_was_cleaned_up_is_an_error(tmp_path: Path) -> None:
    arrive(tmp_path, (1, 1, "a", "U"))
    run(tmp_path)
    arrive(tmp_path, (1, 2, "b", "U"))
    arrive(tmp_path, (1, 3, "c", "U"))
    DeltaTable(tmp_path / "events").create_checkpoint()
    (tmp_path / "events" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="commit 1 was cleaned up"):
        run(tmp_path)
    assert rows_of(tmp_path)[0]["name"] == "a"
