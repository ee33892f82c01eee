"""Observation of the tasks of a Spark job: workers add the numbers of ended tasks to an accumulator in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from lakehouse_lib.engine.base import OnTask
from lakehouse_lib.engine.spark.connect import context_of

#: A function of ``mapInArrow``.
Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Numbers(AccumulatorParam):  # type: ignore[misc]  # pyspark is untyped
    """Collects numbers in a worker, and passes them to ``on_task`` in the driver."""

    def __init__(self, on_task: OnTask | None = None) -> None:
        self.on_task = on_task

    def __reduce__(self) -> Any:
        return _Numbers, ()

    def zero(self, value: list[int]) -> list[int]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:
        if self.on_task is None:
            return value1 + value2
        for number in value2:
            self.on_task(number)
        return value1


@contextmanager
def observed(spark: Any, function: Batches, on_task: OnTask | None) -> Iterator[Batches]:
    """A function that does the same as ``function``, and passes the numbers of ended tasks to ``on_task``.

    After the end of the block, ``on_task`` is not called any more.

    Args:
        function: runs tasks; the first column of its rows has the numbers of the tasks.
        on_task: None: ``function`` is returned unchanged. Spark Connect has no accumulators, so there ``function`` is
            always returned unchanged.
    """
    context = None if on_task is None else context_of(spark)
    if context is None:
        yield function
        return
    numbers = _Numbers(on_task)
    ended = context.accumulator([], numbers)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks: set[int] = set()

        def recorder() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                tasks.update(batch.column(0).to_pylist())
                yield batch

        yield from function(recorder())
        ended.add(sorted(tasks))

    try:
        yield run
    finally:
        numbers.on_task = None  # Spark never deletes accumulators
