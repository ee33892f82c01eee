"""What a commit says about itself: metrics and parameters under delta-spark's names, and fields of the caller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, commit_metadata, convert_to_deltalake, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError

_TIMES = {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}
_VECTORS = {"numDeletionVectorsAdded", "numDeletionVectorsUpdated", "numDeletionVectorsRemoved"}
_FILES = {"numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes"}
_WRITE = {"numFiles", "numOutputRows", "numOutputBytes"}
_TARGET = {name.replace("num", "numTarget", 1) for name in _VECTORS}
_TARGET |= {f"numTarget{kind}{change}" for kind in ("Files", "Bytes") for change in ("Added", "Removed")}
_TARGET |= {f"numTargetRows{change}" for change in ("Inserted", "Copied")}
_TARGET |= {
    f"numTargetRows{case}{change}d" for case in ("", "Matched", "NotMatchedBySource") for change in ("Update", "Delete")
}
_SIZES = {"minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"}
#: The operationMetrics of delta-spark, without those of the change data feed.
METRICS = {
    "CLONE": {
        *("sourceTableSize", "sourceNumOfFiles", "numCopiedFiles", "copiedFilesSize"),
        *("numRemovedFiles", "removedFilesSize"),
    },
    "CONVERT": {"numConvertedFiles"},
    "DELETE": _FILES | _VECTORS | _TIMES | {"numDeletedRows", "numCopiedRows"},
    "MERGE": _TARGET | _TIMES | {"numSourceRows", "numOutputRows"},
    "OPTIMIZE": _FILES | _SIZES | {"numDeletionVectorsRemoved"},
    "RESTORE": {
        *("numRestoredFiles", "restoredFilesSize", "numRemovedFiles", "removedFilesSize"),
        *("numOfFilesAfterRestore", "tableSizeAfterRestore"),
    },
    "UPDATE": _FILES | _VECTORS | _TIMES | {"numUpdatedRows", "numCopiedRows"},
    "VACUUM END": {"numDeletedFiles", "numVacuumedDirectories"},
    "VACUUM START": {"numFilesToDelete", "sizeOfDataToDelete"},
    "WRITE": _WRITE,
}
REPLACE_WHERE = _WRITE | {"numRemovedFiles", "numRemovedBytes", "numDeletedRows", "numCopiedRows"}


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The commits of every verb that has metrics, as delta-rs reads them."""
    folder = tmp_path_factory.mktemp("audit")
    for numbers in ([1, 2, 3], [4, 5, 6], [7, 8, 9]):
        write_deltalake(folder / "t", pa.table({"id": numbers, "n": numbers}), mode="append")
    table = DeltaTable(folder / "t")
    table.update({"n": "n + 1"}, predicate="id = 1")
    table.delete("id = 2")
    merge = table.merge(pa.table({"id": [4, 10], "n": [0, 0]}), "t.id = s.id", "s", "t")
    merge.when_matched_update_all("s.n = 0").when_not_matched_insert_all().execute()
    write_deltalake(folder / "t", pa.table({"id": [9], "n": [0]}), mode="overwrite", predicate="id = 9")
    table.optimize.compact()
    table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    table.delete("id = 4")
    table.delete("id = 5")
    table.restore(6)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.clone(folder / "clone")
    (folder / "files").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "files" / "a.parquet")
    convert_to_deltalake(folder / "files")
    names = ("t", "clone", "files")
    return [commit for name in names for commit in deltalake.DeltaTable(folder / name).history()[::-1]]


@pytest.mark.parametrize("operation", METRICS)
def test_a_commit_has_the_metrics_of_delta_spark(commits: list[dict[str, Any]], operation: str) -> None:
    own = [commit for commit in commits if commit["operation"] == operation]
    assert own
    for commit in own:
        parameters, metrics = commit["operationParameters"], commit["operationMetrics"]
        expected = REPLACE_WHERE if operation == "WRITE" and "predicate" in parameters else METRICS[operation]
        assert expected - set(metrics) == set()
        assert all(text.isdecimal() for text in metrics.values())


def test_the_metrics_count_the_changes(commits: list[dict[str, Any]]) -> None:
    def of(operation: str, *names: str) -> list[list[int]]:
        own = [commit["operationMetrics"] for commit in commits if commit["operation"] == operation]
        return [[int(metrics[name]) for name in names] for metrics in own]

    # The first of the later deletes gives the compacted file a vector, and the second one replaces this vector.
    assert of("DELETE", "numDeletedRows", *sorted(_VECTORS)) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
    assert of("UPDATE", "numUpdatedRows", "numCopiedRows") == [[1, 2]]
    assert of("MERGE", "numTargetRowsMatchedUpdated", "numTargetRowsInserted", "numTargetRowsDeleted") == [[1, 1, 0]]
    ((smallest, median, largest, added),) = of("OPTIMIZE", "minFileSize", "p50FileSize", "maxFileSize", "numAddedBytes")
    assert smallest == median == largest == added
    ((deleted, folders),) = of("VACUUM END", "numDeletedFiles", "numVacuumedDirectories")
    assert (deleted > 0, folders) == (True, 1)


def test_parameters_are_text_as_delta_spark_reads_them(commits: list[dict[str, Any]]) -> None:
    parameters = {commit["operation"]: commit["operationParameters"] for commit in commits}
    assert parameters["DELETE"] == {"predicate": '["id = 5"]'}
    assert parameters["MERGE"] == {
        "predicate": '["t.id = s.id"]',
        "matchedPredicates": '[{"actionType":"update","predicate":"s.n = 0"}]',
        "notMatchedPredicates": '[{"actionType":"insert"}]',
        "notMatchedBySourcePredicates": "[]",
    }
    assert json.loads(parameters["CLONE"]["isShallow"]) is False
    assert parameters["VACUUM END"] == {"status": "COMPLETED"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    with commit_metadata({"userName": "ann"}):
        write_deltalake(tmp_path, pa.table({"id": [1]}))
    return tmp_path


def fields(table: Path) -> list[tuple[Any, Any]]:
    history = deltalake.DeltaTable(table).history()[::-1]
    return [(commit.get("userName"), commit.get("airflow")) for commit in history]


def test_every_commit_of_a_block_gets_its_fields(table: Path) -> None:
    run = {"dag_id": "upkeep"}
    with commit_metadata({"userName": "ann"}), commit_metadata({"airflow": run}):
        write_deltalake(table, pa.table({"id": [2]}), mode="append")
        bob = CommitProperties(custom_metadata={"userName": "bob"})
        write_deltalake(table, pa.table({"id": [2]}), mode="append", commit_properties=bob)
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    write_deltalake(table, pa.table({"id": [3]}), mode="append")
    assert fields(table) == [("ann", None), ("ann", run), ("bob", run), (None, None)]


@pytest.mark.parametrize("metadata", [{"userName": 7}, {"version": 3}, {1: "a"}, {"share": float("nan")}, ["userName"]])
def test_fields_that_a_commit_cannot_have_are_refused_before_the_block(table: Path, metadata: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="DELTA_INVALID_COMMIT_PROPERTIES"), commit_metadata(metadata):
        write_deltalake(table, pa.table({"id": [2]}), mode="append")
    assert DeltaTable(table).version() == 0
