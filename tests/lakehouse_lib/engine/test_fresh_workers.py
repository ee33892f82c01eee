"""The imports of a new worker before its first row: not pandas, which takes a second to load."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Piece
from lakehouse_lib.engine.spark.disk_exchange import ScatterToDisk, by_group, gather_from_disk, scatter_to_disk
from tests.slow_cases import some_slow

WORKER = """
import sys
import pyarrow as pa
from lakehouse_lib.engine.spark.tasks import run_tasks
with pa.ipc.open_stream(sys.stdin.buffer) as tasks:
    results = list(run_tasks(iter(tasks)))
with pa.ipc.new_stream(sys.stdout.buffer, results[0].schema) as answer:
    for result in results:
        answer.write_batch(result)
print("pandas" in sys.modules, file=sys.stderr)
"""


class FreshWorkers(ArrowEngine):
    """An engine that runs the tasks of a function in a new process, with the functions that Spark's workers run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.loaded_pandas: list[str] = []

    def run(
        self, function: Callable[[Any], pa.Table], tasks: Sequence[Any], on_task: Any = None, sizes: Any = None
    ) -> pa.Table:
        assert on_task is None
        sent = pa.table(
            [pa.array(range(len(tasks)), pa.int32()), pa.array([pickle.dumps((function, task)) for task in tasks])],
            ["position", "task"],
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, sent.schema) as stream:
            stream.write_table(sent)
        done = subprocess.run([sys.executable, "-c", WORKER], input=sink.getvalue(), capture_output=True, check=True)
        self.loaded_pandas.append(done.stderr.decode().strip())
        with pa.ipc.open_stream(done.stdout) as answer:
            streams = answer.read_all()["result"].to_pylist()
        return pa.concat_tables([pa.ipc.open_stream(stream).read_all() for stream in streams])

    def exchange(
        self,
        scatter: Callable[[Any], Iterator[Piece]],
        gather: Callable[[Any, Iterator[Piece]], pa.Table],
        tasks: Sequence[Any],
        groups: Sequence[Any],
        on_task: Any = None,
    ) -> pa.Table:
        assert on_task is None
        sent = [ScatterToDisk(scatter, task, number, str(self.folder)) for number, task in enumerate(tasks)]
        return self.run(gather_from_disk, by_group(self.run(scatter_to_disk, sent), gather, groups))


@pytest.mark.parametrize(
    "verb",
    some_slow([lambda table: table.optimize.z_order(["id", "name"]), lambda table: table.optimize.compact()], 1),
    ids=["z_order", "compact"],
)
def test_workers_that_rewrite_files_load_no_pandas(tmp_path: Path, verb: Callable[[DeltaTable], object]) -> None:
    rows = pa.table(
        {
            "id": range(1000),
            "name": [f"n{i % 7}" for i in range(1000)],
            "x": [None, 1.5] * 500,
            "state": ["open"] * 1000,
        }
    )
    for _ in range(2):
        write_deltalake(tmp_path / "t", rows, mode="append")
    (tmp_path / "scratch").mkdir()
    engine = FreshWorkers(tmp_path / "scratch")
    verb(DeltaTable(tmp_path / "t", engine=engine))
    assert engine.loaded_pandas
    assert set(engine.loaded_pandas) == {"False"}
    assert DeltaTable(tmp_path / "t").count() == 2000
    assert len(DeltaTable(tmp_path / "t").file_uris()) == 1


@pytest.mark.parametrize("verb", some_slow(["z_order(['id', 'name'], target_size=20_000)", "compact()"], 1))
def test_a_process_that_rewrites_files_loads_no_pandas(tmp_path: Path, verb: str) -> None:
    rows = pa.table({"id": range(10_000), "name": [f"n{i % 7}" for i in range(10_000)], "x": [None, 1.5] * 5_000})
    for _ in range(2):
        write_deltalake(tmp_path / "t", rows, mode="append")
    script = (
        "import sys; from lakehouse_lib import DeltaTable; "
        f"metrics = DeltaTable(sys.argv[1]).optimize.{verb}; print(metrics['numFilesRemoved'], 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "t")], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["2", "False"]
