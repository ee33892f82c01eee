"""A clock that jumps between commits: the order of versions is right, and nothing is deleted too early."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import RetentionError
from lakehouse_lib.privacy.purge import purge
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.faults import scenes
from tests.faults.processes import in_a_process
from tests.peers import parquet_files, read_delta_rs, read_duckdb

HOUR, DAY = 3600.0, 86400.0
JUMPS = [0.0, -HOUR, -3 * DAY, +2 * HOUR, -400 * DAY, 0.0, +400 * DAY, -1.0, 0.0, -HOUR, 0.0, -2 * HOUR]


@pytest.mark.slow
def test_commit_times_are_in_the_order_of_the_versions(tmp_path: Path) -> None:
    table = tmp_path / "t"
    tried = in_a_process(scenes.commit_while_the_clock_jumps, table, JUMPS)
    assert [(attempt.error, attempt.version) for attempt in tried] == [("", number) for number in range(len(JUMPS))]
    history = DeltaTable(table).history()
    assert [entry["version"] for entry in history] == list(range(len(JUMPS)))[::-1]
    expected = [row_id for number in range(len(JUMPS)) for row_id in scenes.rows(number)["id"].to_pylist()]
    for read in (read_delta_rs, read_duckdb, lambda uri: DeltaTable(uri).to_pyarrow_table().sort_by("id")):
        assert read(table)["id"].to_pylist() == expected
    # Each version has a later time than the version before, by at least a millisecond (delta-spark's rule).
    moment = 0
    for version in range(len(JUMPS)):
        written = (table / "_delta_log" / f"{version:020d}.json").stat().st_mtime_ns // 1_000_000
        moment = max(written, moment + 1)
        past_table = DeltaTable(table, timestamp=dt.datetime.fromtimestamp(moment / 1000, dt.UTC))
        assert past_table.version() == version


def test_vacuum_keeps_files_of_readable_versions_and_active_writers(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for number in range(4):
        write_deltalake(table, scenes.rows(number), mode="append")
    with scenes.clock_off_by(-30 * DAY):  # by a clock that is a month behind, the files were removed long ago
        DeltaTable(table).delete("id < 300")
    before = read_delta_rs(table)
    live = parquet_files(table)
    unfinished = table / "part-00000-of-a-writer-at-work.parquet"
    unfinished.write_bytes(b"not yet committed")
    forgotten = table / "part-00000-of-a-dead-writer.parquet"
    forgotten.write_bytes(b"never committed")
    os.utime(forgotten, (time.time() - 10 * DAY,) * 2)
    for offset, gone in ((-30 * DAY, set()), (8 * DAY, None), (2 * 365 * DAY, None), (0.0, {forgotten.name})):
        with scenes.clock_off_by(offset):
            if gone is None:  # by that clock, the retention of every removed file is over
                with pytest.raises(
                    RetentionError, match=r"clock was at .* when the store's was at .* Set this machine's clock"
                ):
                    DeltaTable(table).vacuum(dry_run=False, full=True)
            else:
                assert set(DeltaTable(table).vacuum(dry_run=False, full=True)) == gone
        assert unfinished.exists(), offset
        assert forgotten.exists() == (gone != {forgotten.name})
        assert read_delta_rs(table).equals(before), offset
        assert parquet_files(table) - {unfinished, forgotten} == live
    operations = [
        (entry["operation"], entry["operationParameters"].get("status")) for entry in DeltaTable(table).history(4)
    ]
    failed = [("VACUUM END", "FAILED"), ("VACUUM START", None)]
    assert operations == [("VACUUM END", "COMPLETED"), ("VACUUM START", None), *failed]


def test_a_clock_after_the_year_9999_is_refused_by_vacuum(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, scenes.rows(0))
    DeltaTable(table).delete("id < 10")
    before = parquet_files(table)
    with (
        scenes.clock_off_by(8_000 * 365 * DAY),
        pytest.raises(RetentionError, match=r"was at \d{15} ms since 1970.*Set this machine's clock"),
    ):
        DeltaTable(table).vacuum(dry_run=False, full=True)
    assert parquet_files(table) == before


def test_a_clock_that_is_ahead_deletes_nothing_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "t"
    write_deltalake(table, scenes.rows(0), configuration={"delta.checkpointInterval": "3"})
    for number in range(1, 5):
        write_deltalake(table, scenes.rows(number), mode="append")
    DeltaTable(table).delete("id < 300")
    with scenes.clock_off_by(2 * 365 * DAY):
        write_deltalake(table, scenes.rows(5), mode="append")
        assert "the log is not cleaned up after version 6" in caplog.text
        assert "Set this machine's clock" in caplog.text
        (temporary := table / "_delta_log" / f".x.{'0' * 32}.tmp").touch()  # of a running writer
        for verb in (DeltaTable(table).cleanup_metadata, lambda: DeltaTable(table).repair(dry_run=False)):
            with pytest.raises(RetentionError, match=r"Set this machine's clock"):
                verb()
    assert temporary.exists()
    for version, count in enumerate([200, 400, 600, 800, 1000, 700, 900]):
        assert DeltaTable(table, version).count() == read_delta_rs(table, version).num_rows == count
    # The checkpoint has not dropped fresh removes either, because the next vacuum would delete their files.
    assert DeltaTable(table).snapshot.checkpoint_version == 6
    assert len(DeltaTable(table).snapshot.tombstones) == 2


def test_a_purge_keeps_files_of_an_active_writer(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, scenes.rows(0))
    DeltaTable(table).delete("id < 10")
    unfinished = table / "part-00000-of-a-writer-at-work.parquet"
    pq.write_table(scenes.rows(0), unfinished)
    with scenes.clock_off_by(2 * HOUR), pytest.raises(RetentionError, match=r"Set this machine's clock"):
        purge(str(table), "id < 10")
    assert len(parquet_files(table)) == 3
    assert len(purge(str(table), "id < 10").files) == 1
    assert unfinished.exists()


def test_clocks_that_differ_by_minutes_do_not_affect_vacuum(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, scenes.rows(0))
    forgotten = table / "part-00000-of-a-dead-writer.parquet"
    for offset in (-300.0, 300.0):
        forgotten.write_bytes(b"never committed")
        os.utime(forgotten, (time.time() - 10 * DAY,) * 2)
        with scenes.clock_off_by(offset):
            assert DeltaTable(table).vacuum(dry_run=False, full=True) == [forgotten.name]
            assert DeltaTable(table).cleanup_metadata() == []


def test_a_log_object_that_is_younger_than_the_clock_is_read_again(tmp_path: Path) -> None:
    # With a clock two days ahead, all new objects seem old enough for the cache.
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
