"""Verbs on tables with deletion vectors: no deleted row comes back, and no row is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import QueryBuilder

from lakehouse_lib import DeltaTable, LogCorruptedError, RetentionError, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import plan_delete
from lakehouse_lib.operations.optimize import compact as compaction
from lakehouse_lib.privacy.purge import prove, purge
from tests.deletion_vector_bytes import delete_by_vector, in_file, inline
from tests.log_builder import Action, edit
from tests.peers import read_duckdb

ROWS = 500


def rows(start: int) -> pa.Table:
    numbers = range(start, start + ROWS)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "who": [f"person {n % 10}" for n in numbers],
            "p": ["even" if start // ROWS % 2 == 0 else "odd"] * ROWS,
        }
    )


def files_of(root: Path) -> list[str]:
    """Log paths of the live files, ordered by their smallest k."""
    adds: dict[int, str] = {}
    files = DeltaTable(root).snapshot.files
    for path, stats in zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True):
        adds[json.loads(stats)["minValues"]["k"]] = path
    return [adds[start] for start in sorted(adds)]


#: The vectors of the files: inline, one of two vectors in a file of a subfolder, none, and one that hides every row.
DELETED = ({0, 7, 499}, set(range(0, 400, 3)), set(), set(range(ROWS)))
LEFT = sorted(k + ROWS * number for number, gone in enumerate(DELETED) for k in range(ROWS) if k not in gone)


@pytest.fixture(params=[None, ["p"]], ids=["whole", "partitioned"])
def marked(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for number in range(4):
        write_deltalake(tmp_path, rows(number * ROWS), mode="append", partition_by=request.param)
    first, second, _, fourth = files_of(tmp_path)
    stored = in_file(tmp_path, DELETED[1], DELETED[3], prefix="Ab")
    delete_by_vector(tmp_path, {first: inline(DELETED[0]), second: stored[0], fourth: stored[1]})
    return tmp_path


def check(root: Path, expected: list[int]) -> None:
    """Check that this library, delta-rs and DuckDB read the same rows."""
    assert sorted(DeltaTable(root).to_pyarrow_table(columns=["k"])["k"].to_pylist()) == expected
    assert sorted(read_duckdb(root)["k"].to_pylist()) == expected
    query = QueryBuilder().register("t", DeltaRs(str(root))).execute("SELECT k FROM t")
    assert sorted(pa.table(query)["k"].to_pylist()) == expected


def last_commit(root: Path) -> list[dict[str, Any]]:
    (*_, newest) = sorted((root / "_delta_log").glob("0*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def removed_vectors(root: Path) -> list[int]:
    """Cardinalities of the vectors in the newest commit's removes, ascending; 0: a remove without a vector."""
    removes = [action["remove"] for action in last_commit(root) if "remove" in action]
    return sorted(remove["deletionVector"]["cardinality"] if "deletionVector" in remove else 0 for remove in removes)


def test_deleted_rows_are_not_counted(marked: Path) -> None:
    table = DeltaTable(marked)
    assert table.count() == len(LEFT) == table.to_pyarrow_table().num_rows
    assert table.health().rows == len(LEFT)
    check(marked, LEFT)


def test_counts_by_footers_where_the_log_has_no_statistics(marked: Path) -> None:
    for version in range(DeltaTable(marked).version() + 1):
        edit(marked, version, lambda action: action.get("add", {}).pop("stats", None))
    assert DeltaTable(marked).count() == len(LEFT)
    assert DeltaTable(marked).health().rows is None


def test_delete_keeps_deleted_rows_deleted(marked: Path, engine: Engine) -> None:
    table = DeltaTable(marked, engine=engine)
    metrics = table.delete("k < 10 OR k = 1001")
    left = [k for k in LEFT if not (k < 10 or k == 1001)]
    assert metrics["num_deleted_rows"] == len(LEFT) - len(left)
    assert metrics["num_copied_rows"] == (ROWS - len(DELETED[0]) - 8) + (ROWS - 1)
    assert removed_vectors(marked) == [0, len(DELETED[0])]
    check(marked, left)
    assert DeltaTable(marked).count() == len(left)


