"""The Arrow engine's exchange: the order of pieces, scratch files beyond the memory bound, failures."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_lib.engine.arrow.engine as arrow_engine
from lakehouse_lib import StoreError
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Piece


def scatter(task: int) -> Iterator[Piece]:
    for order in (2, 0, 1):
        for group in (0, 3):
            yield Piece(group, order, pa.table({"sent": [f"{task}.{order};"] * 1000}))


def gather(group: str, pieces: Iterator[Piece]) -> pa.Table:
    return pa.table({"group": [group], "sent": ["".join(piece.rows["sent"][-1].as_py() for piece in pieces)]})


@pytest.mark.parametrize("memory", [0, 10_000, 1 << 30])
def test_pieces_come_by_order_then_task(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(arrow_engine, "_PIECES_IN_MEMORY", memory)
    result = ArrowEngine(2).exchange(scatter, gather, [0, 1], ["a", "b", "c", "d"])
    assert result["group"].to_pylist() == ["a", "d"]
    assert result["sent"].to_pylist() == ["0.0;1.0;0.1;1.1;0.2;1.2;"] * 2


def test_a_tasks_own_error_is_raised() -> None:
    def fail(task: int) -> pa.Table:
        raise StoreError(f"task {task} failed", table="t")

    with pytest.raises(StoreError, match="task 1 failed"):
        ArrowEngine(2).run(fail, [1, 1, 1])
    with pytest.raises(StoreError, match="task 1 failed"):
        ArrowEngine(2).exchange(
            lambda task: iter([Piece(0, 0, pa.table({"x": [1]}))]), lambda task, pieces: fail(task), [1], [1]
        )


def test_a_scratch_file_that_cannot_be_written_is_a_store_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(arrow_engine, "_PIECES_IN_MEMORY", 0)

    def deleted(task: int) -> Iterator[Piece]:
        for folder in tmp_path.iterdir():
            shutil.rmtree(folder)
        yield Piece(0, 0, pa.table({"x": [1]}))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StoreError, match=r"scratch file .* cannot be written.*TMPDIR"):
        ArrowEngine(1).exchange(deleted, gather, [0], ["a"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StoreError, match=r"scratch folder cannot be created.*TMPDIR"):
        ArrowEngine(1).exchange(scatter, gather, [0], ["a"])
