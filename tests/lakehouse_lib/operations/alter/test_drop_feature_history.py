"""Dropping a reader feature together with the versions that need it (TRUNCATE HISTORY)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import deltalake
import pytest

from lakehouse_lib import DeltaTable, TableFeatures, write_deltalake
from lakehouse_lib.errors import CommitFailedError, InvalidArgumentError, RetentionError
from lakehouse_lib.features import writer_features
from lakehouse_lib.operations.alter.features import drop as feature_drop
from lakehouse_lib.protocol.actions import Protocol
from tests.lakehouse_lib.operations.alter.tables_with_features import FEATURES, ROWS, ids, with_vectors
from tests.peers import read_by_all

RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"
TOO_EARLY = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"


def drop(root: Path, name: str) -> None:
    DeltaTable(root).alter.drop_feature(name, truncate_history=True)


def age(root: Path, hours: float) -> None:
    """Make the log older by some hours."""
    for file in (root / "_delta_log").rglob("*"):
        then = file.stat().st_mtime - hours * 3_600
        os.utime(file, (then, then))


def versions(root: Path) -> list[int]:
    return sorted(commit["version"] for commit in DeltaTable(root).history())


@pytest.mark.parametrize("name", ["deletionVectors", "typeWidening", "v2Checkpoint"])
def test_a_feature_is_dropped_after_the_retention(tmp_path: Path, name: str) -> None:
    FEATURES[name](tmp_path)
    with pytest.raises(
        RetentionError, match=rf"the feature {name} cannot be dropped yet: version \d+ needs it"
    ) as early:
        drop(tmp_path, name)
    assert early.value.code == TOO_EARLY
    now = time.time()
    times = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(now + 86_400 + offset)) for offset in (0, 60, 120)]
    assert any(text in str(early.value.hint) for text in times)
    assert "1 day, 0:00:00" in str(early.value.hint)
    prepared = versions(tmp_path)
    assert prepared[0] == 0
    write_deltalake(tmp_path, ROWS.slice(0, 1), mode="append")  # a later commit does not put it off

    age(tmp_path, 23)
    with pytest.raises(RetentionError):
        drop(tmp_path, name)
    assert versions(tmp_path) == [*prepared, prepared[-1] + 1]  # the second try commits nothing
    age(tmp_path, 1.1)
    drop(tmp_path, name)
    snapshot = DeltaTable(tmp_path).snapshot
    assert snapshot.protocol == Protocol(1, 2)
    assert versions(tmp_path) == list(range(prepared[-1], prepared[-1] + 3))
    assert DeltaTable(tmp_path).history(1)[0]["operationParameters"]["truncateHistory"] == "true"
    assert deltalake.DeltaTable(tmp_path).protocol().min_writer_version == 2
    assert ids(read_by_all(tmp_path)) == [0, 0, 1, 3, 4, 5]
    deltalake.write_deltalake(tmp_path, ROWS.slice(2, 1), mode="append")
    assert ids(DeltaTable(tmp_path).to_pyarrow_table()) == [0, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["vacuumProtocolCheck", "timestampNtz"])
def test_a_feature_without_traces_is_dropped_at_once(tmp_path: Path, name: str) -> None:
    FEATURES[name](tmp_path)
    before = versions(tmp_path)
    drop(tmp_path, name)
    assert DeltaTable(tmp_path).snapshot.protocol == Protocol(1, 2)
    assert versions(tmp_path) == [*before, before[-1] + 1]


def test_column_mapping(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.columnMapping.mode": "name", RETENTION: "0 hours"})
    DeltaTable(tmp_path).alter.rename_column("part", "place")
    with pytest.raises(RetentionError):
        drop(tmp_path, "columnMapping")
    age(tmp_path, 0.05)
    drop(tmp_path, "columnMapping")
    assert DeltaTable(tmp_path).snapshot.protocol == Protocol(1, 4)
    assert read_by_all(tmp_path).column_names == ["id", "place"]


def test_a_pin_keeps_a_version_that_needs_the_feature(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    DeltaTable(tmp_path).pin("model", 1)
    with pytest.raises(RetentionError, match="Release the pin 'model', which keeps version 1"):
        drop(tmp_path, "deletionVectors")
    age(tmp_path, 25)
    with pytest.raises(RetentionError, match="Release the pin 'model'"):
        drop(tmp_path, "deletionVectors")
    assert ids(DeltaTable(tmp_path, 1).to_pyarrow_table()) == [0, 1, 3, 4, 5]
    DeltaTable(tmp_path).release("model")
    drop(tmp_path, "deletionVectors")
    assert DeltaTable(tmp_path).snapshot.protocol == Protocol(1, 2)


def test_a_table_that_never_cleans_up(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    DeltaTable(tmp_path).alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    with pytest.raises(RetentionError):
        drop(tmp_path, "deletionVectors")
    age(tmp_path, 25)
    drop(tmp_path, "deletionVectors")
    assert DeltaTable(tmp_path).snapshot.protocol == Protocol(1, 2)


def test_checkpoint_protection_is_dropped_with_the_versions_that_it_protects(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    table = DeltaTable(tmp_path)
    table.alter.drop_feature(TableFeatures.DeletionVectors)
    with pytest.raises(InvalidArgumentError, match="protects older versions") as refused:
        table.alter.drop_feature("checkpointProtection")
    assert refused.value.code == "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"
    protected = table.version()
    with pytest.raises(RetentionError, match=f"version {protected - 1} needs it"):
        drop(tmp_path, "checkpointProtection")
    age(tmp_path, 25)
    drop(tmp_path, "checkpointProtection")
    snapshot = DeltaTable(tmp_path).snapshot
    assert snapshot.protocol == Protocol(1, 2)
    assert "delta.requireCheckpointProtectionBeforeVersion" not in snapshot.configuration
    assert versions(tmp_path) == [protected, protected + 1]
    deltalake.write_deltalake(tmp_path, ROWS.slice(2, 1), mode="append")
    assert ids(read_by_all(tmp_path)) == [0, 1, 2, 3, 4, 5]


def test_only_for_features_that_older_versions_need(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(InvalidArgumentError, match="no older version needs it") as refused:
        drop(tmp_path, "appendOnly")
    assert refused.value.code == "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"
    assert DeltaTable(tmp_path).version() == 0


def test_a_feature_that_is_enabled_again_concurrently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_vectors(tmp_path)
    with pytest.raises(RetentionError):
        drop(tmp_path, "deletionVectors")
    age(tmp_path, 25)
    check_clean = feature_drop._check_clean

    def enable(*arguments: object) -> None:
        check_clean(*arguments)  # type: ignore[arg-type]
        DeltaTable(tmp_path).alter.set_table_properties({"delta.enableDeletionVectors": "true"})

    monkeypatch.setattr(feature_drop, "_check_clean", enable)
    with pytest.raises((CommitFailedError, RetentionError)):
        drop(tmp_path, "deletionVectors")
    assert "deletionVectors" in writer_features(DeltaTable(tmp_path).snapshot.protocol)
    assert ids(DeltaTable(tmp_path).to_pyarrow_table()) == [0, 1, 3, 4, 5]
