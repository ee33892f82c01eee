"""The sample of the keys, and the tasks that read the files of a Z-order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, WriterProperties, write_deltalake
from lakehouse_lib.operations.optimize.z_order import plan as planning
from lakehouse_lib.operations.optimize.z_order.shuffle import FilePart, Load

LAYOUTS: list[Any] = [object(), object()]


@given(st.lists(st.floats(0, 1 << 40), min_size=1, max_size=40), st.integers(1, 9))
def test_tasks_have_every_load_once_and_in_order(sizes: list[float], parallelism: int) -> None:
    half = len(sizes) // 2
    loads = [(Load((FilePart(str(number), None),), LAYOUTS[number >= half]), size) for number, size in enumerate(sizes)]
    tasks = planning._tasks(None, loads, parallelism)  # type: ignore[arg-type]
    read = [(source.path, load.layout) for task in tasks for load in task.loads for source in load.sources]
    assert read == [(load.sources[0].path, load.layout) for load, _ in loads]


def test_a_last_file_without_bytes_has_a_task() -> None:
    """The log may give a file a size of 0. Its middle was the end of all bytes, which is in no task."""
    loads = [(Load((FilePart(str(number), None),), LAYOUTS[0]), size) for number, size in enumerate([5e6] * 9 + [0.0])]
    tasks = planning._tasks(None, loads, 2)  # type: ignore[arg-type]
    assert sum(len(load.sources) for task in tasks for load in task.loads) == 10


@pytest.mark.slow
def test_files_that_are_sorted_inside_are_sampled_from_their_start_to_their_end(tmp_path: Path) -> None:
    """A sample of one row group of each file, at the file's own number, read the first 40 of 100 row groups."""
    random, each = np.random.default_rng(5), 2_000
    for _ in range(40):
        rows = {"a": np.sort(random.integers(0, 1_000_000, each)), "b": random.integers(0, 1_000_000, each)}
        properties = WriterProperties(max_row_group_size=each // 100)
        write_deltalake(tmp_path, pa.table(rows), mode="append", writer_properties=properties)
    table = DeltaTable(tmp_path)
    assert {pq.read_metadata(path).num_row_groups for path in table.file_uris()} == {100}
    table.optimize.z_order(["a", "b"], target_size=sum(table.snapshot.files["size"].to_pylist()) // 8)
    counts = [pq.read_metadata(path).num_rows for path in DeltaTable(tmp_path).file_uris()]
    assert max(counts) <= 1.3 * 40 * each / len(counts)
