"""Modes, races for version 0, properties and bad input of writes, on the Arrow engine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_lib.engine.arrow.engine as arrow_engine
from lakehouse_lib import (
    CommitProperties,
    DeltaTable,
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidSchemaError,
    SchemaMismatchError,
    Transaction,
    UnsupportedFeatureError,
    write_deltalake,
)
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.parquet import writer
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.commits import commit_file
from tests.log_builder import field, put_table
from tests.peers import parquet_files, read_delta_rs

ROWS = pa.table({"a": [1, 2]})

#: The hints of the two verbs for a table that exists.
WRITE_HINT = 'Use mode "append" or "overwrite", or another location'
CREATE_HINT = 'Use mode "ignore" to open it, "overwrite" to empty it, or another location'


def assert_exists(error: InvalidArgumentError, table: Path, hint: str) -> None:
    assert type(error) is InvalidArgumentError
    assert isinstance(error, ValueError)
    assert (error.code, error.message) == ("DELTA_TABLE_ALREADY_EXISTS", "the table exists already")
    assert (error.table, error.version, error.hint) == (str(table), None, hint)


@pytest.mark.parametrize(
    "verb", [write_deltalake, lambda path, rows, mode: DeltaTable.create(path, rows.schema, mode=mode)]
)
def test_a_mode_that_is_not_valid(tmp_path: Path, verb: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        verb(tmp_path, ROWS, mode="upsert")
    error = refused.value
    assert type(error) is InvalidArgumentError
    assert isinstance(error, ValueError)
    assert error.code == "DELTA_INVALID_SAVE_MODE"
    assert error.message == "mode is 'upsert'; expected one of error, append, overwrite, ignore"
    assert (error.table, error.version, error.hint) == (str(tmp_path), None, None)
    assert not list(tmp_path.iterdir())


def test_modes_for_an_existing_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(InvalidArgumentError, match=f"the table exists already .*{tmp_path}") as refused:
        write_deltalake(tmp_path, ROWS)
    assert_exists(refused.value, tmp_path, WRITE_HINT)
    write_deltalake(tmp_path, ROWS, mode="ignore")
    assert DeltaTable(tmp_path).version() == 0
    with pytest.raises(InvalidArgumentError, match="schema_mode is 'other'; expected 'merge'") as refused:
        write_deltalake(tmp_path, ROWS, schema_mode="other")  # type: ignore[arg-type]
    assert refused.value.code == "DELTA_INVALID_WRITE_MODE"
    with pytest.raises(InvalidArgumentError, match="schema_mode is 'overwrite'") as refused:
        write_deltalake(tmp_path, ROWS, mode="append", schema_mode="overwrite")
    assert refused.value.code == "DELTA_INVALID_WRITE_MODE"
    with pytest.raises(InvalidArgumentError, match=r"partition_by is .*; expected"):
        write_deltalake(tmp_path, ROWS, mode="append", partition_by="a")


@pytest.mark.parametrize("data", [[], "x.csv", None, {"a": [1]}])
def test_data_of_an_unknown_kind_is_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="has no rows that Arrow can read") as refused:
        write_deltalake(tmp_path / "t", data)
    assert refused.value.code == "DELTA_UNSUPPORTED_DATA"
    assert not (tmp_path / "t").exists()


def test_data_without_columns(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchemaError, match="column"):
        write_deltalake(tmp_path, pa.table({}))


VOID = pa.table({"v": pa.nulls(3)})
WITHOUT_MEMBERS = pa.array([{}] * 3, pa.struct([]))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (VOID, "every column is void or a partition column, so data files could not store the rows: v"),
        (pa.table({"s": WITHOUT_MEMBERS}), "column 's' has a struct without members"),
        (pa.table({"a": [1, 2, 3], "s": pa.array([[{}]] * 3)}), "column 's' has a struct without members"),
    ],
    ids=["void", "struct", "structs in lists"],
)
def test_rows_without_storable_columns_are_refused(tmp_path: Path, rows: pa.Table, problem: str) -> None:
    with pytest.raises(InvalidSchemaError, match=f"{problem}.*{tmp_path}"):
        write_deltalake(tmp_path / "new", rows)
    assert not (tmp_path / "new").exists()
    table = DeltaTable.create(tmp_path / "empty", rows.schema)
    with pytest.raises(InvalidSchemaError, match=problem):
        write_deltalake(table, rows, mode="append")
    write_deltalake(tmp_path / "full", ROWS)
    with pytest.raises(InvalidSchemaError, match=problem):
        write_deltalake(tmp_path / "full", rows, mode="overwrite", schema_mode="overwrite")
    full = DeltaTable(tmp_path / "full")
    assert (table.version(), full.version(), full.count()) == (0, 0, 2)


def test_void_columns_are_written_beside_others(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, VOID.schema)
    write_deltalake(tmp_path, VOID.append_column("a", pa.array([1, 2, 3])), mode="append", schema_mode="merge")
    write_deltalake(tmp_path, VOID, mode="append")  # ``a`` is stored as nulls
    result = DeltaTable(tmp_path).to_pyarrow_table()
    assert result["v"].null_count == result.num_rows == 6


def test_rows_of_partition_columns_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="every column is a partition column: a"):
        write_deltalake(tmp_path / "new", ROWS, partition_by="a")
    with pytest.raises(InvalidArgumentError, match="every column is a partition column: a"):
        write_deltalake(tmp_path / "new", ROWS.append_column("v", pa.nulls(2)), partition_by="a")
    assert not (tmp_path / "new").exists()
    put_table(tmp_path, [field("a", "long")], [], partition_by=["a"])  # no writer creates such a table
    with pytest.raises(InvalidSchemaError, match=r"every column is void or a partition column, .*: a"):
        write_deltalake(tmp_path, ROWS, mode="append")
    assert DeltaTable(tmp_path).version() == 0


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_loser_of_a_create_race_appends_to_the_winners_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    winner_first(monkeypatch, tmp_path, pa.table({"a": [9]}))
    write_deltalake(tmp_path, ROWS, mode=mode)
    assert DeltaTable(tmp_path).version() == 1
    assert read_delta_rs(tmp_path)["a"].to_pylist() == ([1, 2, 9] if mode == "append" else [1, 2])


def test_the_loser_of_a_create_race_with_mode_error_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner_first(monkeypatch, tmp_path, ROWS)
    with pytest.raises(InvalidArgumentError) as refused:
        write_deltalake(tmp_path, ROWS)
    assert_exists(refused.value, tmp_path, WRITE_HINT)
    assert {Path(file) for file in DeltaTable(tmp_path).file_uris()} == parquet_files(tmp_path)


def test_the_loser_of_a_create_race_with_other_columns_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner_first(monkeypatch, tmp_path, pa.table({"a": ["text"]}))
    with pytest.raises(SchemaMismatchError, match="a is long, expected string"):
        write_deltalake(tmp_path, ROWS, mode="append")
    assert {Path(file) for file in DeltaTable(tmp_path).file_uris()} == parquet_files(tmp_path)


def test_the_loser_of_a_create_race_with_other_spellings_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other readers look for columns in a file by their exact names, and would read nulls."""
    winner_first(monkeypatch, tmp_path, pa.table({"A": [9]}))
    with pytest.raises(InvalidArgumentError, match="created the table first"):
        write_deltalake(tmp_path, ROWS, mode="append")
    assert {Path(file) for file in DeltaTable(tmp_path).file_uris()} == parquet_files(tmp_path)
    write_deltalake(tmp_path, ROWS, mode="append")
    assert read_delta_rs(tmp_path)["A"].to_pylist() == [1, 2, 9]


