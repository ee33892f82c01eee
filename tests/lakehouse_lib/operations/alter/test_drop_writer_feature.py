"""Dropping writer features: the table has no traces of them, and features and domains that need them are named."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import CommitFailedError, InvalidArgumentError
from lakehouse_lib.features import writer_features
from lakehouse_lib.operations.alter.features import row_id_removal, traces
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.peers import read_by_all

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "part": ["a", "b"] * 3})
TRACKED = {"delta.enableRowTracking": "true"}


def tracked(root: Path) -> DeltaTable:
    """A table with four files with row ids, one of them materialized."""
    write_deltalake(root, ROWS, partition_by=["part"], configuration=TRACKED)
    write_deltalake(root, ROWS.slice(0, 1), mode="append")
    table = DeltaTable(root)
    table.update({"id": "7"}, predicate="id = 3")
    return table


def test_row_tracking_leaves_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tracked(tmp_path)
    rows = read_by_all(tmp_path)
    remove = row_id_removal.remove_row_ids
    monkeypatch.setattr(traces, "remove_row_ids", lambda snapshot, properties: remove(snapshot, properties, batch=1))
    table.alter.apply([{"drop_feature": {"feature": "rowTracking"}}])
    snapshot = DeltaTable(tmp_path).snapshot
    assert writer_features(snapshot.protocol) == {"appendOnly", "invariants", "domainMetadata"}
    assert (dict(snapshot.configuration), dict(snapshot.domains)) == ({}, {})
    assert not row_id_removal.have_row_ids(snapshot)
    assert [commit["operation"] for commit in table.history(6)] == [
        "DROP FEATURE",
        *["ROW TRACKING UNBACKFILL"] * 4,
        "SET TBLPROPERTIES",
    ]
    assert read_by_all(tmp_path) == rows
    table.alter.drop_feature("domainMetadata")
    deltalake.write_deltalake(tmp_path, ROWS.slice(0, 1), mode="append")  # delta-rs writes no table with row tracking
    table.alter.set_table_properties(TRACKED)
    assert sorted(table.scan(["id"], row_ids=True).read_all()["_metadata.row_id"].to_pylist()) == list(range(8))


def test_row_ids_that_come_back_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tracked(tmp_path)
    remove = row_id_removal.remove_row_ids

    def before_a_restore(snapshot: Snapshot, properties: CommitProperties | None) -> None:
        remove(snapshot, properties)
        DeltaTable(tmp_path).restore(1)

    monkeypatch.setattr(traces, "remove_row_ids", before_a_restore)
    with pytest.raises((CommitFailedError, InvalidArgumentError)):
        table.alter.drop_feature("rowTracking")
    assert "rowTracking" in writer_features(DeltaTable(tmp_path).snapshot.protocol)
    monkeypatch.undo()
    table.alter.drop_feature("rowTracking")
    assert not row_id_removal.have_row_ids(DeltaTable(tmp_path).snapshot)


def test_in_commit_timestamps_are_dropped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.enableInCommitTimestamps": "true"})
    write_deltalake(tmp_path, ROWS, mode="append")
    table.alter.drop_feature("inCommitTimestamp")
    snapshot = DeltaTable(tmp_path).snapshot
    assert (snapshot.protocol.min_writer_version, dict(snapshot.configuration)) == (2, {})
    write_deltalake(tmp_path, ROWS, mode="append")
    times = [commit["timestamp"] for commit in DeltaTable(tmp_path).history()]
    assert times == sorted(times, reverse=True)
    assert len(read_by_all(tmp_path)) == 18


def test_defaults_are_dropped_before_their_feature(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.feature.allowColumnDefaults": "supported"})
    table = DeltaTable(tmp_path)
    table.alter.set_column_default("part", "'c'")
    with pytest.raises(InvalidArgumentError, match="the table uses it"):
        table.alter.drop_feature("allowColumnDefaults")
    table.alter.drop_column_default("part")
    table.alter.drop_feature("allowColumnDefaults")
    assert table.protocol().min_writer_version == 2


def test_a_feature_that_another_needs_stays(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.feature.clustering": "supported"})
    table = DeltaTable(tmp_path)
    with pytest.raises(InvalidArgumentError, match="has the features clustering"):
        table.alter.drop_feature("domainMetadata")


def test_a_feature_that_a_domain_needs_stays(tmp_path: Path) -> None:
    """Another program has left the domain of its feature, or has one of its own."""
    write_deltalake(tmp_path, ROWS, configuration={"delta.feature.domainMetadata": "supported"})
    line = '{"domainMetadata":{"domain":"app.owner","configuration":"{}","removed":false}}\n'
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text(line)
    with pytest.raises(InvalidArgumentError, match="has the domains 'app"):
        DeltaTable(tmp_path).alter.drop_feature("domainMetadata")