def test_delete_of_whole_files_counts_visible_rows(marked: Path, engine: Engine) -> None:
    metrics = DeltaTable(marked, engine=engine).delete()
    assert metrics["num_deleted_rows"] == len(LEFT)
    assert removed_vectors(marked) == sorted(map(len, DELETED))
    check(marked, [])


def test_delete_leaves_other_files_as_they_are(marked: Path, engine: Engine) -> None:
    DeltaTable(marked, engine=engine).delete("k = 1001")
    vectors = DeltaTable(marked).snapshot.files["deletionVector"].to_pylist()
    assert sorted(vector["cardinality"] for vector in vectors if vector) == sorted(
        len(gone) for gone in DELETED if gone
    )
    check(marked, [k for k in LEFT if k != 1001])


def test_delete_removes_hidden_rows_from_files(marked: Path, engine: Engine) -> None:
    # Row 7 is deleted already, but still in its file.
    metrics = DeltaTable(marked, engine=engine).delete("k = 7")
    assert (metrics["num_deleted_rows"], metrics["num_removed_files"]) == (0, 1)
    assert metrics["num_copied_rows"] == ROWS - len(DELETED[0])
    check(marked, LEFT)
    again = DeltaTable(marked, engine=engine).delete("k = 7")
    assert (again["num_removed_files"], again["version"]) == (0, metrics["version"])


def tighten(root: Path) -> None:
    """Make the statistics of the first file bound only the rows that its vector does not hide, which the protocol
    allows."""

    def change(action: Action) -> None:
        stats = json.loads(action["add"]["stats"]) if "add" in action else {"minValues": {"k": None}}
        if stats["minValues"]["k"] == 0:
            stats |= {"minValues": {"k": 1}, "maxValues": {"k": 498}, "nullCount": {"k": 0}, "tightBounds": True}
            action["add"]["stats"] = json.dumps(stats)

    edit(root, DeltaTable(root).version(), change)
    assert not len(DeltaTable(root).files("k = 499"))


def test_delete_removes_hidden_rows_beyond_the_statistics(marked: Path, engine: Engine) -> None:
    tighten(marked)
    metrics = DeltaTable(marked, engine=engine).delete("k = 499")
    assert (metrics["num_deleted_rows"], metrics["num_removed_files"]) == (0, 1)
    purge(str(marked), "k = 499", engine=engine)
    assert prove(str(marked), "k = 499", engine=engine).clean
    check(marked, LEFT)


def test_delete_reads_files_with_vectors_in_its_partitions(marked: Path) -> None:
    tighten(marked)
    snapshot = DeltaTable(marked).snapshot
    looked = {
        condition: plan_delete(snapshot, parse(condition, snapshot.schema)).candidates["path"].to_pylist()
        for condition in ("k = 499", "k = 499 AND p = 'odd'", "k = 1000", "p = 'odd'")
    }
    first, second, third, fourth = files_of(marked)
    assert sorted(looked["k = 499"]) == sorted([first, second, fourth])
    whole = not snapshot.partition_columns
    assert sorted(looked["k = 499 AND p = 'odd'"]) == sorted([first, second, fourth] if whole else [second, fourth])
    assert sorted(looked["k = 1000"]) == sorted([first, second, third, fourth])
    assert sorted(looked["p = 'odd'"]) == (sorted([first, second, fourth]) if whole else [])


@pytest.mark.parametrize(
    "verb",
    [lambda table: table.optimize.compact(), lambda table: table.optimize.z_order(["k"])],
    ids=["compact", "k-d"],
)
def test_rewriting_restores_no_deleted_row(marked: Path, engine: Engine, verb: Callable[[DeltaTable], Any]) -> None:
    before = DeltaTable(marked).version()
    verb(DeltaTable(marked, engine=engine))
    assert removed_vectors(marked) == sorted(map(len, DELETED))
    assert DeltaTable(marked).snapshot.files["deletionVector"].null_count == len(DeltaTable(marked).snapshot.files)
    assert DeltaTable(marked).count() == len(LEFT)
    check(marked, LEFT)
    # The earlier version still exists, with its vectors.
    assert DeltaTable(marked, before).to_pyarrow_table().num_rows == len(LEFT)


