"""A task that reads footers contains only the paths of its own files."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.operations.optimize.purge import plan_purge
from lakehouse_lib.operations.optimize.statistics import compute_statistics
from lakehouse_lib.privacy.key_texts import KeyTexts, spellings
from lakehouse_lib.privacy.matches import count_live
from lakehouse_lib.snapshot import Snapshot

FILES = 12


class PicklingEngine(ArrowEngine):
    """An engine with two slots that pickles its tasks, as the engine of a cluster does."""

    def __init__(self) -> None:
        super().__init__(parallelism=2)
        self.tasks: list[bytes] = []

    def run(
        self, function: Callable[[Any], pa.Table], tasks: Sequence[Any], on_task: Any = None, sizes: Any = None
    ) -> pa.Table:
        self.tasks += map(pickle.dumps, tasks)
        return super().run(function, [pickle.loads(task) for task in self.tasks], on_task, sizes)


@pytest.mark.parametrize(
    "verb",
    [
        plan_purge,
        compute_statistics,
        lambda snapshot, engine: count_live(snapshot, "name = 'x'", engine),
        lambda snapshot, engine: spellings(snapshot, "name", KeyTexts.of([1], {pa.int64()}), engine),
    ],
    ids=["purge", "statistics", "matches", "spellings"],
)
def test_a_task_contains_only_its_own_paths(tmp_path: Path, verb: Callable[[Snapshot, PicklingEngine], object]) -> None:
    """Before, each task contained the paths, or even the statistics, of all files: 860 MB for 100,000 files."""
    mapped, unmeasured = {"delta.columnMapping.mode": "name"}, {"delta.dataSkippingNumIndexedCols": "0"}
    for number in range(FILES):
        rows = pa.table({"name": [f"name {number}"]})
        write_deltalake(tmp_path, rows, mode="append", configuration={**mapped, **unmeasured} if not number else None)
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "32"})
    snapshot = DeltaTable(tmp_path).snapshot
    engine = PicklingEngine()
    verb(snapshot, engine)
    paths = [path.encode() for path in snapshot.files["path"].to_pylist()]
    holders = [[path in task for task in engine.tasks].count(True) for path in paths]
    assert (len(engine.tasks), holders) == (6, [1] * FILES)
