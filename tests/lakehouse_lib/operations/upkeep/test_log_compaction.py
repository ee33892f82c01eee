"""compact_logs: the compaction has what its commits leave, and every reader opens the same table with it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import (
    CommitProperties,
    DeltaTable,
    InvalidArgumentError,
    Transaction,
    UnsupportedFeatureError,
    VersionNotFoundError,
    write_deltalake,
)
from lakehouse_lib.log.commits.log_compaction import difference
from lakehouse_lib.log.segment import classify_log_files, list_commits
from tests.peers import read_by_all
from tests.slow_cases import some_slow


def history_of_changes(root: Path, seed: int, vectors: bool) -> int:
    """A table with random appends, deletes and compactions, and the number of its versions."""
    chance = random.Random(seed)
    properties = {"delta.checkpointInterval": "1000", "delta.enableDeletionVectors": str(vectors).lower()}
    for number in range(8):
        rows = pa.table({"id": [10 * number + i for i in range(5)]})
        transaction = Transaction(chance.choice("ab"), number)
        commit_properties = CommitProperties(app_transactions=[transaction])
        write_deltalake(root, rows, mode="append", configuration=properties, commit_properties=commit_properties)
        table = DeltaTable(root)
        act = chance.random()
        if act < 0.5:
            table.delete(f"id % 10 = {chance.randrange(5)}")
        elif act < 0.7:
            table.optimize.compact()
    return DeltaTable(root).version() + 1


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("seed", some_slow(range(4), 1))
def test_a_compaction_replaces_its_commits(tmp_path: Path, seed: int, vectors: bool) -> None:
    versions = history_of_changes(tmp_path, seed, vectors)
    before = DeltaTable(tmp_path)
    rows, transactions = (
        read_by_all(tmp_path) if not vectors else before.to_pyarrow_table(),
        before.snapshot.transactions,
    )
    start, end = sorted(random.Random(seed).sample(range(versions), 2))
    before.compact_logs(start, end)
    commits = [commit for commit in list_commits(before.store) if start <= commit.version <= end]
    (compaction,) = classify_log_files(list(before.store.list_from("_delta_log")))[2]
    assert difference(before.store, compaction, commits) is None
    # With the commits gone that are neither the first nor the last one, only the compaction can be read.
    for commit in commits[1:-1]:
        (tmp_path / f"_delta_log/{commit.version:020}.json").unlink()
    after = DeltaTable(tmp_path)
    assert after.to_pyarrow_table().sort_by("id") == rows.sort_by("id")
    assert after.snapshot.transactions == transactions


def test_delta_rs_writes_the_same_actions(tmp_path: Path) -> None:
    history_of_changes(tmp_path, 1, False)
    path = tmp_path / f"_delta_log/{0:020}.{5:020}.compacted.json"

    def actions() -> list[tuple[str, Any]]:
        lines = [next(iter(json.loads(line).items())) for line in path.read_text().splitlines()]
        path.unlink()
        return sorted((kind, body.get("path") or body.get("appId") or "") for kind, body in lines)

    deltalake.DeltaTable(tmp_path).compact_logs(0, 5)
    expected = actions()
    DeltaTable(tmp_path).compact_logs(0, 5)
    our_actions = actions()
    assert our_actions == expected


@pytest.mark.slow
@pytest.mark.parametrize("versions", [(1, 1), (2, 1), (-1, 1), ("0", 1), (True, 2)])
def test_versions_that_are_not_a_range_are_refused(tmp_path: Path, versions: Any) -> None:
    history_of_changes(tmp_path, 0, False)
    with pytest.raises(InvalidArgumentError, match="expected whole numbers"):
        DeltaTable(tmp_path).compact_logs(*versions)


def test_commits_of_commit_info_alone_get_no_compaction(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    for _ in range(2):
        write_deltalake(tmp_path, pa.table({"id": pa.array([], pa.int64())}), mode="append")
    DeltaTable(tmp_path).compact_logs(1, 2)
    assert not list((tmp_path / "_delta_log").glob("*.compacted.json"))
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [1]


def test_a_missing_commit_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(VersionNotFoundError):
        DeltaTable(tmp_path).compact_logs(0, 1)
    assert not list((tmp_path / "_delta_log").glob("*.compacted.json"))


def test_later_commits_may_have_an_unknown_feature(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    table = DeltaTable(tmp_path)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["unknownFeature"]}
    lines = [json.dumps(action) for action in ({"protocol": protocol}, {"unknownAction": {}})]
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines))
    with pytest.raises(UnsupportedFeatureError, match="unknownFeature"):
        table.compact_logs(0, 1)
    assert not list(tmp_path.glob("_delta_log/*.compacted.json"))