def test_overwriting_removes_files_with_their_vectors(marked: Path, engine: Engine) -> None:
    write_deltalake(marked, rows(9 * ROWS), mode="overwrite", engine=engine)
    assert removed_vectors(marked) == sorted(map(len, DELETED))
    check(marked, [*range(9 * ROWS, 10 * ROWS)])


def test_compaction_keeps_a_concurrent_deletion_vector(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = files_of(marked)[0]
    merge = compaction.merge_files

    def merge_and_be_overtaken(task: compaction.CompactTask) -> pa.Table:
        merged = merge(task)
        if first in task.files["path"].to_pylist():
            delete_by_vector(marked, {first: inline({*DELETED[0], 8})})
        return merged

    monkeypatch.setattr(compaction, "merge_files", merge_and_be_overtaken)
    DeltaTable(marked, engine=ArrowEngine(1)).optimize.compact()
    check(marked, [k for k in LEFT if k != 8])


def vector_files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("deletion_vector_*.bin")}


def test_vacuum_keeps_vectors_of_live_and_recently_removed_files(marked: Path) -> None:
    everything = vector_files(marked)
    (orphan,) = in_file(marked, [1], prefix="Zz")
    assert orphan["storageType"] == "u"
    for file in marked.rglob("*.*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    DeltaTable(marked).vacuum(dry_run=False, full=True)
    assert vector_files(marked) == everything
    check(marked, LEFT)
    version = DeltaTable(marked).version()
    DeltaTable(marked).optimize.compact()
    DeltaTable(marked).vacuum(dry_run=False, full=True)
    assert vector_files(marked) == everything
    assert DeltaTable(marked, version).to_pyarrow_table().num_rows == len(LEFT)
    DeltaTable(marked).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert vector_files(marked) == set()
    check(marked, LEFT)


def test_vacuum_deletes_nothing_if_the_file_of_a_vector_is_unknown(marked: Path) -> None:
    file = files_of(marked)[2]
    delete_by_vector(marked, {file: {**inline([1]), "storageType": "u", "pathOrInlineDv": "short"}})
    before = {*marked.rglob("*.*")}
    with pytest.raises(LogCorruptedError, match="'short' is shorter than a UUID"):
        DeltaTable(marked).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert {*marked.rglob("*.*")} == before


def test_vacuum_keeps_a_file_whose_vector_was_replaced(marked: Path) -> None:
    # The old pair of file and vector is removed; the file stays live with the new vector.
    first = files_of(marked)[0]
    delete_by_vector(marked, {first: inline({*DELETED[0], 1})})
    DeltaTable(marked).vacuum(0, dry_run=False, enforce_retention_duration=False)
    check(marked, [k for k in LEFT if k != 1])


def test_purge_finds_rows_that_vectors_hide(marked: Path, engine: Engine) -> None:
    with pytest.raises(RetentionError, match="1 rows, hidden by deletion vectors"):
        purge(str(marked), "k = 7", engine=engine)
    assert prove(str(marked), "k = 7", engine=engine).rows == 1
    DeltaTable(marked, engine=engine).delete("k = 7")
    report = purge(str(marked), "k = 7", engine=engine)
    assert (len(report.files), report.rows) == (1, 1)
    assert prove(str(marked), "k = 7", engine=engine).clean
    check(marked, LEFT)


def test_an_erasure_reaches_hidden_and_visible_rows(marked: Path, engine: Engine) -> None:
    DeltaTable(marked, engine=engine).delete("who = 'person 3'")
    purge(str(marked), "who = 'person 3'", engine=engine)
    assert prove(str(marked), "who = 'person 3'", engine=engine).clean
    check(marked, [k for k in LEFT if k % 10 != 3])
    assert all("person 3" not in pq.read_table(file)["who"].to_pylist() for file in marked.rglob("*.parquet"))


def test_a_vector_of_another_file_is_refused(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, rows(0))
    (file,) = files_of(tmp_path)
    delete_by_vector(tmp_path, {file: inline([ROWS])})
    with pytest.raises(LogCorruptedError, match=f"deletes row {ROWS}, but the file has {ROWS} rows"):
        DeltaTable(tmp_path, engine=engine).delete("k = 1")
    with pytest.raises(LogCorruptedError, match=f"row {ROWS}"):
        DeltaTable(tmp_path).to_pyarrow_table()
