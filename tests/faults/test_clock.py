"""A clock that jumps back and forth between commits: the order is the versions', and nothing is taken too early."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from lakehouse_lib.table import DeltaTable
from lakehouse_lib.write import write_deltalake
from tests.faults import scenes
from tests.faults.processes import in_a_process
from tests.peers import parquet_files, read_delta_rs, read_duckdb

HOUR, DAY = 3600.0, 86400.0
JUMPS = [0.0, -HOUR, -3 * DAY, +2 * HOUR, -400 * DAY, 0.0, +400 * DAY, -1.0, 0.0, -HOUR, 0.0, -2 * HOUR]


def test_commits_stay_in_the_order_of_their_versions(tmp_path: Path) -> None:
    table = tmp_path / "t"
    tried = in_a_process(scenes.commit_while_the_clock_jumps, table, JUMPS)
    assert [(one.error, one.version) for one in tried] == [("", number) for number in range(len(JUMPS))]
    told = DeltaTable(table).history()
    assert [entry["version"] for entry in told] == list(range(len(JUMPS)))[::-1]
    expected = [one for number in range(len(JUMPS)) for one in scenes.rows(number)["id"].to_pylist()]
    for read in (read_delta_rs, read_duckdb, lambda uri: DeltaTable(uri).to_pyarrow_table().sort_by("id")):
        assert read(table)["id"].to_pylist() == expected
    # Each version is found by a time that is later than the one before (delta-spark's rule: a millisecond, at least).
    moment = 0
    for version in range(len(JUMPS)):
        written = (table / "_delta_log" / f"{version:020d}.json").stat().st_mtime_ns // 1_000_000
        moment = max(written, moment + 1)
        found = DeltaTable(table, timestamp=dt.datetime.fromtimestamp(moment / 1000, dt.UTC))
        assert found.version() == version


def test_vacuum_takes_no_file_that_a_version_or_a_writer_needs(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for number in range(4):
        write_deltalake(table, scenes.rows(number), mode="append")
    with scenes.clock_off_by(-30 * DAY):  # removed long ago, says a clock that is a month late
        DeltaTable(table).delete("id < 300")
    before = read_delta_rs(table)
    live = parquet_files(table)
    unfinished = table / "part-00000-of-a-writer-at-work.parquet"
    unfinished.write_bytes(b"not yet committed")
    for offset in (-30 * DAY, -HOUR, 0.0):
        with scenes.clock_off_by(offset):
            DeltaTable(table).vacuum(dry_run=False)
        assert unfinished.exists(), offset
        assert read_delta_rs(table).equals(before), offset
        assert live >= parquet_files(table) - {unfinished}


def test_a_log_object_that_is_younger_than_the_clock_is_read_again(tmp_path: Path) -> None:
    # With a clock two days fast all that was just written looks old enough to be kept for good.
    table = tmp_path / "t"
    write_deltalake(table, scenes.rows(0))
    with scenes.clock_off_by(2 * DAY):
        assert DeltaTable(table).count() == 200
        write_deltalake(table, scenes.rows(1), mode="append")
        assert DeltaTable(table).count() == 400
    with scenes.clock_off_by(-2 * DAY):
        write_deltalake(table, scenes.rows(2), mode="append")
        assert DeltaTable(table).count() == 600
    assert DeltaTable(table).count() == 600
