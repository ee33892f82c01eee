"""The layouts zorder and hilbert: positions on the curves, and tables that are laid out by them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checks import skipped
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.optimize.z_order import tags
from lakehouse_lib.operations.optimize.z_order.curve import Curve, hilbert_axes, interleave_bits
from tests.peers import read_delta_rs

BY = ["x", "y"]


@pytest.mark.parametrize(("columns", "bits"), [(1, 4), (2, 1), (2, 5), (3, 3), (4, 2)])
def test_a_hilbert_curve_visits_each_cell_once_by_neighbours(columns: int, bits: int) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(1 << bits)] * columns, indexing="ij")).reshape(columns, -1)
    position = interleave_bits(hilbert_axes(list(grid), bits), bits)
    assert sorted(position.tolist()) == list(range(1 << bits * columns))
    steps = np.abs(np.diff(grid[:, np.argsort(position)], axis=1)).sum(axis=0)
    assert set(steps.tolist()) == {1}


def test_interleaved_bits_begin_with_the_highest_of_each_axis() -> None:
    assert interleave_bits([np.array([0b10]), np.array([0b01])], 2).tolist() == [0b1001]


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from(["zorder", "hilbert"]))
def test_equal_keys_have_equal_positions_of_at_most_62_bits(columns: int, seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    keys = [random.integers(-100, 100, 300).astype(random.choice(["i1", "i4", "i8"])) for _ in range(columns)]
    curve = Curve.of("zorder" if kind == "zorder" else "hilbert", keys, np.ones(300))
    positions = curve.positions(keys)
    assert positions.min() >= 0
    assert positions.max() < 1 << 62
    again = curve.positions([key.astype(np.int64) for key in keys])
    assert np.array_equal(positions, again)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["zorder", "hilbert"])
def test_a_table_keeps_its_layout_and_its_runs_are_merged(tmp_path: Path, layout: str) -> None:
    random = np.random.default_rng(0)
    count = 0

    def append(rows: int) -> None:
        nonlocal count
        data = {"id": np.arange(count, count + rows), **{name: random.integers(0, 1_000_000, rows) for name in BY}}
        write_deltalake(tmp_path, pa.table(data), mode="append")
        count += rows

    append(24_000)
    size = math.ceil(DeltaTable(tmp_path).snapshot.files["size"][0].as_py() / 24)
    assert DeltaTable(tmp_path).optimize.z_order(BY, target_size=size, layout=layout)["numFilesAdded"] == 24
    (run,) = {tag[tags.RUN] for tag in tags_of(tmp_path)}
    assert min(skipped(tmp_path, column) for column in BY) > 0.6
    for _ in range(3):
        append(1_200)
        DeltaTable(tmp_path).optimize.z_order(BY, target_size=size)
    assert {(tag[tags.RUN], tag[tags.LAYOUT]) for tag in tags_of(tmp_path)} == {(run, tags.LAYOUTS[layout])}
    assert read_delta_rs(tmp_path)["id"].to_pylist() == list(range(count))
    for again in (None, layout):
        assert DeltaTable(tmp_path).optimize.z_order(BY, target_size=size, layout=again)["numFilesAdded"] == 0
    assert DeltaTable(tmp_path).optimize.z_order(BY, target_size=size, layout="kd")["numFilesRemoved"] == 24
    assert {tag[tags.LAYOUT] for tag in tags_of(tmp_path)} == {tags.LAYOUTS["kd"]}
    assert read_delta_rs(tmp_path)["id"].to_pylist() == list(range(count))


def test_a_single_column_has_one_layout(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": np.random.default_rng(0).permutation(10_000)}))
    size = DeltaTable(tmp_path).snapshot.files["size"][0].as_py() // 4
    assert DeltaTable(tmp_path).optimize.z_order(["x"], target_size=size, layout="hilbert")["numFilesRemoved"] == 1
    for layout in ("hilbert", "kd", "zorder", None):
        assert DeltaTable(tmp_path).optimize.z_order(["x"], target_size=size, layout=layout)["numFilesAdded"] == 0


def test_a_layout_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    with pytest.raises(InvalidArgumentError, match="layout is 'peano'; expected one of kd, zorder, hilbert"):
        DeltaTable(tmp_path).optimize.z_order(["x"], layout="peano")


def tags_of(root: Path) -> list[dict[str, str]]:
    return [dict(tag) for tag in DeltaTable(root).snapshot.files["tags"].to_pylist() if tag]
