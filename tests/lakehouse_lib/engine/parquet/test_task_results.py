"""Errors of tasks reach the process that started the tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.parquet.task_results import result_of, results_of
from lakehouse_lib.errors import DeltaError


class TwoArgumentsError(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)


def fail() -> None:
    raise TwoArgumentsError("the disk is on fire", 2)


def test_an_error_that_cannot_be_unpickled_keeps_its_text() -> None:
    with pytest.raises(DeltaError, match="TwoArgumentsError: the disk is on fire") as raised:
        results_of(result_of(fail), lambda results: None)
    assert "in fail" in raised.value.__notes__[0]


def test_no_task_starts_after_an_error() -> None:
    started: list[int] = []

    def run(number: int) -> pa.Table:
        started.append(number)
        return result_of(lambda: number if number < 2 else fail())

    discarded: list[int] = []
    with pytest.raises(DeltaError, match="the disk is on fire"):
        results_of(ArrowEngine(1).run(run, range(20)), discarded.extend)
    assert (started, discarded) == ([0, 1, 2], [0, 1])
