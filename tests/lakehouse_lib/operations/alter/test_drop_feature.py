"""Dropping reader features: peers read the result, older versions stay readable, the log's checkpoints are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import CommitFailedError, InvalidArgumentError
from lakehouse_lib.expressions import parse
from lakehouse_lib.features import writer_features
from lakehouse_lib.features.checkpoints.checkpoint_protection import protected_below
from lakehouse_lib.operations.alter.features import drop as feature_drop
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.snapshot import Snapshot
from tests.lakehouse_lib.operations.alter.tables_with_features import FEATURES, ROWS, ids, with_vectors, with_wider_type
from tests.peers import parquet_files, read_by_all


@pytest.mark.parametrize("name", FEATURES)
def test_a_reader_feature_is_dropped(tmp_path: Path, name: str) -> None:
    FEATURES[name](tmp_path)
    before = DeltaTable(tmp_path)
    rows = {version: ids(DeltaTable(tmp_path, version).to_pyarrow_table()) for version in range(before.version() + 1)}
    assert name in writer_features(before.snapshot.protocol)
    before.alter.drop_feature(name)

    snapshot = DeltaTable(tmp_path).snapshot
    protocol = snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert writer_features(protocol) == {"appendOnly", "invariants", "checkpointProtection"}
    assert protected_below(protocol, snapshot.metadata) == snapshot.version
    assert snapshot.file_columns(["deletionVector"])["deletionVector"].null_count == snapshot.file_count
    assert "typeChanges" not in snapshot.metadata.schema_string
    # Three checkpoints are before the version that drops the feature, and one is of this version.
    log = tmp_path / "_delta_log"
    for version in range(snapshot.version - 3, snapshot.version + 1):
        assert (log / f"{version:020}.checkpoint.parquet").exists()
    peer = deltalake.DeltaTable(tmp_path)
    assert peer.protocol().min_reader_version == 1
    assert ids(read_by_all(tmp_path)) == [0, 1, 3, 4, 5]
    for version, expected in rows.items():
        assert ids(DeltaTable(tmp_path, version).to_pyarrow_table()) == expected
    write_deltalake(tmp_path, DeltaTable(tmp_path).to_pyarrow_table().slice(0, 1), mode="append")
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 6


def test_the_files_of_a_widened_table_have_the_wide_type(tmp_path: Path) -> None:
    with_wider_type(tmp_path)
    DeltaTable(tmp_path).alter.drop_feature("typeWidening")
    for path in DeltaTable(tmp_path).file_uris():
        assert pq.ParquetFile(path).schema_arrow.field("id").type == pa.int64()


def test_a_feature_can_be_used_and_dropped_again(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    table = DeltaTable(tmp_path)
    table.alter.drop_feature("deletionVectors")
    first = protected_below(table.snapshot.protocol, table.snapshot.metadata)
    table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    table.delete("id = 3")
    assert any(table.snapshot.files["deletionVector"].is_valid().to_pylist())
    table.alter.drop_feature("deletionVectors")
    assert protected_below(table.snapshot.protocol, table.snapshot.metadata) == table.version() > first
    assert ids(read_by_all(tmp_path)) == [0, 1, 4, 5]


def test_metadata_cannot_remove_the_checkpoint_protection(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    table = DeltaTable(tmp_path)
    table.alter.drop_feature("deletionVectors")
    protected = protected_below(table.snapshot.protocol, table.snapshot.metadata)
    table.restore(1)
    assert ids(table.to_pyarrow_table()) == [0, 1, 3, 4, 5]
    write_deltalake(table, ROWS, mode="overwrite", schema_mode="overwrite")
    snapshot = DeltaTable(tmp_path).snapshot
    assert protected_below(snapshot.protocol, snapshot.metadata) == protected > 0
    with pytest.raises(InvalidArgumentError, match="only by engines"):
        table.alter.unset_table_properties(["delta.requireCheckpointProtectionBeforeVersion"])
    clone = DeltaTable(tmp_path).clone(str(tmp_path / "clone"))
    assert protected_below(clone.snapshot.protocol, clone.snapshot.metadata) == 0


def test_a_concurrently_restored_vector_prevents_the_drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore brings a file with a deletion vector back, after the purge."""
    with_vectors(tmp_path)
    DeltaTable(tmp_path).alter.unset_table_properties(["delta.enableDeletionVectors"])
    version = DeltaTable(tmp_path).version()
    checkpoint = feature_drop.checkpoint

    def after_a_restore(snapshot: Snapshot) -> OperationResult:
        monkeypatch.setattr(feature_drop, "checkpoint", checkpoint)
        DeltaTable(tmp_path).restore(version)
        return checkpoint(snapshot)

    monkeypatch.setattr(feature_drop, "checkpoint", after_a_restore)
    with pytest.raises(InvalidArgumentError, match="files that need it are in the latest version"):
        DeltaTable(tmp_path).alter.drop_feature("deletionVectors")
    assert "deletionVectors" in writer_features(DeltaTable(tmp_path).snapshot.protocol)
    DeltaTable(tmp_path).alter.drop_feature("deletionVectors")
    assert ids(read_by_all(tmp_path)) == [0, 1, 3, 4, 5]


def test_a_concurrent_append_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_vectors(tmp_path)
    check_clean = feature_drop._check_clean

    def before_an_append(*arguments: Any) -> None:
        check_clean(*arguments)
        write_deltalake(tmp_path, ROWS.slice(0, 1), mode="append")

    monkeypatch.setattr(feature_drop, "_check_clean", before_an_append)
    with pytest.raises(CommitFailedError, match="allows no other commit"):
        DeltaTable(tmp_path).alter.drop_feature("deletionVectors")
    assert "deletionVectors" in writer_features(DeltaTable(tmp_path).snapshot.protocol)


def test_a_transaction_that_began_before_the_drop_fails(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    old = DeltaTable(tmp_path).snapshot
    DeltaTable(tmp_path).alter.drop_feature("deletionVectors")
    with pytest.raises(CommitFailedError):
        delete(old, parse("id = 3", old.schema), ArrowEngine())
    assert ids(DeltaTable(tmp_path).to_pyarrow_table()) == [0, 1, 3, 4, 5]


def test_a_feature_of_an_existing_type_is_not_dropped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    table.alter.add_columns(Field("moment", "timestamp_ntz"))
    files, version = parquet_files(tmp_path), table.version()
    with pytest.raises(InvalidArgumentError, match="timestampNtz cannot be dropped: the table uses it"):
        table.alter.drop_feature("timestampNtz")
    assert (parquet_files(tmp_path), DeltaTable(tmp_path).version()) == (files, version)


def test_a_list_of_changes_rewrites_no_files(tmp_path: Path) -> None:
    with_vectors(tmp_path)
    with pytest.raises(InvalidArgumentError, match="drop_feature, which may read rows"):
        DeltaTable(tmp_path).alter.apply([{"drop_feature": {"feature": "deletionVectors"}}])
