"""A Z-order with concurrent deletes by deletion vectors: the same rows are deleted in the new files."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize import rewrite
from lakehouse_lib.operations.optimize.z_order import deleted_positions, shuffle
from lakehouse_lib.operations.optimize.z_order import plan as planning
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.snapshot import Snapshot
from tests.deletion_vector_bytes import delete_by_vector, in_file, inline
from tests.fault_store import FaultStore, each
from tests.peers import read_duckdb
from tests.table_builder import paths_by

ROWS = 2_000
REPOSITORY = Path(__file__).parents[5]


def table(root: Path, files: int = 3, rows: int = ROWS) -> list[str]:
    """A table with two partitions of so many files of ``rows`` rows, and the files' paths, of "a" and then of "b".

    ``k`` counts the rows.
    """
    random = np.random.default_rng(3)
    for number in range(2 * files):
        data = {
            "k": pa.array(range(number * rows, (number + 1) * rows), pa.int64()),
            "x": pa.array(random.integers(0, 500, rows)),
            "y": pa.array(random.choice(np.array(["red", "green", "blue"]), rows)),
            "part": pa.array(["ab"[number // files]] * rows),
        }
        write_deltalake(root, pa.table(data), mode="append", partition_by=["part"])
    return paths_by(root, "k")


def check(root: Path, gone: set[int], rows: int = 6 * ROWS) -> None:
    expected = [k for k in range(rows) if k not in gone]
    assert sorted(DeltaTable(root).to_pyarrow_table()["k"].to_pylist()) == expected
    assert DeltaTable(root).count() == len(expected)
    assert sorted(read_duckdb(root)["k"].to_pylist()) == expected
    answer = pa.table(QueryBuilder().register("t", DeltaRs(root)).execute("SELECT k FROM t"))
    assert sorted(answer["k"].to_pylist()) == expected


def z_order_by_x_and_y(before: Snapshot, engine: Engine, files: int = 4) -> ChangeResult:
    size = sum(before.files["size"].to_pylist()) // (2 * files)
    return z_order(before, engine, ["x", "y"], target_size=size)


def test_deleted_rows_stay_deleted_in_the_clustered_files(tmp_path: Path, exchange_engine: Engine) -> None:
    first, second, third, fourth, *_ = table(tmp_path)
    old = {0, 5, ROWS - 1}
    delete_by_vector(tmp_path, {first: inline(old), third: inline({7})})
    before = DeltaTable(tmp_path).snapshot
    more = set(range(1, ROWS, 2)) - {5}
    (large,) = in_file(tmp_path, old | more)
    delete_by_vector(tmp_path, {first: large, second: inline(set(range(0, ROWS, 500))), fourth: inline({0})})
    result = z_order_by_x_and_y(before, exchange_engine)
    gone = old | more | {ROWS + k for k in range(0, ROWS, 500)} | {2 * ROWS + 7, 3 * ROWS}
    check(tmp_path, gone)
    after = DeltaTable(tmp_path).snapshot
    assert result.metrics["numRemovedFiles"] == 6
    assert result.version == after.version == before.version + 2
    assert len(after.files) == result.metrics["numAddedFiles"] >= 8
    assert not any(file["dataChange"] for file in after.files.to_pylist())
    for file in after.files.to_pylist():
        assert json.loads(file["stats"]).get("tightBounds", True) is (file["deletionVector"] is None)


@pytest.mark.slow
def test_concurrent_deletes_during_z_order(tmp_path: Path, exchange_engine: Engine) -> None:
    first, *_ = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0})})  # enables the feature
    command = [sys.executable, "-m", "tests.marking_writer", str(tmp_path), "1", "9"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        z_order_by_x_and_y(DeltaTable(tmp_path).snapshot, exchange_engine)
        said, _ = other.communicate("\n", timeout=60)
    gone = set(json.loads(said))
    assert len(gone) >= 5
    assert [entry["operation"] for entry in DeltaTable(tmp_path).history()].count("OPTIMIZE") == 1
    check(tmp_path, gone | {0})


def test_a_partition_that_lost_a_file_is_left_out_and_the_other_has_its_marks(tmp_path: Path) -> None:
    first, *_, last = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({1})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {last: inline({2})})
    now = DeltaTable(tmp_path).snapshot
    delete(now, parse(f"k = {ROWS}", now.schema), ArrowEngine())
    result = z_order_by_x_and_y(before, ArrowEngine())
    assert result.metrics["numRemovedFiles"] == 3
    check(tmp_path, {1, ROWS, 5 * ROWS + 2})


@pytest.mark.slow
@pytest.mark.parametrize(("remembered", "looks"), [(3 * ROWS, 1), (3 * ROWS - 2, 2)], ids=["remembered", "too many"])
def test_deletes_during_the_search_of_deleted_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: int, looks: int
) -> None:
    first, second, *_, last = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    winners = [{first: inline({0, 1})}, {second: inline({3})}, {last: inline({4})}]
    races = each(*(partial(delete_by_vector, tmp_path, vectors) for vectors in winners))
    looked_at: list[list[int]] = []
    look_for = deleted_positions.DeletedRowSearch._look_for

    def watched(self: Any, groups: Any, marked: Any) -> Any:
        looked_at.append(list(groups))
        return look_for(self, groups, marked)

    monkeypatch.setattr(deleted_positions.DeletedRowSearch, "_look_for", watched)
    monkeypatch.setattr(deleted_positions, "_REMEMBERED_ROWS", remembered)
    at_commits = {"put_if_absent": lambda path: races(path) if path.startswith("_delta_log/") else None}
    object.__setattr__(before, "store", FaultStore(tmp_path, before=at_commits))
    z_order_by_x_and_y(before, ArrowEngine())
    check(tmp_path, {0, 1, ROWS + 3, 5 * ROWS + 4})
    # The last vector is in the other partition, so the places in the first partition are reused.
    first_group, last_group = looked_at[0], looked_at[-1]
    assert first_group != last_group
    assert looked_at == [first_group] * looks + [last_group]


def test_a_partition_with_endless_deletes_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = table(tmp_path, 2, 50)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    marked = [0]

    def another_is_faster(put_if_absent: Callable[[str, bytes], bool], path: str, data: bytes) -> bool:
        if first.encode() in data:
            marked.append(len(marked))
            delete_by_vector(tmp_path, {first: inline(marked)})
        return put_if_absent(path, data)

    monkeypatch.setattr(rewrite, "_ROUNDS", 2)
    object.__setattr__(before, "store", FaultStore(tmp_path, instead={"put_if_absent": another_is_faster}))
    result = z_order_by_x_and_y(before, ArrowEngine(), 1)
    assert result.metrics["numRemovedFiles"] == 2
    assert len(marked) == 4
    check(tmp_path, set(marked), 200)


def test_files_without_visible_rows_are_not_added(tmp_path: Path) -> None:
    first, second, *_ = table(tmp_path, 2, 50)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline(range(50)), second: inline(range(50))})
    z_order_by_x_and_y(before, ArrowEngine(), 2)
    after = DeltaTable(tmp_path).snapshot.files
    assert {dict(values)["part"] for values in after["partitionValues"].to_pylist()} == {"b"}
    check(tmp_path, set(range(100)), 200)


def test_restored_rows_prevent_the_transfer_of_vectors(tmp_path: Path) -> None:
    first, *_ = table(tmp_path, 2, 50)
    delete_by_vector(tmp_path, {first: inline({1, 2})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({2})})
    result = z_order_by_x_and_y(before, ArrowEngine(), 1)
    assert result.metrics["numRemovedFiles"] == 2
    check(tmp_path, {2}, 200)


def test_an_unreadable_vector_fails_only_its_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, *_ = table(tmp_path, 2, 50)
    (lost,) = in_file(tmp_path, {1})
    delete_by_vector(tmp_path, {first: lost})
    before = DeltaTable(tmp_path).snapshot

    def lose_the_vector(_: str) -> None:
        for vector in tmp_path.glob("deletion_vector_*.bin"):
            vector.unlink()
            delete_by_vector(tmp_path, {first: inline({1, 2})})

    object.__setattr__(before, "store", FaultStore(tmp_path, before={"put_if_absent": lose_the_vector}))
    with caplog.at_level(logging.WARNING):
        result = z_order_by_x_and_y(before, ArrowEngine(), 1)
    assert "cannot find the new places of rows" in caplog.text
    assert result.metrics["numRemovedFiles"] == 2
    check(tmp_path, {1, 2}, 200)


@pytest.mark.parametrize(
    "otherwise",
    [lambda rows: rows.slice(1), lambda rows: rows.take(pa.array(range(len(rows))[::-1]))],
    ids=["fewer", "in another order"],
)
def test_rows_that_differ_from_the_written_rows_get_no_deletion_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, otherwise: Callable[[pa.Table], pa.Table]
) -> None:
    first, *_ = table(tmp_path, 2, 50)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({0, 1})})
    monkeypatch.setattr(deleted_positions, "rows_in_order", lambda *args: map(otherwise, shuffle.rows_in_order(*args)))
    result = z_order_by_x_and_y(before, ArrowEngine(), 1)
    assert result.metrics["numRemovedFiles"] == 2
    check(tmp_path, {0, 1}, 200)


NUMBERS = st.sampled_from([0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), None])
TEXTS = st.sampled_from(["", "a", "b", "ab", "a very long text that is cut in the statistics of a file", None])


@st.composite
def histories(draw: st.DrawFn) -> Mapping[str, Any]:
    """Files with many equal rows, the rows deleted before z_order reads them, and the rows deleted during it."""
    files = draw(st.lists(st.lists(st.tuples(NUMBERS, TEXTS), min_size=1, max_size=40), min_size=2, max_size=4))
    chosen = [draw(st.sets(st.integers(0, len(rows) - 1))) for rows in files]
    before = [draw(st.sets(st.sampled_from(sorted(positions)))) if positions else set() for positions in chosen]
    return {"files": files, "after": chosen, "before": before, "outputs": draw(st.integers(1, 5))}


@pytest.mark.slow
@given(histories(), st.sampled_from([["x"], ["y"], ["x", "y"], ["y", "x"]]), st.sampled_from([0, 1 << 24]))
def test_exactly_the_deleted_rows_are_missing(
    tmp_path_factory: pytest.TempPathFactory, history: Mapping[str, Any], columns: list[str], remembered: int
) -> None:
    root = tmp_path_factory.mktemp("marked")
    start = 0
    starts = []
    for rows in history["files"]:
        numbers, texts = zip(*rows, strict=True)
        k = pa.array(range(start, start + len(rows)), pa.int64())
        # The size of the payload decides how rows are cut into pieces, but must not affect their places.
        payload = pa.array(["-" * (17 * row % 301) for row in range(len(rows))])
        data = {"k": k, "x": pa.array(numbers, pa.float64()), "y": pa.array(texts, pa.string()), "payload": payload}
        write_deltalake(root, pa.table(data), mode="append")
        starts.append(start)
        start += len(rows)
    files = DeltaTable(root).snapshot.files.to_pylist()
    paths = [path for _, path in sorted((json.loads(file["stats"])["minValues"]["k"], file["path"]) for file in files)]
    # One row is deleted first, so that the table has the feature.
    before = [positions | {0} if not number else positions for number, positions in enumerate(history["before"])]
    after = [positions | {0} if not number else positions for number, positions in enumerate(history["after"])]
    delete_by_vector(
        root, {path: inline(positions) for path, positions in zip(paths, before, strict=True) if positions}
    )
    snapshot = DeltaTable(root).snapshot
    new = {path: inline(now) for path, was, now in zip(paths, before, after, strict=True) if was != now}
    delete_by_vector(root, new)
    size = max(sum(snapshot.files["size"].to_pylist()) // history["outputs"], 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deleted_positions, "_REMEMBERED_ROWS", remembered)
        patch.setattr(planning, "CHUNK_ROWS", 8)
        for name, value in {
            "CHUNK_ROWS": 8,
            "_CHUNK_BYTES": 900,
            "_BATCH_ROWS": 7,
            "_SMALL_BATCH_ROWS": 2,
            "_PIECE_BYTES": 300,
            "_BLOCK_ROWS": 5,
            "_ROW_GROUP_ROWS": 2,
            "_CELL_ROWS": 1,
            "_CELL_SAMPLE": 1,
            "_WORDS": 3,
        }.items():
            patch.setattr(shuffle, name, value)
        z_order(snapshot, ArrowEngine(2), columns, target_size=size)
    gone = {start + row for start, rows in zip(starts, after, strict=True) for row in rows}
    left = DeltaTable(root).to_pyarrow_table(columns=["k"])["k"].to_pylist()
    assert sorted(left) == [k for k in range(sum(map(len, history["files"]))) if k not in gone]


def test_all_rows_are_deleted_during_a_z_order(tmp_path: Path) -> None:
    for number in range(2):
        write_deltalake(tmp_path, pa.table({"k": range(number * 10, number * 10 + 10), "x": [1] * 10}), mode="append")
    path, other_path = sorted(DeltaTable(tmp_path).snapshot.files["path"].to_pylist())
    delete_by_vector(tmp_path, {path: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {path: inline({0, 1})})
    now = DeltaTable(tmp_path).snapshot
    delete(now, parse("k >= 0", now.schema), ArrowEngine())
    assert z_order(before, ArrowEngine(), ["x"]).version is None  # planned again: there is no row
    assert other_path not in DeltaTable(tmp_path).snapshot.files["path"].to_pylist()


@pytest.mark.parametrize("remembered", [100, 0])
def test_deleted_positions_are_found_in_a_file_of_equal_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"k": [2 * number, 2 * number + 1], "x": [1, 1]}), mode="append")
    first = sorted(DeltaTable(tmp_path).snapshot.files["path"].to_pylist())[0]
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({0, 1})})
    monkeypatch.setattr(deleted_positions, "_REMEMBERED_ROWS", remembered)
    # One value, divided among as many files as the sizes require, in batches of few rows.
    result = z_order(before, ArrowEngine(), ["x"], target_size=sum(before.files["size"].to_pylist()) // 5)
    assert result.metrics["numAddedFiles"] < 6
    assert DeltaTable(tmp_path).count() == DeltaTable(tmp_path).to_pyarrow_table().num_rows == 4
