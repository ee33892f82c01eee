"""Values that all tasks of a run need."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.engine.base import Engine


def test_a_task_that_contains_a_shared_value_is_small_on_spark(engine: Engine) -> None:
    """Spark's driver holds each task several times: a merge of 40 MB of rows exhausted a heap of 1 GB."""
    value = (pa.table({"a": range(200_000)}), None)
    with engine.share(value) as shared:
        task = pickle.dumps(shared)
        loaded = pickle.loads(task).load()
        assert loaded[0].equals(value[0])
        assert engine.name == "arrow" or len(task) < 1000
        files = list(Path(shared.path).parent.iterdir()) if engine.name == "spark" else []  # type: ignore[attr-defined]
    assert not any(file.exists() for file in files)
