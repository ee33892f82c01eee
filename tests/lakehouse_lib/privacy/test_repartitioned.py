"""Old files of a table with another partitioning or another column of the key's name: whose rows do they have?"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.privacy.key_texts import KeyTexts, spellings
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.log_builder import Action, edit, field, metadata, put
from tests.peers import parquet_files

ROWS = pa.table({"k": [1, 4711], "email": ["a@x", "anna@x"]})
IS_ANNA = "k = 4711"
NOW = timedelta(0)
MAPPING = "delta.columnMapping"


def is_of_anna(file: Path) -> bool:
    """Whether the file has her rows, read by pyarrow."""
    held = {value for row in pq.ParquetFile(file).read().to_pylist() for value in row.values()}
    return bool(held & {4711, "anna@x"}) or file.parent.name.partition("=")[2] in {"4711", "anna@x", "anna%40x"}


def make_removals_terse(root: Path, version: int, *, values: bool) -> None:
    """Rewrite the removes as some writers write them: without extended metadata, with or without partition values."""

    def change(action: Action) -> None:
        if "remove" in action:
            del action["remove"]["extendedFileMetadata"]
            if not values:
                action["remove"]["partitionValues"] = {}

    edit(root, version, change)


@pytest.mark.parametrize("writer", [write_deltalake, deltalake.write_deltalake])
@pytest.mark.parametrize(("first", "then"), [([], ["k"]), (["k"], []), (["k"], ["email"]), (["email"], ["k"])])
def test_files_of_another_partitioning_are_counted_and_purged(
    tmp_path: Path, writer: object, first: list[str], then: list[str]
) -> None:
    root = tmp_path / "t"
    writer(str(root), ROWS, partition_by=first)  # type: ignore[operator]
    writer(str(root), ROWS, mode="overwrite", schema_mode="overwrite", partition_by=then)  # type: ignore[operator]
    assert DeltaTable(root).metadata().partition_columns == then
    DeltaTable(root).delete(IS_ANNA)
    assert (prove(str(root), IS_ANNA).rows, prove(str(root), "email = 'anna@x'").rows) == (2, 2)
    assert purge(str(root), IS_ANNA, writer_grace=NOW).rows == 2
    assert prove(str(root), IS_ANNA).clean
    assert not any(is_of_anna(file) for file in parquet_files(root))


def test_a_file_of_unknown_partition_prevents_a_proof(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, ROWS.slice(0, 1), partition_by=["k"])
    orphan = root / "k=4711.parquet"  # not in a partition folder
    pq.write_table(pa.table({"email": ["anna@x"]}), orphan)
    os.utime(orphan, (1, 1))
    proof = prove(str(root), IS_ANNA)
    assert (proof.rows, proof.clean, list(proof.unreadable)) == (0, False, ["k=4711.parquet"])
    assert "partition column k" in proof.unreadable["k=4711.parquet"]
    assert prove(str(root), "k IS NULL").rows == 0
    assert prove(str(root), "email = 'anna@x'").rows == 1
    report = purge(str(root), IS_ANNA)
    assert (report.files, list(report.unreadable)) == ((), ["k=4711.parquet"])
    (root / "K=4711").mkdir()
    orphan.rename(root / "K=4711" / "orphan.parquet")
    assert prove(str(root), IS_ANNA).rows == 1


def test_a_file_from_before_the_partition_column_has_null(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, ROWS.select(["email"]))
    write_deltalake(root, ROWS.slice(0, 1), mode="overwrite", schema_mode="overwrite", partition_by=["k"])
    assert prove(str(root), IS_ANNA).clean
    assert prove(str(root), "k IS NULL").rows == 2
    make_removals_terse(root, 1, values=True)
    assert len(prove(str(root), IS_ANNA).unreadable) == 1


def test_a_remove_without_partition_values_uses_those_of_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, ROWS, partition_by=["k"])
    DeltaTable(root).delete(IS_ANNA)
    make_removals_terse(root, 1, values=False)
    assert prove(str(root), IS_ANNA).rows == 1


def test_a_value_of_an_earlier_type_makes_only_its_file_unreadable(tmp_path: Path) -> None:
    root = tmp_path / "t"
    texts = pa.table({"k": ["abc", "4711", "8"], "email": ["a@x", "anna@x", "b@x"]})
    write_deltalake(root, texts, partition_by=["k"])
    write_deltalake(root, ROWS.slice(0, 1), mode="overwrite", schema_mode="overwrite", partition_by=["k"])
    proof = prove(str(root), IS_ANNA)
    assert proof.rows == 1
    ((path, reason),) = proof.unreadable.items()
    assert path.startswith("k=abc/")
    assert "column k" in reason
    assert "'abc'" in reason
    assert purge(str(root), IS_ANNA).rows == 1


def test_spellings_of_a_key_are_found_in_files_of_another_partitioning(tmp_path: Path) -> None:
    for first, then in ([], ["k"]), (["k"], []):
        root = tmp_path / f"t{len(first)}"
        rows = pa.table({"k": ["0004711", "8"], "email": ["anna@x", "b@x"]})
        write_deltalake(root, rows, partition_by=first)
        write_deltalake(root, rows.slice(1), mode="overwrite", schema_mode="overwrite", partition_by=then)
        snapshot = load_snapshot(open_store(str(root)))
        assert spellings(snapshot, "k", KeyTexts.of([4711], [pa.int64()]), ArrowEngine()) == {"0004711"}


def drop_and_add_key(root: Path, physical: str) -> None:
    """Enable column mapping in version 1, then drop ``k`` and add it again; the files' own ``k`` is another column."""
    fields = [
        field(name, kind, id=number, physical=stored)
        for number, (name, kind, stored) in enumerate([("email", "string", "email"), ("k", "long", physical)], 1)
    ]
    mapped = metadata(
        *fields,
        id=DeltaTable(root).metadata().id,
        configuration={f"{MAPPING}.mode": "name", f"{MAPPING}.maxColumnId": "2"},
    )
    versions = {"minReaderVersion": 2, "minWriterVersion": 5}
    put(root, 1, {"commitInfo": {"timestamp": 1}}, {"protocol": versions}, mapped)


@pytest.mark.parametrize("own", ["k", "K", "col-old"])
def test_a_key_that_was_dropped_and_added_again_is_reported(tmp_path: Path, own: str) -> None:
    root = tmp_path / "t"
    write_deltalake(root, ROWS.rename_columns([own, "email"]))
    drop_and_add_key(root, "col-new")
    proof = prove(str(root), IS_ANNA)
    if own == "col-old":  # which may be anything
        assert proof.clean
        assert list(proof.skipped.values()) == ["no column k, but dropped col-old"]
    else:
        assert not proof.clean
        assert "dropped column k" in next(iter(proof.unreadable.values()))
    assert prove(str(root), "email = 'anna@x'").rows == 1