def winner_first(monkeypatch: pytest.MonkeyPatch, uri: Path, rows: pa.Table) -> None:
    """Make another writer create the table between our check and our commit."""
    write = arrow_engine.write_rows

    def late(*args: Any) -> pa.Table:
        monkeypatch.setattr(arrow_engine, "write_rows", write)
        write_deltalake(uri, rows)
        return write(*args)

    monkeypatch.setattr(arrow_engine, "write_rows", late)


def test_writers_at_the_same_time_lose_no_row(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=write_deltalake, args=(tmp_path, pa.table({"a": [n]})), kwargs={"mode": "append"})
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_delta_rs(tmp_path)["a"].to_pylist() == list(range(8))
    assert DeltaTable(tmp_path).version() == 7


def test_a_failing_stream_leaves_no_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)

    def batches() -> Any:
        yield from ROWS.to_batches()
        raise RuntimeError("the source died")

    before = parquet_files(tmp_path)
    with pytest.raises(RuntimeError, match="the source died"):
        write_deltalake(tmp_path, pa.RecordBatchReader.from_batches(ROWS.schema, batches()), mode="append")
    assert parquet_files(tmp_path) == before
    assert DeltaTable(tmp_path).version() == 0


def test_files_roll_at_the_target_and_partitions_are_bounded(tmp_path: Path) -> None:
    noise = pa.array(range(400_000), pa.int64())
    write_deltalake(tmp_path / "t", pa.table({"a": noise}), target_file_size=1 << 20)
    sizes = [file.stat().st_size for file in parquet_files(tmp_path / "t")]
    assert len(sizes) > 1
    assert max(sizes) < 2 << 20
    assert DeltaTable(tmp_path / "t").count() == 400_000
    write_deltalake(tmp_path / "p", pa.table({"a": range(300), "p": range(300)}), partition_by=["p"])
    assert len(parquet_files(tmp_path / "p")) == 300


