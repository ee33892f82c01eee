"""A second z_order rewrites new files only; files with its tags stay."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake

from benchmarks.checks import skipped
from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.operations.optimize.z_order import tags
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.log_builder import put
from tests.peers import files_delta_rs, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow
from tests.table_builder import write_files
from tests.table_copies import CopyOf

BY = ["customer", "item"]


def rows(count: int, seed: int = 0, start: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(start, start + count),
            "customer": random.integers(0, 5_000, count),
            "item": random.integers(0, 2_000, count).astype(np.int32),
        }
    )


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in files_delta_rs(path))


def target(path: Path, files: int) -> int:
    return math.ceil(size_of(path) / files)


def build(root: Path) -> None:
    write_files(root, rows(40_000), files=20, writer=write_deltalake)


@pytest.fixture
def table(tmp_path: Path, copy_of: CopyOf) -> Path:
    """A table of 40,000 rows in 20 files, in the order of arrival."""
    return copy_of(build, tmp_path / "t")


def test_the_second_run_over_an_unchanged_table_writes_nothing(table: Path, engine: Engine) -> None:
    size = target(table, 8)
    first = DeltaTable(table, engine=engine).optimize.z_order(BY, target_size=size)
    assert (first["numFilesRemoved"], first["numFilesAlreadyClustered"]) == (20, 0)
    before = set(table.rglob("*"))
    for columns in (BY, ["ITEM", "customer"]):
        again = DeltaTable(table, engine=engine).optimize.z_order(columns, target_size=size)
        assert again["numFilesAdded"] == again["numFilesRemoved"] == again["partitionsOptimized"] == 0
        assert again["numFilesAlreadyClustered"] == again["totalFilesSkipped"] == first["numFilesAdded"]
        assert again["version"] == first["version"] == DeltaRs(table).version()
    assert set(table.rglob("*")) == before


@pytest.mark.slow
def test_five_percent_of_new_rows_are_all_that_is_written(table: Path) -> None:
    size = target(table, 16)
    before = DeltaTable(table)
    before.optimize.z_order(BY, target_size=size)
    write_files(table, rows(2_000, seed=1, start=40_000), files=4, writer=write_deltalake)
    expected = read_delta_rs(table)
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=size)
    assert metrics["numFilesRemoved"] == 4
    assert metrics["filesAdded"]["totalSize"] <= 0.2 * size_of(table)
    after = {column: skipped(table, column) for column in BY}
    assert read_delta_rs(table) == expected
    DeltaTable(table).optimize.z_order(BY, target_size=size, full=True)
    assert read_delta_rs(table) == expected
    for column in BY:
        assert after[column] >= skipped(table, column) - 0.1


@pytest.mark.slow
def test_small_daily_appends_are_merged_but_not_rewritten_daily(table: Path) -> None:
    size = target(table, 4)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    big = files_delta_rs(table)
    written = 0
    for day in range(32):
        write_files(table, rows(100, seed=day, start=40_000 + 100 * day), files=2, writer=write_deltalake)
        metrics = DeltaTable(table).optimize.z_order(BY, target_size=size)
        written += metrics["filesAdded"]["totalSize"]
        assert len(files_delta_rs(table) - big) <= 1 + math.log2(day + 1)
    small = sum(file.stat().st_size for file in files_delta_rs(table) - big)
    assert big <= files_delta_rs(table)  # the large files of the first run stay
    assert written <= (2 + math.log2(32)) * small
    assert sorted(read_duckdb(table)["id"].to_pylist()) == list(range(43_200))


def test_a_full_run_makes_one_run_of_all(table: Path) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=size, full=True)
    assert metrics["numFilesRemoved"] == metrics["numFilesAlreadyClustered"] == 8
    assert len(runs(table)) == 1


@pytest.mark.parametrize(
    ("columns", "factor", "is_rewritten"),
    some_slow(
        [
            (["item"], 1, True),
            (BY, 3, True),
            (BY, 1.3, False),
            (["customer", "item", "id"], 1, True),
            (BY, 1 / 3, True),
        ],
        3,
    ),
)
def test_other_columns_or_another_file_size_z_order_all_files_again(
    table: Path, columns: list[str], factor: float, is_rewritten: bool
) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    metrics = DeltaTable(table).optimize.z_order(columns, target_size=int(size * factor))
    assert metrics["numFilesRemoved"] == (8 if is_rewritten else 0)
    assert len(runs(table)) == 1


def test_each_partition_is_planned_separately(tmp_path: Path) -> None:
    data = rows(8_000).append_column("day", pa.array(["a", "b"] * 4_000))
    write_files(tmp_path, data, files=4, writer=write_deltalake, partition_by=["day"])
    size = target(tmp_path, 8)
    DeltaTable(tmp_path).optimize.z_order(BY, target_size=size)
    z_ordered = files_delta_rs(tmp_path)
    new = rows(2_000, seed=2).append_column("day", pa.array(["b"] * 2_000))
    write_files(tmp_path, new, files=2, writer=write_deltalake, partition_by=["day"])
    metrics = DeltaTable(tmp_path).optimize.z_order(BY, target_size=size)
    assert (metrics["numFilesRemoved"], metrics["partitionsOptimized"]) == (2, 1)
    assert z_ordered <= files_delta_rs(tmp_path)


def test_rows_that_delta_rs_updates_are_z_ordered_again(table: Path) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    z_ordered = files_delta_rs(table)
    DeltaRs(table).update(updates={"item": "item + 1"}, predicate="customer < 300")
    untouched = z_ordered & files_delta_rs(table)
    expected = read_delta_rs(table)
    assert 0 < len(untouched) < 8
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=size)
    assert metrics["numFilesRemoved"] > 0
    assert untouched <= files_delta_rs(table)
    assert read_delta_rs(table) == expected


@pytest.mark.slow
def test_files_that_a_delete_rewrites_stay_z_ordered_while_they_are_not_small(table: Path) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    DeltaTable(table).delete("id % 10 = 3")
    assert len(runs(table)) == 1
    assert DeltaTable(table).optimize.z_order(BY, target_size=size)["numFilesRemoved"] == 0
    DeltaTable(table).delete("id % 10 <> 4")
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=size)
    assert (metrics["numFilesRemoved"], metrics["numFilesAdded"]) == (8, 1)


def test_a_retention_that_is_not_valid_does_not_fail_a_committed_z_order(table: Path) -> None:
    properties = {"configuration": {"delta.deletedFileRetentionDuration": "nonsense"}}
    snapshot = load_snapshot(open_store(table))
    put(open_store(table), snapshot.version + 1, {"metaData": _metadata_of(table) | properties})
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=target(table, 8))
    assert metrics["version"] == snapshot.version + 2 == DeltaRs(table).version()


def _metadata_of(table: Path) -> dict[str, Any]:
    (line,) = [
        line for line in (table / f"_delta_log/{0:020}.json").read_text().splitlines() if line.startswith('{"metaData"')
    ]
    metadata: dict[str, Any] = json.loads(line)["metaData"]
    return metadata


@pytest.mark.parametrize(("share", "is_rewritten"), [(0.04, False), (0.06, True)])
def test_a_file_is_z_ordered_again_once_more_than_five_percent_of_it_are_deleted(
    table: Path, share: float, is_rewritten: bool
) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    for file in pa.table(DeltaRs(table).get_add_actions(flatten=True)).to_pylist()[:2]:
        delete_by_vector(table, {file["path"]: inline(range(int(file["num_records"] * share)))})
    expected = read_duckdb(table)
    metrics = DeltaTable(table).optimize.z_order(BY, target_size=size)
    assert metrics["numFilesRemoved"] == (2 if is_rewritten else 0)
    assert read_duckdb(table) == expected


@pytest.mark.parametrize("files", some_slow([1, 8], 1))
def test_a_single_file_with_many_deleted_rows_is_z_ordered_again(table: Path, files: int) -> None:
    size = target(table, files) * 2
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    file = pa.table(DeltaRs(table).get_add_actions(flatten=True)).to_pylist()[0]
    delete_by_vector(table, {file["path"]: inline(range(file["num_records"] // 2))})
    expected = read_duckdb(table)
    delta = DeltaTable(table)
    assert delta.health(target_file_size=size, clustered_by=BY).unclustered_files == 1
    assert delta.optimize.z_order(BY, target_size=size)["numFilesRemoved"] == 1
    assert read_duckdb(table) == expected
    assert delta.optimize.compact(target_size=size)["numFilesRemoved"] == 0
    assert delta.optimize.z_order(BY, target_size=size)["numFilesRemoved"] == 0


def test_the_next_run_rewrites_only_a_partition_with_a_conflict(tmp_path: Path) -> None:
    data = rows(8_000).append_column("day", pa.array(["a", "b"] * 4_000))
    write_files(tmp_path, data, files=4, writer=write_deltalake, partition_by=["day"])
    size = target(tmp_path, 8)
    snapshot = load_snapshot(open_store(tmp_path))
    DeltaRs(tmp_path).delete("day = 'a' AND id < 100")
    first = z_order(snapshot, ArrowEngine(), BY, target_size=size)
    assert first.metrics["numRemovedFiles"] == 4
    second = DeltaTable(tmp_path).optimize.z_order(BY, target_size=size)
    assert second["numFilesAlreadyClustered"] == first.metrics["numAddedFiles"]
    assert second["partitionsOptimized"] == 1
    assert DeltaTable(tmp_path).optimize.z_order(BY, target_size=size)["numFilesAdded"] == 0


def test_only_one_of_two_concurrent_runs_is_committed(table: Path) -> None:
    size = target(table, 8)
    snapshot = load_snapshot(open_store(table))
    z_order(snapshot, ArrowEngine(), BY, target_size=size)
    assert z_order(snapshot, ArrowEngine(), BY, target_size=size).version is None
    assert len(runs(table)) == 1


def test_tags_pass_through_a_checkpoint_and_are_plain_text_to_others(table: Path) -> None:
    size = target(table, 8)
    DeltaTable(table).optimize.z_order(BY, target_size=size)
    DeltaRs(table).create_checkpoint()
    for log in (table / "_delta_log").glob("*.json"):
        log.unlink()
    assert DeltaTable(table).optimize.z_order(BY, target_size=size)["numFilesAlreadyClustered"] == 8
    assert {tuple(sorted(tag)) for tag in tags_of(table)} == {
        (tags.CELL, tags.COLUMNS, tags.LAYOUT, tags.RUN, tags.TARGET_SIZE)
    }


@pytest.mark.parametrize("text", ["", "-1", "1e6", "9" * 30, "ten", None])
def test_tags_that_are_not_a_size_are_ignored(text: str | None) -> None:
    kind = pa.map_(pa.string(), pa.string())
    files = pa.table({"tags": pa.array([[(tags.TARGET_SIZE, text), (tags.LAYOUT, "kd-1")], None], kind)})
    assert tags.target_sizes(files).tolist() == [0, 0]


def tags_of(path: Path) -> list[dict[str, str]]:
    return [dict(tag or ()) for tag in DeltaTable(path).snapshot.files["tags"].to_pylist()]


def runs(path: Path) -> set[str | None]:
    return {tag.get(tags.RUN) for tag in tags_of(path)}
