"""The Spark engine puts small tasks into one task of Spark; a large task is alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine

MIB = 1 << 20


def partitions_of(engine: SparkEngine, sizes: list[int] | None, count: int) -> list[set[int]]:
    """The tasks in each partition of the data frame that the engine runs."""
    rows = engine._tasks(len, range(count), sizes).selectExpr("spark_partition_id() AS place", "position").collect()
    return [{row.position for row in rows if row.place == place} for place in sorted({row.place for row in rows})]


@pytest.fixture
def engine(spark: Any, monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    monkeypatch.setattr(SparkEngine, "parallelism", 2)
    return SparkEngine(spark)


def test_small_tasks_are_put_together_and_a_large_task_is_alone(engine: SparkEngine) -> None:
    partitions = partitions_of(engine, [MIB] * 30 + [40 * MIB], 31)
    assert partitions[0] == {30}
    assert sorted(map(len, partitions)) == [1, 10, 10, 10]


def test_a_task_of_spark_has_at_most_about_128_mib(engine: SparkEngine) -> None:
    partitions = partitions_of(engine, [32 * MIB] * 48, 48)
    assert [len(tasks) for tasks in partitions] == [4] * 12


def test_without_sizes_each_task_is_a_task_of_spark(engine: SparkEngine) -> None:
    assert partitions_of(engine, None, 7) == [{number} for number in range(7)]


def test_compaction_of_many_small_partitions_starts_few_tasks_of_spark(tmp_path: Path, spark: Any) -> None:
    for _ in range(2):
        rows = pa.table({"day": range(40), "id": range(40)})
        write_deltalake(tmp_path, rows, mode="append", partition_by=["day"])
    tracker = spark.sparkContext.statusTracker()
    engine = SparkEngine(spark)
    spark.sparkContext.setJobGroup("compaction", "compaction")
    try:
        result = DeltaTable(tmp_path, engine=engine).optimize.compact()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert result["numFilesAdded"] == 40
    stages = {stage for job in tracker.getJobIdsForGroup("compaction") for stage in tracker.getJobInfo(job).stageIds}
    assert max(tracker.getStageInfo(stage).numTasks for stage in stages) <= 2 * engine.parallelism
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == sorted([*range(40), *range(40)])
