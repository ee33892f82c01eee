"""The engine for small work adds up the bytes of every class of tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.bounded import BoundedEngine, WorkTooLargeError
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.change_files import ChangeFileTask, changed_rows, copy_changed_rows


def test_change_files_count_and_unknown_tasks_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": range(1000)}))
    snapshot = DeltaTable(tmp_path).snapshot
    engine = BoundedEngine(snapshot, 10)
    target = WriteTarget(snapshot.store, snapshot.layout)
    with pytest.raises(WorkTooLargeError):
        engine.run(copy_changed_rows, [ChangeFileTask(target, changed_rows("delete", snapshot.files))])
    with pytest.raises(TypeError, match="the task int has no files"):
        engine.run(lambda number: pa.table({"number": [number]}), [1])
