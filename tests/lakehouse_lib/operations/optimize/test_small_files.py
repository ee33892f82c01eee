"""Compaction rewrites the files that health counts, and does not rewrite files of a Z-order run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake

from lakehouse_lib import DeltaTable
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.peers import files_delta_rs, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

TARGET = 100_000


def noise(size: int, seed: int = 0) -> pa.Table:
    """Rows that take about so many bytes in a file of delta-rs: eight bytes each, and two of an index."""
    return pa.table({"noise": np.random.default_rng(seed).random(size // 10)})


def append(path: Path, *sizes: int) -> None:
    for seed, size in enumerate(sizes):
        write_deltalake(path, noise(size, seed), mode="append")


@pytest.fixture
def z_ordered(tmp_path: Path) -> tuple[Path, int]:
    """A table with 8 files of one Z-order run, and the target size."""
    append(tmp_path, *[20_000] * 20)
    size = sum(file.stat().st_size for file in files_delta_rs(tmp_path)) // 8 + 1
    DeltaTable(tmp_path).optimize.z_order(["noise"], target_size=size)
    assert len(files_delta_rs(tmp_path)) == 8
    return tmp_path, size


@pytest.mark.parametrize(
    ("sizes", "compacted"),
    [
        ([30_000, 30_000, 30_000], 3),
        ([40_000], 0),
        ([40_000, 60_000, 70_000], 0),  # a single small file cannot be merged
        ([10_000, 20_000, 95_000], 2),
        ([45_000, 45_000, 40_000], 2),  # the third would exceed the target
        ([], 0),
    ],
)
def test_health_counts_the_files_that_compaction_rewrites(tmp_path: Path, sizes: list[int], compacted: int) -> None:
    DeltaRs.create(tmp_path, noise(10).schema)
    append(tmp_path, *sizes)
    expected = read_delta_rs(tmp_path)
    health = DeltaTable(tmp_path).health(target_file_size=TARGET)
    metrics = DeltaTable(tmp_path).optimize.compact(target_size=TARGET)
    assert health.compactable_files == metrics["numFilesRemoved"] == compacted
    assert health.small_files == sum(size < TARGET / 2 for size in sizes)
    assert read_delta_rs(tmp_path) == expected
    assert DeltaTable(tmp_path).health(target_file_size=TARGET).compactable_files == 0
    assert DeltaTable(tmp_path).optimize.compact(target_size=TARGET)["numFilesRemoved"] == 0


@pytest.mark.parametrize(("share", "rewritten"), some_slow([(0.06, 1), (0.04, 0)], 1))
def test_a_file_is_rewritten_without_its_deleted_rows_once_they_are_many(
    z_ordered: tuple[Path, int], share: float, rewritten: int
) -> None:
    path, size = z_ordered
    file = pa.table(DeltaRs(path).get_add_actions(flatten=True)).to_pylist()[0]
    delete_by_vector(path, {file["path"]: inline(range(int(file["num_records"] * share)))})
    expected = read_duckdb(path)
    health = DeltaTable(path).health(target_file_size=size, clustered_by=["noise"])
    metrics = DeltaTable(path).optimize.compact(target_size=size)
    assert health.compactable_files == metrics["numFilesRemoved"] == metrics["numFilesAdded"] == rewritten
    assert read_duckdb(path) == expected
    # The rows are in the same order, so it is still a file of the Z-order run.
    assert DeltaTable(path).optimize.z_order(["noise"], target_size=size)["numFilesAlreadyClustered"] == 8


def test_compaction_keeps_z_ordered_files_and_merges_small_ones(z_ordered: tuple[Path, int]) -> None:
    path, size = z_ordered
    before = files_delta_rs(path)
    append(path, 1_000, 2_000, 3_000)
    metrics = DeltaTable(path).optimize.compact(target_size=100 * size)
    assert (metrics["numFilesRemoved"], metrics["numFilesAdded"]) == (3, 1)
    assert before <= files_delta_rs(path)
    assert DeltaTable(path).optimize.compact(target_size=100 * size)["numFilesAdded"] == 0


def test_health_counts_the_files_that_z_order_would_rewrite(z_ordered: tuple[Path, int]) -> None:
    path, size = z_ordered
    append(path, 5_000, 5_000)
    health = DeltaTable(path).health(target_file_size=size, clustered_by=["noise"])
    metrics = DeltaTable(path).optimize.z_order(["noise"], target_size=size)
    assert health.unclustered_files == metrics["numFilesRemoved"] == 2
    after = DeltaTable(path).health(target_file_size=size, clustered_by=["noise"])
    assert (health.unmerged_runs, after.unmerged_runs) == (0, 1)
    assert after.unclustered_files == 0
