"""A compaction with concurrent deletes by deletion vectors: no deleted row comes back, and neither operation fails."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import QueryBuilder
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import ConcurrentDeleteDeleteError
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize import rewrite
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.store import LocalStore
from tests.deletion_vector_bytes import delete_by_vector, in_file, inline
from tests.fault_store import FaultStore, each
from tests.peers import read_duckdb
from tests.table_builder import longs, paths_by, write_files

ROWS = 5_000


def table(root: Path, files: int = 3, rows: int = ROWS) -> list[str]:
    """A table with files of ``rows`` numbers each, and their paths in the order of the numbers."""
    write_files(root, longs(k=range(files * rows)), files)
    return paths_by(root, "k")


def check(root: Path, gone: set[int], files: int = 3, rows: int = ROWS) -> None:
    expected = [k for k in range(files * rows) if k not in gone]
    for read in (
        lambda: DeltaTable(root).to_pyarrow_table(),
        lambda: read_duckdb(root),
    ):
        assert sorted(read()["k"].to_pylist()) == expected
    assert DeltaTable(root).count() == len(expected)


@pytest.mark.parametrize("step", [500, 2], ids=["inline", "in a file"])
def test_deleted_rows_stay_deleted_in_the_merged_file(tmp_path: Path, engine: Engine, step: int) -> None:
    first, second, third = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0, 5, ROWS - 1}), third: inline({7})})
    before = DeltaTable(tmp_path).snapshot
    more = set(range(1, ROWS, step)) - {5}
    delete_by_vector(tmp_path, {first: inline({0, 5, ROWS - 1} | more), second: inline(set(range(0, ROWS, 500)))})
    result = compact(before, engine)
    gone = {0, 5, ROWS - 1} | more | {ROWS + k for k in range(0, ROWS, 500)} | {2 * ROWS + 7}
    check(tmp_path, gone)
    assert result.metrics["numAddedFiles"] == 1
    (file,) = DeltaTable(tmp_path).snapshot.files.to_pylist()
    assert (file["deletionVector"]["storageType"] == "u") == (step == 2)
    assert json.loads(file["stats"])["tightBounds"] is False
    assert file["dataChange"] is False


def test_concurrent_deletes_at_every_rebase(tmp_path: Path) -> None:
    first, second, third = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    winners = [{first: inline({0, 1})}, {first: inline({0, 1, 2}), second: inline({3})}, {third: inline({4})}]
    races = each(*(partial(delete_by_vector, tmp_path, vectors) for vectors in winners))
    object.__setattr__(before, "store", FaultStore(tmp_path, before={"put_if_absent": races}))
    compact(before, ArrowEngine())
    check(tmp_path, {0, 1, 2, ROWS + 3, 2 * ROWS + 4})


def test_vectors_of_earlier_rebases_are_deleted(tmp_path: Path) -> None:
    first, second, _ = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    even = set(range(0, ROWS, 2))
    winners = [{first: inline(even)}, {first: inline({*even, 1})}, {second: inline({3})}]
    races = each(*(partial(delete_by_vector, tmp_path, vectors) for vectors in winners))
    object.__setattr__(before, "store", FaultStore(tmp_path, before={"put_if_absent": races}))
    compact(before, ArrowEngine())
    check(tmp_path, {*even, 1, ROWS + 3})
    vectors = DeltaTable(tmp_path).snapshot.files["deletionVector"]
    assert len(list(tmp_path.glob("deletion_vector_*.bin"))) == len(vectors) == 1


def test_the_first_vectors_of_a_table_are_applied_to_the_merged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of a compaction reads no statistics of a table without vectors."""
    monkeypatch.setattr(rewrite, "_ATTEMPTS", 1)
    monkeypatch.setattr(rewrite, "_PATIENCE_SECONDS", 0.0)
    first, second = table(tmp_path, 2, 10)
    DeltaTable(tmp_path).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({0}), second: inline({3})})
    compact(before, ArrowEngine())
    check(tmp_path, {0, 13}, 2, 10)


def test_a_merged_file_without_visible_rows_is_deleted(tmp_path: Path) -> None:
    first, second = table(tmp_path, 2, 10)
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline(range(10)), second: inline(range(10))})
    compact(before, ArrowEngine())
    assert len(DeltaTable(tmp_path).snapshot.files) == 0
    assert {path.name for path in tmp_path.glob("*.parquet")} == {first, second}


def test_a_bin_without_visible_rows_makes_no_file(tmp_path: Path) -> None:
    first, second = table(tmp_path, 2, 10)
    delete_by_vector(tmp_path, {first: inline(range(10)), second: inline(range(10))})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: in_file(tmp_path, range(10))[0]})  # the same vector in a new file
    compact(before, ArrowEngine())
    assert len(DeltaTable(tmp_path).snapshot.files) == 0


