"""RESTORE in tables with row tracking: rows keep their ids, and no id is given twice, not even after a drop."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.features import row_tracking, writer_features
from lakehouse_lib.operations.alter.features import row_id_removal, traces
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.peers import plain, read_by_all
from tests.tracked_tables import STABLE, ids_on_disk, rows, tracked_rows

ENABLED = {"delta.enableRowTracking": "true"}
NAMES = list(STABLE)[1:]


def check_unique(root: Path) -> None:
    """No two rows have the same id, now and after an append, and the high water mark is the highest id."""
    snapshot = load_snapshot(LocalStore(str(root)))
    ids = {row_id for row_id, _ in ids_on_disk(root).values()}  # it asserts that they are unique
    mark = row_tracking.highest(snapshot.domains.values(), table="", version=0)
    assert mark is not None
    assert max(ids) <= mark
    write_deltalake(root, rows(90), mode="append")
    assert len(ids_on_disk(root)) == len(ids) + 10


def sorted_rows(table: DeltaTable) -> pa.Table:
    return plain(table.to_pyarrow_table())


def test_restored_rows_keep_unique_row_ids(tmp_path: Path) -> None:
    tracked_rows(tmp_path, STABLE)
    table = DeltaTable(tmp_path)
    version, before = table.version(), ids_on_disk(tmp_path)
    table.update({"part": "5"}, predicate="id = 3")
    write_deltalake(tmp_path, rows(30), mode="append")
    earlier = {row_id for row_id, _ in ids_on_disk(tmp_path).values()}
    table.restore(version)
    assert ids_on_disk(tmp_path) == before
    write_deltalake(tmp_path, rows(40), mode="append")
    later = {key: row_id for key, (row_id, _) in ids_on_disk(tmp_path).items() if key >= 40}
    assert len(later) == 10
    assert min(later.values()) > max(earlier)


def test_rows_come_back_without_dropped_row_ids(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(0), configuration=ENABLED)
    write_deltalake(tmp_path, rows(10), mode="append")
    table = DeltaTable(tmp_path)
    table.update({"part": "5"}, predicate="id = 3")
    tracked = sorted_rows(table)
    table.alter.drop_feature("rowTracking")
    table.alter.drop_feature("domainMetadata")
    table.delete("id > 2")
    table.restore(2)
    snapshot = DeltaTable(tmp_path).snapshot
    assert "rowTracking" not in writer_features(snapshot.protocol)
    assert (dict(snapshot.configuration), dict(snapshot.domains)) == ({}, {})
    assert not row_tracking.have_ids(snapshot.files)
    assert read_by_all(tmp_path).equals(tracked)
    version = table.version()
    table.restore(2)
    assert DeltaTable(tmp_path).version() == version
    table.alter.set_table_properties(ENABLED)
    check_unique(tmp_path)


@pytest.mark.parametrize("properties", [ENABLED, {"delta.feature.rowTracking": "supported"}], ids=["enabled", "listed"])
def test_dropped_row_ids_do_not_come_back_after_row_tracking_was_added_again(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """Before, the restored files had their old ids, which other rows have now or get later."""
    write_deltalake(tmp_path, rows(0), configuration=properties)
    write_deltalake(tmp_path, rows(10), mode="append")
    table = DeltaTable(tmp_path)
    table.update({"part": "5"}, predicate="id = 3")  # row ids are materialized
    tracked = sorted_rows(table)
    table.alter.drop_feature("rowTracking")
    table.delete("id < 10")
    table.alter.set_table_properties(ENABLED)
    names = [table.metadata().configuration[name] for name in NAMES]
    before = ids_on_disk(tmp_path)
    table.restore(2)
    assert sorted_rows(table).equals(tracked)
    assert [table.metadata().configuration[name] for name in NAMES] == names
    after = ids_on_disk(tmp_path)
    assert {key: after[key] for key in before} == before
    assert min(row_id for key, (row_id, _) in after.items() if key not in before) > max(r for r, _ in before.values())
    check_unique(tmp_path)


def test_versions_after_the_drop_are_restored_as_before(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(0))
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties(ENABLED)
    table.alter.drop_feature("rowTracking")
    table.alter.set_table_properties(ENABLED)
    version, ids = table.version(), ids_on_disk(tmp_path)
    table.update({"part": "5"}, predicate="id = 3")
    table.restore(version)
    assert ids_on_disk(tmp_path) == ids
    table.restore(0)  # before the table got the feature
    assert sorted(ids_on_disk(tmp_path)) == list(range(10))
    assert "delta.enableRowTracking" not in table.metadata().configuration
    check_unique(tmp_path)


def test_a_restore_undoes_an_interrupted_drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, files that are live in both versions stayed without row ids, and the next update failed."""
    write_deltalake(tmp_path, rows(0), configuration=ENABLED)
    write_deltalake(tmp_path, rows(10), mode="append")
    table = DeltaTable(tmp_path)
    table.update({"part": "5"}, predicate="id = 3")
    version, ids = table.version(), ids_on_disk(tmp_path)
    remove = row_id_removal.remove_row_ids

    def interrupted(snapshot: Snapshot, properties: CommitProperties | None) -> None:
        remove(snapshot, properties)
        raise InterruptedError

    monkeypatch.setattr(traces, "remove_row_ids", interrupted)
    with pytest.raises(InterruptedError):
        table.alter.drop_feature("rowTracking")
    metrics = table.restore(version)
    assert (metrics["numRestoredFile"], metrics["numRemovedFile"]) == (0, 0)
    assert ids_on_disk(tmp_path) == ids
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table().num_rows == 20
    table.update({"part": "6"}, predicate="id = 15")
    assert {key: row_id for key, (row_id, _) in ids_on_disk(tmp_path).items()} == {
        key: row_id for key, (row_id, _) in ids.items()
    }
    check_unique(tmp_path)
