"""A write with ``delta.autoOptimize.autoCompact`` merges the small files of the partitions that it wrote to."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake as write_delta_rs

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.operations.optimize import auto_compact
from lakehouse_lib.operations.optimize.auto_compact import MIN_FILES
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.fault_store import FaultStore
from tests.peers import read_by_all, read_delta_rs
from tests.slow_cases import some_slow

AUTO = {"delta.autoOptimize.autoCompact": "true"}
FEW = 6
APPEND = Write(mode="append")


def rows(number: int, day: str = "a") -> pa.Table:
    return pa.table({"id": [number], "day": [day]})


def small_files(path: Path, count: int, *, day: str = "a", partitioned: bool = True, **properties: str) -> Path:
    """A table with so many small files in one partition, appended by delta-rs."""
    if not DeltaRs.is_deltatable(str(path)):
        DeltaRs.create(path, rows(0).schema, partition_by=["day"] if partitioned else None, configuration=properties)
    for number in range(count):
        write_delta_rs(path, rows(number, day), mode="append")
    return path


def days(path: Path) -> dict[str, int]:
    """The number of files of each partition."""
    values = pa.table(DeltaRs(path).get_add_actions(flatten=True))["partition.day"].to_pylist()
    return {day: values.count(day) for day in sorted(set(values))}


def last(path: Path) -> dict[str, Any]:
    return DeltaRs(path).history(1)[0]


@pytest.mark.slow
def test_an_append_merges_the_small_files_of_its_partitions(tmp_path: Path, engine: Any) -> None:
    small_files(tmp_path, MIN_FILES - 1, day="a", **AUTO)
    small_files(tmp_path, MIN_FILES + 5, day="b")
    small_files(tmp_path, 3, day="c")
    expected = read_delta_rs(tmp_path).num_rows + 2
    new = pa.concat_tables([rows(100, "a"), rows(101, "c")])
    result = write(FaultStore(tmp_path), incoming(new), APPEND, engine)
    assert days(tmp_path) == {"a": 1, "b": MIN_FILES + 5, "c": 4}  # b was not written to, and c has few files
    assert result.version == DeltaRs(tmp_path).version() - 1
    assert result.metrics["autoCompact"] == {
        "version": DeltaRs(tmp_path).version(),
        "numAddedFiles": 1,
        "numRemovedFiles": MIN_FILES,
    }
    commit = last(tmp_path)
    assert commit["operation"] == "OPTIMIZE"
    assert commit["operationParameters"]["auto"] == "true"
    assert read_by_all(tmp_path).num_rows == expected


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer files make a partition due, so that the tests are fast."""
    monkeypatch.setattr(auto_compact, "MIN_FILES", FEW)


@pytest.mark.parametrize(
    ("value", "partitioned"),
    some_slow(
        [("true", True), ("auto", False), ("legacy", True), ("true", False), ("auto", True), ("legacy", False)], 1
    ),
)
@pytest.mark.usefixtures("few")
def test_every_verb_that_adds_files_compacts(tmp_path: Path, value: str, partitioned: bool) -> None:
    small_files(tmp_path, FEW, partitioned=partitioned, **{"delta.autoOptimize.autoCompact": value})
    table = DeltaTable(tmp_path)
    table.update(updates={"id": "1000"}, predicate="id = 3")
    assert len(DeltaRs(tmp_path).file_uris()) == 1
    small_files(tmp_path, FEW, partitioned=partitioned)
    table.merge(rows(2000), "target.id = source.id", "source", "target").when_not_matched_insert_all().execute()
    assert len(DeltaRs(tmp_path).file_uris()) == 1
    small_files(tmp_path, FEW, partitioned=partitioned)
    table.delete("id = 1000")  # it copies the row's file, which is merged with the others
    assert len(DeltaRs(tmp_path).file_uris()) == 1
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == sorted(
        [*(n for n in range(FEW) if n != 3), 2000, *[*range(FEW)] * 2]
    )


@pytest.mark.usefixtures("few")
def test_without_the_property_no_table_is_compacted(tmp_path: Path) -> None:
    calls = {}
    for name, properties in (("without", {}), ("off", {"delta.autoOptimize.autoCompact": "false"}), ("on", AUTO)):
        path = small_files(tmp_path / name, FEW, **properties, **{"delta.checkpointInterval": "1000"})
        for file in (path / "_delta_log").iterdir():
            os.utime(file, ns=(1, 1))  # a commit file of the last 20 ms is read again
        calls[name] = FaultStore(path)
        snapshot = load_snapshot(calls[name])
        calls[name].calls.clear()
        write(calls[name], incoming(rows(1)), APPEND, ArrowEngine(), snapshot=snapshot)
    assert calls["without"].calls == calls["off"].calls
    assert (
        calls["without"].calls["list_from"] + calls["without"].calls["open_input"]
        < 4
        < FEW
        < calls["on"].calls["open_input"]
    )
    assert len(DeltaRs(tmp_path / "off").file_uris()) == FEW + 1


