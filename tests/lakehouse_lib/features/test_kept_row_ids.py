"""Rows keep their ids (delta.enableRowTracking) in every copy by any writer.

pyarrow reads the ids from Parquet files and the log. tests/interop/delta_spark/turns.py reads them by delta-spark.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaProtocolError, InvalidArgumentError, LogCorruptedError, MetadataChangedError
from lakehouse_lib.expressions import parse
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.log import file_names
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.fault_store import FaultStore, each
from tests.peers import collected, parquet_files, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow
from tests.tracked_tables import STABLE, ids_on_disk, rows, tracked_rows

ROW_TRACKING = {"rowTracking", "domainMetadata"}
PEERS_TABLES = Path(__file__).parents[2] / "data/delta_spark/tables"
VERBS: dict[str, Callable[[Snapshot, Engine], Any]] = {
    "compact": compact,
    "z_order": lambda snapshot, engine: z_order(snapshot, engine, ["id"]),
    "delete": lambda snapshot, engine: delete(snapshot, parse("id IN (5, 15, 25, 42)", snapshot.schema), engine),
}


def latest(root: Path) -> Snapshot:
    return DeltaTable(root).snapshot


def last_commit(root: Path) -> dict[str, list[dict[str, Any]]]:
    snapshot = latest(root)
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in snapshot.store.read(file_names.commit(snapshot.version)).splitlines():
        for kind, body in json.loads(line).items():
            actions.setdefault(kind, []).append(body)
    return actions


def by_first_id(root: Path) -> list[str]:
    """The paths of the files, ordered by their row ids."""
    files = latest(root).files
    return [path for _, path in sorted(zip(files["baseRowId"].to_pylist(), files["path"].to_pylist(), strict=True))]


def set_properties(root: Path, configuration: dict[str, str]) -> None:
    snapshot = latest(root)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET TBLPROPERTIES", {})
    transaction.set_metadata(replace(snapshot.metadata, configuration=configuration))
    assert isinstance(transaction.commit(), Committed)


@pytest.mark.parametrize("partition_by", some_slow([["part"], None], 1), ids=["partitioned", "whole"])
def test_row_ids_are_kept_by_every_verb(tmp_path: Path, engine: Engine, partition_by: list[str] | None) -> None:
    tracked_rows(tmp_path, STABLE, partition_by)
    assigned_ids = ids_on_disk(tmp_path)
    assert {key: version for key, (_, version) in assigned_ids.items()} == {n: 2 + n // 10 for n in range(30)}
    steps = ("delete", "compact", 30, "z_order", 40, "compact", "delete", 50, "z_order", "compact")
    for step in steps:
        before = latest(tmp_path)
        if isinstance(step, int):
            write_deltalake(tmp_path, rows(step), mode="append")
            assigned_ids |= {key: ids for key, ids in ids_on_disk(tmp_path).items() if key >= step}
        else:
            VERBS[step](before, engine)
        current_ids = ids_on_disk(tmp_path)
        assert current_ids == {key: ids for key, ids in assigned_ids.items() if key in current_ids}
        actions = last_commit(tmp_path)
        if step == "compact" and before.file_count == 1 + (partition_by is not None):
            assert latest(tmp_path).version == before.version
            continue
        assert actions["commitInfo"][0]["tags"] == {"delta.rowTracking.preserved": "true"}
        for file in actions["add"]:
            assert file["defaultRowCommitVersion"] == before.version + 1
            assert file["baseRowId"] > max(before.files["baseRowId"].to_pylist())
            stats = json.loads(file["stats"])
            assert set(stats["nullCount"]) == {"id", "part"} - set(partition_by or ())
    expected = [n for n in range(60) if n not in (5, 15, 25, 42)]
    assert sorted(current_ids) == expected
    shown = collected(engine.read(latest(tmp_path), None, None))
    for result in (
        shown,
        DeltaTable(tmp_path).to_pyarrow_table(),
        DeltaTable(tmp_path).to_pyarrow_dataset().to_table(),
    ):
        assert result.column_names == ["id", "part"]
        assert sorted(result["id"].to_pylist()) == expected
    for read in (read_delta_rs, read_duckdb):
        assert read(tmp_path)["id"].to_pylist() == expected


def test_materialized_row_ids_of_delta_spark_are_kept_with_their_gaps(tmp_path: Path, engine: Engine) -> None:
    """After an update a row has no version, after a merge rows have neither; the file action has missing values."""
    root = tmp_path / "t"
    shutil.copytree(PEERS_TABLES / "row_tracking", root)
    spark_ids = ids_on_disk(root)  # as delta-spark's own compaction wrote them
    (root / "_delta_log" / f"{5:020}.json").unlink()
    assert ids_on_disk(root) == spark_ids
    compact(latest(root), engine)
    (file,) = latest(root).files.to_pylist()
    stored = pq.ParquetFile(root / file["path"]).read()
    assert stored.column_names[2].startswith("_row-id-col-")
    rows_there = zip(*(column.to_pylist() for column in (stored["id"], stored[2], stored[3])), strict=True)
    assert {key: (row, version) for key, row, version in rows_there} == spark_ids
    delete(latest(root), parse("id = 4", latest(root).schema), engine)
    assert ids_on_disk(root) == {key: ids for key, ids in spark_ids.items() if key != 4}


@pytest.mark.parametrize("verb", list(VERBS))
def test_rows_that_are_marked_as_deleted_shift_no_other_ids(tmp_path: Path, verb: str) -> None:
    tracked_rows(tmp_path, STABLE)
    # Use row groups of three rows, so that positions in a row group differ from positions in the file.
    for path in latest(tmp_path).files["path"].to_pylist():
        pq.write_table(pq.ParquetFile(tmp_path / path).read(), tmp_path / path, row_group_size=3)
    assigned_ids = ids_on_disk(tmp_path)
    first, _, third = by_first_id(tmp_path)
    delete_by_vector(tmp_path, {first: inline({0, 4}), third: inline({9})})
    VERBS[verb](latest(tmp_path), ArrowEngine())
    gone = {0, 4, 29} | ({5, 15, 25} if verb == "delete" else set())
    assert ids_on_disk(tmp_path) == {key: ids for key, ids in assigned_ids.items() if key not in gone}


@pytest.mark.parametrize("verb", ["compact", "z_order"])
def test_concurrent_deletes_remove_rows_and_keep_other_row_ids(tmp_path: Path, engine: Engine, verb: str) -> None:
    tracked_rows(tmp_path, STABLE)
    assigned_ids = ids_on_disk(tmp_path)
    first, second, _ = by_first_id(tmp_path)
    delete_by_vector(tmp_path, {first: inline({2})})
    before = latest(tmp_path)
    delete_by_vector(tmp_path, {first: inline({2, 3}), second: inline({0})})
    VERBS[verb](before, engine)
    (file,) = latest(tmp_path).files.to_pylist()
    assert file["deletionVector"]["cardinality"] == 2
    assert ids_on_disk(tmp_path) == {key: ids for key, ids in assigned_ids.items() if key not in (2, 3, 10)}


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"delta.rowTracking.materializedRowIdColumnName": None}, "RowIdColumnName is not set"),
        ({"delta.rowTracking.materializedRowCommitVersionColumnName": ""}, "CommitVersionColumnName is not set"),
        ({"delta.rowTracking.materializedRowCommitVersionColumnName": "_ROW-ID-COL-1"}, "the same column"),
        ({"delta.rowTrackingSuspended": "true"}, "both true"),
    ],
    ids=["no name for ids", "no name for versions", "one name for both", "suspended"],
)
def test_a_table_without_names_of_row_id_columns_is_refused(
    tmp_path: Path, verb: str, changed: dict[str, str | None], words: str
) -> None:
    configuration = {key: value for key, value in {**STABLE, **changed}.items() if value is not None}
    tracked_rows(tmp_path, configuration)
    before = parquet_files(tmp_path)
    with pytest.raises(DeltaProtocolError, match=words) as caught:
        VERBS[verb](latest(tmp_path), ArrowEngine())
    assert (caught.value.code, caught.value.version) == ("DELTA_ROW_TRACKING", 4)
    assert parquet_files(tmp_path) == before
    assert latest(tmp_path).version == 4


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_file_without_ids_is_not_copied(tmp_path: Path, verb: str) -> None:
    tracked_rows(tmp_path, {"delta.rowTrackingSuspended": "true"})
    set_properties(tmp_path, STABLE)
    before = parquet_files(tmp_path)
    with pytest.raises(LogCorruptedError, match=r"no ids.*rowTracking"):
        VERBS[verb](latest(tmp_path), ArrowEngine())
    assert parquet_files(tmp_path) == before
    assert latest(tmp_path).version == 5


def test_copied_rows_get_new_ids_without_stable_row_ids(tmp_path: Path) -> None:
    tracked_rows(tmp_path, STABLE)
    compact(latest(tmp_path), ArrowEngine())
    set_properties(tmp_path, {**STABLE, "delta.enableRowTracking": "false"})
    delete(latest(tmp_path), parse("id = 3", latest(tmp_path).schema), ArrowEngine())
    (file,) = latest(tmp_path).files.to_pylist()
    assert pq.ParquetFile(tmp_path / file["path"]).schema_arrow.names == ["id", "part"]
    assert "tags" not in last_commit(tmp_path)["commitInfo"][0]
    assert {row for row, _ in ids_on_disk(tmp_path).values()} == set(range(60, 89))


def test_a_rewrite_conflicts_with_enabling_stable_row_ids(tmp_path: Path) -> None:
    """Also after another lost race, after which the rewrite would be tried again."""
    tracked_rows(tmp_path)
    before = latest(tmp_path)
    path = before.files["path"][0].as_py()
    # Another writer commits first, and a third one commits before the loser has read that commit.
    race = each(lambda: delete_by_vector(tmp_path, {path: inline({0})}))
    object.__setattr__(before, "store", FaultStore(tmp_path, before={"put_if_absent": race}))
    update = Snapshot.update

    def late(snapshot: Snapshot) -> Snapshot:
        if latest(tmp_path).version == 5:
            set_properties(tmp_path, STABLE)
        return update(snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "update", late)
        with pytest.raises(MetadataChangedError):
            compact(before, ArrowEngine())
    assert latest(tmp_path).version == 6
    assert latest(tmp_path).file_count == 3
    assert len(parquet_files(tmp_path)) == 4


def returned_ids(root: Path, predicate: str | None = None) -> dict[int, tuple[int, int]]:
    """The ids and versions that our reader returns."""
    rows_there = pa.table(DeltaTable(root).scan(["id"], predicate, row_ids=True))
    assert rows_there.column_names == ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    return {key: (row, version) for key, row, version in zip(*map(pa.ChunkedArray.to_pylist, rows_there), strict=True)}


def test_a_scan_returns_row_ids(tmp_path: Path) -> None:
    shutil.copytree(PEERS_TABLES / "row_tracking", tmp_path / "theirs")
    assert returned_ids(tmp_path / "theirs") == ids_on_disk(tmp_path / "theirs")
    (tmp_path / "theirs/_delta_log" / f"{5:020}.json").unlink()
    assert returned_ids(tmp_path / "theirs", "v <> 'a'") == {2: (2, 2), 4: (12, 4), 5: (5, 4), 6: (14, 4), 7: (15, 4)}
    root = tmp_path / "ours"
    tracked_rows(root, STABLE)
    delete_by_vector(root, {path: inline({0, 4}) for path in by_first_id(root)[:2]})
    assert returned_ids(root, "part = 1 AND id < 16") == {n: (n, 2 + n // 10) for n in range(1, 16, 2)}
    compact(latest(root), ArrowEngine())
    assert returned_ids(root) == ids_on_disk(root)
    empty = DeltaTable(root).scan(["id"], "id > 100", row_ids=True).read_all()
    assert empty.schema.field("_metadata.row_id").type == pa.int64()
    set_properties(root, {**STABLE, "delta.enableRowTracking": "false"})
    with pytest.raises(InvalidArgumentError, match=r"row tracking is not enabled.*enableRowTracking"):
        returned_ids(root)


def test_a_new_table_with_stable_row_ids(tmp_path: Path) -> None:
    properties = {"delta.enableRowTracking": "true"}
    write_deltalake(tmp_path / "t", rows(0), configuration=properties)
    write_deltalake(tmp_path / "t", rows(10), mode="append")
    assigned_ids = ids_on_disk(tmp_path / "t")
    assert assigned_ids == {n: (n, n // 10) for n in range(20)}
    compact(latest(tmp_path / "t"), ArrowEngine())
    assert ids_on_disk(tmp_path / "t") == assigned_ids
    created = latest(tmp_path / "t")
    assert created.protocol == Protocol(1, 7, None, frozenset({"appendOnly", "invariants", *ROW_TRACKING}))
    columns = [created.configuration[name] for name in list(STABLE)[1:]]
    assert [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}$", "", name) for name in columns] == [
        "_row-id-col-",
        "_row-commit-version-col-",
    ]
    create_table(created.store, created.schema, mode="overwrite", configuration=properties)
    again = latest(tmp_path / "t")
    assert {again.configuration[name] for name in list(STABLE)[1:]}.isdisjoint(columns)
    write_deltalake(tmp_path / "t", rows(30), mode="append")
    assert {row for row, _ in ids_on_disk(tmp_path / "t").values()} == set(range(40, 50))


def test_a_table_is_overwritten_by_a_table_with_stable_row_ids(tmp_path: Path) -> None:
    """A complete overwrite enables row tracking; a change of the schema ignores a property without its feature."""
    properties = {"delta.enableRowTracking": "true"}
    write_deltalake(tmp_path, rows(0))
    set_properties(tmp_path, STABLE)
    write_deltalake(
        tmp_path, rows(10).append_column("x", pa.nulls(10, pa.string())), mode="append", schema_mode="merge"
    )
    assert latest(tmp_path).files["baseRowId"].null_count == 2
    compact(latest(tmp_path), ArrowEngine())
    create_table(LocalStore(str(tmp_path)), latest(tmp_path).schema, mode="overwrite", configuration=properties)
    write_deltalake(tmp_path, rows(0), mode="append", schema_mode="merge")
    assert {row for row, _ in ids_on_disk(tmp_path).values()} == set(range(10))


Stored = list[tuple[int, int | None, int | None]]  # of a file: keys, and the values of its two columns


@given(st.data())
def test_sequences_of_copies_keep_row_ids(data: st.DataObject) -> None:
    """Copies merge files, omit rows, change rows and reorder rows. This leaves nulls, as updates do."""
    files: list[tuple[FileIds, Stored]] = []
    expected: dict[int, tuple[int, int]] = {}
    highest = 0

    def commit(stored: Stored, version: int) -> None:
        nonlocal highest
        files.append((FileIds(highest, version), stored))
        for place, (key, row, own) in enumerate(stored):
            now = (highest + place if row is None else row, version if own is None else own)
            assert expected.setdefault(key, now) == now
        highest += len(stored)

    for version in range(data.draw(st.integers(2, 8))):
        count = len(expected)
        commit([(count + n, None, None) for n in range(data.draw(st.integers(0, 5)))], 2 * version)
        chosen = data.draw(st.sets(st.integers(0, len(files) - 1)))
        copied: Stored = []
        for number in sorted(chosen):
            file, stored = files[number]
            places = np.array(sorted(data.draw(st.sets(st.sampled_from(range(len(stored)))))) if stored else [], int)
            originals = [stored[place] for place in places]
            columns = (pa.chunked_array([pa.array([row[n] for row in originals], pa.int64())]) for n in (1, 2))
            ids, versions = file.complete(*columns, places)
            copied += zip((row[0] for row in originals), ids.to_pylist(), versions.to_pylist(), strict=True)
        files = [file for number, file in enumerate(files) if number not in chosen]
        changed = data.draw(st.sets(st.sampled_from(sorted(row[0] for row in copied)))) if copied else set()
        for key in changed:  # keeps its id, and gets this version
            expected[key] = (expected[key][0], 2 * version + 1)
        copied = [(key, row, None if key in changed else own) for key, row, own in data.draw(st.permutations(copied))]
        commit(copied, 2 * version + 1)
    assert len({row for row, _ in expected.values()}) == len(expected)