def test_files_have_the_compression_of_the_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.parquet.compression.codec": "ZSTD"})
    (file,) = parquet_files(tmp_path)
    assert file.name.endswith(".zstd.parquet")
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"delta.columnMapping.mode": "names"}, InvalidArgumentError),
        ({"delta.enableRowTracking": "on"}, InvalidArgumentError),
        ({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}, InvalidArgumentError),
        ({"delta.constraints.positive": "no_such_column > 0"}, InvalidPredicateError),
        ({"delta.feature.columnMappingUsageTracking": "supported"}, UnsupportedFeatureError),
        ({"delta.checkpointInterval": "often"}, InvalidArgumentError),
        ({"delta.parquet.compression.codec": "rar"}, InvalidArgumentError),
        ({"delta.appendOnly": "yes"}, InvalidArgumentError),
        ({"delta.enableExpiredLogCleanup": ""}, InvalidArgumentError),
        ({"delta.logRetentionDuration": "a month"}, InvalidArgumentError),
        ({"delta.minReaderVersion": "4"}, InvalidArgumentError),
    ],
)
def test_properties_that_cannot_be_kept(tmp_path: Path, properties: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        write_deltalake(tmp_path / "t", ROWS, configuration=properties)
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_an_application_writes_once(tmp_path: Path) -> None:
    once = CommitProperties(app_transactions=(Transaction("loader", 3),), custom_metadata={"who": "me"})
    write_deltalake(tmp_path, ROWS, mode="append", commit_properties=once)
    table = DeltaTable(tmp_path)
    assert table.transaction_version("loader") == 3
    assert table.history()[0]["who"] == "me"
    with pytest.raises(Exception, match="already has txn version 3 of the application 'loader'"):
        write_deltalake(tmp_path, ROWS, mode="append", commit_properties=once)
    assert DeltaTable(tmp_path).version() == 0
    assert len(parquet_files(tmp_path)) == 1


def test_create_and_overwrite_an_empty_table(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, ROWS.schema, name="n", description="d", configuration={"owner": "me"})
    assert (table.version(), table.count(), table.metadata().name) == (0, 0, "n")
    with pytest.raises(InvalidArgumentError) as refused:
        DeltaTable.create(tmp_path, ROWS.schema)
    assert_exists(refused.value, tmp_path, CREATE_HINT)
    with pytest.raises(InvalidArgumentError) as refused:
        DeltaTable.create(tmp_path, ROWS.schema, mode="append")
    assert_exists(refused.value, tmp_path, CREATE_HINT)
    assert DeltaTable.create(tmp_path, pa.schema([("b", pa.string())]), mode="ignore").schema().names == ["a"]
    write_deltalake(tmp_path, ROWS, mode="append")
    replaced = DeltaTable.create(tmp_path, pa.schema([("b", pa.string())]), mode="overwrite")
    assert (replaced.schema().names, replaced.count(), replaced.version()) == (["b"], 0, 2)
    assert DeltaTable(tmp_path, 1).count() == 2


def test_the_snapshot_after_a_write_equals_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"k": [1, 2, 3], "part": ["a/b", None, "é"], "x": [0.5, None, float("nan")]})
    configuration = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "4"}
    write_deltalake(tmp_path, rows, partition_by=["part"], configuration=configuration)
    table = DeltaTable(tmp_path)
    once = CommitProperties(app_transactions=[Transaction("job", 1)], custom_metadata={"tuple": (1, 2)})  # type: ignore[dict-item]
    acts: list[Callable[[], object]] = [
        lambda: write_deltalake(table, rows, mode="append", commit_properties=once),
        lambda: write_deltalake(
            table, rows.append_column("new", pa.array([[1], [], None])), mode="append", schema_mode="merge"
        ),
        lambda: table.delete("k = 2"),
        lambda: table.optimize.compact(),
        lambda: write_deltalake(table, rows.slice(0, 0), mode="append"),
        lambda: write_deltalake(table, rows, mode="overwrite"),
    ]
    parsed: list[int] = []
    read = commit_file.read_commit
    monkeypatch.setattr(commit_file, "read_commit", lambda *args, **more: parsed.append(args[1]) or read(*args, **more))
    for version, act in enumerate(acts, start=1):
        act()
        assert version not in parsed
        CACHE.clear()
        snapshot, log_snapshot = table.snapshot, DeltaTable(tmp_path).snapshot
        assert snapshot.version == log_snapshot.version == version
        assert snapshot.timestamp == log_snapshot.timestamp
        assert replace(snapshot.state, files=None, tombstones=None) == replace(  # type: ignore[arg-type]
            log_snapshot.state,
            files=None,  # type: ignore[arg-type]
            tombstones=None,  # type: ignore[arg-type]
        )
        for own_rows, log_rows in (
            (snapshot.files, log_snapshot.files),
            (snapshot.tombstones, log_snapshot.tombstones),
        ):
            assert own_rows.sort_by("path").to_pylist() == log_rows.sort_by("path").to_pylist()
        parsed.clear()