@pytest.mark.usefixtures("few")
def test_a_failed_compaction_does_not_fail_the_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    small_files(tmp_path, FEW - 1, **AUTO)
    victim = next(iter((tmp_path / "day=a").glob("*.parquet")))
    victim.unlink()
    with caplog.at_level(logging.WARNING):
        result = write(FaultStore(tmp_path), incoming(rows(100)), APPEND, ArrowEngine())
    assert result.metrics["autoCompact"] == {"error": "DELTA_DATA_FILE_MISSING"}
    assert "auto-compaction failed after version" in caplog.text
    assert result.version == DeltaRs(tmp_path).version() == FEW
    assert len(DeltaRs(tmp_path).file_uris()) == FEW


@pytest.mark.usefixtures("few")
def test_an_append_during_a_compaction_is_committed(tmp_path: Path) -> None:
    small_files(tmp_path, FEW - 1, **AUTO)
    reads: list[str] = []

    def other_writer(path: str) -> None:
        if path.endswith(".parquet") and not reads:
            reads.append(path)
            write_delta_rs(tmp_path, rows(200), mode="append")

    result = write(
        FaultStore(tmp_path, before={"open_input": other_writer}), incoming(rows(100)), APPEND, ArrowEngine()
    )
    assert reads
    assert result.metrics["autoCompact"]["version"] == DeltaRs(tmp_path).version()
    assert len(DeltaRs(tmp_path).file_uris()) == 2
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [*range(FEW - 1), 100, 200]


@pytest.mark.usefixtures("few")
def test_one_process_compacts_a_table_once_at_a_time(tmp_path: Path) -> None:
    small_files(tmp_path, FEW - 1, **AUTO)
    inner: list[ChangeResult] = []

    def other_thread(path: str) -> None:
        if path.endswith(".parquet") and not inner:
            inner.append(write(FaultStore(tmp_path), incoming(rows(200)), APPEND, ArrowEngine()))

    outer = write(FaultStore(tmp_path, before={"open_input": other_thread}), incoming(rows(100)), APPEND, ArrowEngine())
    assert "autoCompact" not in inner[0].metrics
    assert outer.metrics["autoCompact"]["numRemovedFiles"] == FEW
    small_files(tmp_path, FEW)
    assert "autoCompact" in write(FaultStore(tmp_path), incoming(rows(300)), APPEND, ArrowEngine()).metrics


@pytest.mark.usefixtures("few")
def test_a_process_that_is_forked_during_a_compaction_compacts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_files(tmp_path, FEW - 1, **AUTO)
    inner: list[ChangeResult] = []

    def child(path: str) -> None:
        if path.endswith(".parquet") and not inner:
            with monkeypatch.context() as patched:  # the child has a copy of the memory and another number
                patched.setattr(os, "getpid", lambda: -1)
                inner.append(write(FaultStore(tmp_path), incoming(rows(200)), APPEND, ArrowEngine(1)))

    write(FaultStore(tmp_path, before={"open_input": child}), incoming(rows(100)), APPEND, ArrowEngine(1))
    assert inner[0].metrics["autoCompact"]["numRemovedFiles"] == FEW + 1
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [*range(FEW - 1), 100, 200]


@pytest.mark.usefixtures("few")
def test_the_application_transaction_of_the_write_is_committed_once(tmp_path: Path) -> None:
    small_files(tmp_path, FEW - 1, **AUTO)
    properties = CommitProperties({"job": {"jobId": "1"}}, app_transactions=[Transaction("job", 1)])
    result = write(FaultStore(tmp_path), incoming(rows(100)), APPEND, ArrowEngine(), commit_properties=properties)
    assert result.metrics["autoCompact"]["numRemovedFiles"] == FEW
    assert "job" not in last(tmp_path)
    assert DeltaTable(tmp_path).transaction_version("job") == 1


@pytest.mark.usefixtures("few")
def test_the_target_size_of_the_table_limits_the_merged_files(tmp_path: Path) -> None:
    size = next(iter((small_files(tmp_path / "sample", 1) / "day=a").glob("*.parquet"))).stat().st_size
    small_files(tmp_path / "table", FEW - 1, **AUTO, **{"delta.targetFileSize": str(3 * size)})
    write_deltalake(tmp_path / "table", rows(100), mode="append")
    assert days(tmp_path / "table") == {"a": 2}
    assert last(tmp_path / "table")["operationParameters"]["targetSize"] == str(3 * size)