def test_a_bin_with_a_removed_file_is_planned_again(tmp_path: Path) -> None:
    first, *_ = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({2})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({1, 2})})
    now = DeltaTable(tmp_path).snapshot
    delete(now, parse(f"k = {ROWS}", now.schema), ArrowEngine())
    assert compact(before, ArrowEngine()).metrics["numRemovedFiles"] == 3  # planned again
    check(tmp_path, {1, 2, ROWS})


def test_a_long_compaction_is_planned_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "_PATIENCE_SECONDS", 0.0)
    table(tmp_path)
    before = DeltaTable(tmp_path).snapshot
    rows = iter(range(3))

    def delete_a_row() -> None:
        now = DeltaTable(tmp_path).snapshot
        delete(now, parse(f"k = {next(rows)}", now.schema), ArrowEngine(), rewrite=True)

    object.__setattr__(before, "store", FaultStore(tmp_path, before={"put_if_absent": each(*[delete_a_row] * 3)}))
    with pytest.raises(ConcurrentDeleteDeleteError):
        compact(before, ArrowEngine())
    check(tmp_path, {0, 1, 2})
    assert {path.name for path in tmp_path.glob("*.parquet")} == {
        path for version in range(DeltaTable(tmp_path).version() + 1) for path in files_of(tmp_path, version)
    }


def files_of(root: Path, version: int) -> list[str]:
    names: list[str] = DeltaTable(root, version=version).snapshot.files["path"].to_pylist()
    return names


def test_restored_rows_prevent_the_transfer_of_vectors(tmp_path: Path) -> None:
    # RESTORE restores a file's older vector.
    first, *_ = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({1, 2})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {first: inline({2})})
    compact(before, ArrowEngine())  # planned again
    check(tmp_path, {2})


def test_wrong_row_counts_prevent_the_transfer_of_vectors(tmp_path: Path) -> None:
    # A writer whose numRecords counts only the rows that a vector does not hide.
    first, second, _ = table(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0})})
    commit = tmp_path / "_delta_log" / f"{3:020}.json"
    commit.write_text(commit.read_text().replace(f'\\"numRecords\\": {ROWS}', f'\\"numRecords\\": {ROWS - 1}'))
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {second: inline({1})})
    compact(before, ArrowEngine())  # planned again
    rows = DeltaTable(tmp_path).to_pyarrow_table()["k"].to_pylist()
    assert sorted(rows) == [k for k in range(3 * ROWS) if k not in {0, ROWS + 1}]


def test_decimals_in_the_statistics_stay_exact(tmp_path: Path) -> None:
    amounts = [Decimal("12345678901234567890.99"), Decimal("12345678901234567891.99")]
    for amount in amounts:
        write_deltalake(
            tmp_path, pa.table({"k": [1, 2], "a": pa.array([amount] * 2, pa.decimal128(38, 2))}), mode="append"
        )
    first, second = DeltaTable(tmp_path).snapshot.files["path"].to_pylist()
    delete_by_vector(tmp_path, {first: inline({0})})
    before = DeltaTable(tmp_path).snapshot
    delete_by_vector(tmp_path, {second: inline({0})})
    compact(before, ArrowEngine())
    (stats,) = DeltaTable(tmp_path).snapshot.files["stats"].to_pylist()
    assert '"a":12345678901234567891.99' in stats
    assert json.loads(stats)["tightBounds"] is False


@given(st.sets(st.integers(0, 2**40), max_size=200) | st.builds(lambda n: set(range(0, n, 2)), st.integers(1, 40_000)))
def test_saved_vectors_are_loaded(tmp_path_factory: pytest.TempPathFactory, positions: set[int]) -> None:
    store = LocalStore(str(tmp_path_factory.getbasetemp() / "vectors"), fsync=False)
    bitmap = BitMap64(positions)
    assert [deletion_vector.load(store, descriptor) for descriptor in deletion_vector.save(store, [bitmap])] == [bitmap]


@pytest.mark.parametrize("step", [500, 2], ids=["inline", "in a file"])
def test_other_readers_read_our_vectors(tmp_path: Path, step: int) -> None:
    first, _ = table(tmp_path, 2)
    store = LocalStore(str(tmp_path), fsync=False)
    gone = set(range(0, ROWS, step))
    delete_by_vector(tmp_path, {first: deletion_vector.save(store, [BitMap64(gone)])[0]})
    check(tmp_path, gone, 2)
    answer = pa.table(QueryBuilder().register("t", DeltaRs(tmp_path)).execute("SELECT k FROM t"))
    assert sorted(answer["k"].to_pylist()) == [k for k in range(2 * ROWS) if k not in gone]
