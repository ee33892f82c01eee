"""Manifests: DuckDB reads the files that they list, and gets the rows of the table."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.symlink_manifests import FOLDER
from lakehouse_lib.transaction import OptimisticTransaction, post_commit
from tests.fault_store import FaultStore
from tests.peers import plain
from tests.slow_cases import some_slow

FRESH = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
PARTS = [None, "x", "a b", "c/d=e", "ü%20"]


def data(start: int) -> pa.Table:
    numbers = range(start, start + 20)
    return pa.table({"id": pa.array(numbers, pa.int64()), "part": [PARTS[number % 5] for number in numbers]})


def listed(root: Path) -> dict[str, list[str]]:
    """The lines of each manifest by its folder."""
    folder = root / FOLDER
    return {str(path.parent.relative_to(folder)): path.read_text().splitlines() for path in folder.rglob("manifest")}


def ids(root: Path) -> list[int]:
    """The ids of the rows in all listed files."""
    paths = [path for paths in listed(root).values() for path in paths]
    return sorted(row[0] for row in duckdb.read_parquet(paths).fetchall()) if paths else []


def assert_fresh(root: Path) -> None:
    table = DeltaTable(root)
    assert ids(root) == sorted(table.to_pyarrow_table()["id"].to_pylist())
    if table.metadata().partition_columns:
        # The folder of a manifest has the name of the partition's folder.
        for folder, paths in listed(root).items():
            assert {str(Path(path).parent.relative_to(root)) for path in paths} == {folder}


@pytest.mark.parametrize("partition_by", [None, ["part"]], ids=["whole", "partitioned"])
def test_generate(tmp_path: Path, partition_by: list[str] | None) -> None:
    root = tmp_path / "a table"
    write_deltalake(root, data(0), partition_by=partition_by)
    write_deltalake(root, data(20), mode="append")
    table = DeltaTable(root)
    assert not (root / FOLDER).exists()
    table.generate()
    assert_fresh(root)
    assert set(listed(root)) == (
        {".", *()} if partition_by is None else {Path(path).parent.as_posix() for path in decoded(table)}
    )
    table.delete("part = 'x'")
    assert len(ids(root)) == 40
    table.generate(mode="symlink_format_manifest")
    assert len(ids(root)) == 32
    assert_fresh(root)
    table.delete()
    table.generate()
    assert listed(root) == ({".": []} if partition_by is None else {})


def decoded(table: DeltaTable) -> list[str]:
    return [str(Path(uri).relative_to(table.table_uri)) for uri in table.file_uris()]


def test_the_lines_are_those_of_delta_rs(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0).slice(1, 1), partition_by="part")
    write_deltalake(tmp_path, data(20).slice(1, 1), mode="append")
    DeltaTable(tmp_path).generate()
    own = {folder: sorted(paths) for folder, paths in listed(tmp_path).items()}
    deltalake.DeltaTable(tmp_path).generate()
    assert {folder: sorted(paths) for folder, paths in listed(tmp_path).items()} == own


@pytest.mark.parametrize("partition_by", some_slow([["part"], None], 1), ids=["partitioned", "whole"])
def test_the_property_updates_manifests_after_each_commit(tmp_path: Path, partition_by: list[str] | None) -> None:
    chance = random.Random(1)
    write_deltalake(tmp_path, data(0), partition_by=partition_by, configuration=FRESH)
    table = DeltaTable(tmp_path)
    assert_fresh(tmp_path)
    verbs: list[Callable[[], object]] = [
        lambda: write_deltalake(tmp_path, data(chance.randrange(1000)), mode="append"),
        lambda: table.delete(f"id % 3 = {chance.randrange(3)}"),
        lambda: table.delete("part = 'x'"),
        lambda: table.update({"part": "'x'"}, predicate="part IS NULL"),
        lambda: table.optimize.compact(),
        lambda: table.restore(chance.randrange(table.version() + 1)),
        lambda: write_deltalake(tmp_path, data(0), mode="overwrite"),
    ]
    for _ in range(20):
        chance.choice(verbs)()
        assert_fresh(tmp_path)
    DeltaTable.create(tmp_path, data(0).schema, mode="overwrite", partition_by=["part"], configuration=FRESH)
    assert listed(tmp_path) == {}


def test_a_slow_hook_does_not_leave_older_manifests(tmp_path: Path) -> None:
    """The hook of version 1 writes after that of version 2."""
    write_deltalake(tmp_path, data(0), configuration=FRESH)
    others: list[str] = []

    def append_first(path: str) -> None:
        if path.startswith(FOLDER) and not others:
            others.append(path)
            write_deltalake(tmp_path, data(100), mode="append")

    snapshot = load_snapshot(FaultStore(tmp_path, before={"put": append_first}))
    transaction = OptimisticTransaction(snapshot, snapshot.store, "DELETE", {})
    transaction.read(None)
    transaction.remove(snapshot.files)
    assert transaction.commit()
    assert others
    assert ids(tmp_path) == list(range(100, 120))


def test_deletion_vectors_are_refused(tmp_path: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    with pytest.raises(UnsupportedFeatureError, match="enableDeletionVectors cannot") as caught:
        write_deltalake(tmp_path / "both", data(0), configuration={**vectors, **FRESH})
    assert caught.value.code == "DELTA_MANIFEST_UNSUPPORTED"
    assert not DeltaTable.is_deltatable(tmp_path / "both")
    assert not list((tmp_path / "both").rglob("*.parquet"))
    write_deltalake(tmp_path / "vectors", data(0), configuration=vectors)
    table = DeltaTable(tmp_path / "vectors")
    table.generate()  # no file has a vector yet
    table.delete("id = 3")
    with pytest.raises(UnsupportedFeatureError, match="deletion vectors"):
        table.generate()
    table.optimize.purge()
    table.generate()
    assert_fresh(tmp_path / "vectors")


def test_tables_and_modes_without_manifests_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(UnsupportedFeatureError, match="column mapping"):
        DeltaTable(tmp_path).generate()
    with pytest.raises(InvalidArgumentError, match="expected symlink_format_manifest"):
        DeltaTable(tmp_path).generate(mode="iceberg")
    assert not (tmp_path / FOLDER).exists()


def test_a_failing_hook_does_not_fail_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_deltalake(tmp_path, data(0), configuration=FRESH)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(post_commit, "refresh_manifests", fail)
    write_deltalake(tmp_path, data(20), mode="append")
    assert "manifests failed after version 1" in caplog.text
    assert plain(DeltaTable(tmp_path).to_pyarrow_table()).num_rows == 40
