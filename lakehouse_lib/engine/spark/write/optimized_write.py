"""Optimized writes: Spark gathers the rows of each partition of the table before it writes them.

Without ``delta.autoOptimize.optimizeWrite``, each task of a DataFrame writes a file for each of its partition values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.protocol.table_properties import OPTIMIZE_WRITE, TARGET_FILE_SIZE
from lakehouse_lib.schema.quoting import quoted

_TASK_BYTES = 512 << 20  # delta-spark's optimizeWrite.binSize
#: The parts of a shuffle. If a large partition of the table is split, the other partitions in the same part are split,
#: too, so there are many parts (delta-spark has up to 2,000). Spark merges small parts.
_PARTS = 1000


def rebalanced(frame: Any, target: WriteTarget) -> Any:
    """The frame with the rows of each partition in as few tasks as possible, if the table has optimized writes.

    Spark decides on the tasks after the shuffle, by the bytes that it has: a partition that is larger than the size in
    ``settings`` is split, and small partitions share a task.
    """
    from pyspark.sql import functions as F

    if not OPTIMIZE_WRITE.is_on(target.configuration):
        return frame
    return frame.hint("rebalance", *(F.col(quoted(name)) for name in target.layout.partition_columns))


def settings(target: WriteTarget) -> Mapping[str, str]:
    """The settings of the session with which a rebalanced frame is written; empty for other tables.

    The shuffled bytes of a task are ``delta.targetFileSize``, else 512 MiB.
    """
    configuration = target.configuration
    if not OPTIMIZE_WRITE.is_on(configuration):
        return {}
    has_size = TARGET_FILE_SIZE.key in configuration
    size = TARGET_FILE_SIZE.of(configuration, target.store.root) if has_size else _TASK_BYTES
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(_PARTS),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # it would ignore the size
        "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(size),
    }