def test_a_replaced_commit_of_the_own_version_is_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    before = table.snapshot
    write_deltalake(table, ROWS, mode="append")
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    log.write_text('{"txn":{"appId":"another","version":5}}\n')
    assert before.update().transactions["another"].version == 5


def test_an_open_table_shows_what_was_written_through_it(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, ROWS.schema)
    write_deltalake(table, ROWS, mode="append")
    assert (table.version(), table.count()) == (1, 2)


WRITTEN = """
import sys
import pyarrow as pa
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.arrow.values import int64s
numbers = int64s(range(100))
kinds = {"n": pa.int64(), "s": pa.string(), "f": pa.float64(), "t": pa.timestamp("us", "UTC")}
rows = pa.table([numbers.cast(kind) for kind in kinds.values()], names=list(kinds))
write_deltalake(sys.argv[1], rows)
for _ in range(10):  # a checkpoint, too
    write_deltalake(sys.argv[1], rows, mode="append")
table = DeltaTable(sys.argv[1])
write_deltalake(table, rows, mode="append")
assert table.version() == 11
sys.exit("pandas" in sys.modules)
"""


@pytest.mark.slow
def test_an_append_imports_no_pandas(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITTEN, str(tmp_path / "table")], check=True)


@pytest.mark.parametrize("threads", [0, -1, "2", 1.5, True])
def test_invalid_numbers_of_threads_are_refused(threads: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"parallelism is {threads!r}"):
        ArrowEngine(threads)


def test_a_few_rows_of_a_partition_do_not_keep_whole_batches_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_PENDING_BYTES", 1 << 20)
    before, most = pa.total_allocated_bytes(), 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for _ in range(40):
            most = max(most, pa.total_allocated_bytes() - before)
            parts = pa.array(["rare", *["common"] * 65_535])
            yield pa.record_batch({"part": parts, "a": pa.array(np.arange(65_536))})

    schema = pa.schema([("part", pa.string()), ("a", pa.int64())])
    rows = pa.RecordBatchReader.from_batches(schema, batches())
    write_deltalake(tmp_path, rows, partition_by=["part"])
    assert DeltaTable(tmp_path).count() == 40 * 65_536
    assert most < 10 << 20  # the batches have 47 MB
