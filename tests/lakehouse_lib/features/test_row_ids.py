"""Row ids: each id is assigned once in every order of commits, and changes that would lose ids are refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import DeltaProtocolError, LogCorruptedError, MetadataChangedError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checksum import read_checksum
from lakehouse_lib.protocol.actions import DomainMetadata, Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.log_builder import put
from tests.peers import read_delta_rs, read_duckdb
from tests.table_builder import create, files
from tests.tracked_tables import STABLE, TRACKED, rows, tracked_rows


def sized(**rows):
    """Files without data, each with so many rows."""
    stats = [json.dumps({"numRecords": count}) for count in rows.values()]
    table = files(*rows)
    return table.set_column(table.column_names.index("stats"), "stats", pa.array(stats, pa.string()))


def begin(snapshot, **rows):
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
    transaction.add(sized(**rows))
    return transaction


def actions(store, version, kind):
    lines = map(json.loads, store.read(file_names.commit(version)).splitlines())
    return [line[kind] for line in lines if kind in line]


def ranges(store, first=0):
    """For each file added from a version on, by path: its first row id, and the id after its last."""
    ranges_by_path = {}
    for version in range(first, load_snapshot(store).version + 1):
        for add in actions(store, version, "add"):
            count = json.loads(add["stats"])["numRecords"]
            assert add["defaultRowCommitVersion"] == version
            ranges_by_path[add["path"]] = (add["baseRowId"], add["baseRowId"] + count)
    return ranges_by_path


def mark(snapshot):
    return row_tracking.highest(snapshot.domains.values(), table="", version=0)


def assert_each_id_once(store):
    spans = sorted(span for span in ranges(store).values() if span[0] < span[1])
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))
    if spans:
        assert spans[0][0] == 0
        assert mark(load_snapshot(store)) == spans[-1][1] - 1


def test_two_appends_planned_on_one_version_get_other_ids_and_both_are_committed(tmp_path):
    snapshot = create(tmp_path, protocol=TRACKED)
    first, second, empty = begin(snapshot, a=3, b=4), begin(snapshot, c=5, d=1), begin(snapshot, e=0)
    assert [transaction.commit() for transaction in (first, second, empty)] == [
        Committed(1, 1),
        Committed(2, 2),
        Committed(3, 2),
    ]
    assert ranges(snapshot.store) == {"a": (0, 3), "b": (3, 7), "c": (7, 12), "d": (12, 13), "e": (13, 13)}
    domains = [actions(snapshot.store, version, "domainMetadata") for version in (1, 2, 3)]
    assert [json.loads(update["configuration"]) for updates in domains for update in updates] == [
        {"rowIdHighWaterMark": 6},
        {"rowIdHighWaterMark": 12},
    ]
    assert all(
        update["domain"] == "delta.rowTracking" and not update["removed"] for updates in domains for update in updates
    )
    assert mark(load_snapshot(snapshot.store)) == 12


@pytest.mark.slow
def test_concurrent_threads_get_distinct_row_ids(tmp_path):
    snapshot = create(tmp_path, protocol=TRACKED)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: begin(snapshot, **{f"f{n}": n % 4}).commit(), range(32)))
    assert sorted(outcome.version for outcome in outcomes) == list(range(1, 33))
    assert_each_id_once(snapshot.store)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(0, 1000), max_size=3), st.booleans()), min_size=1, max_size=8
    )
)
def test_row_ids_are_unique_in_any_history(tmp_path_factory, history):
    """Each step is planned on one of the last five versions, adds files and may remove a file of its version."""
    store = create(tmp_path_factory.mktemp("t"), {"delta.checkpointInterval": "3"}, TRACKED).store
    snapshots = [load_snapshot(store)]
    for number, (back, counts, removes) in enumerate(history):
        snapshot = snapshots[max(0, len(snapshots) - 1 - back)]
        transaction = begin(snapshot, **{f"f{number}-{n}": count for n, count in enumerate(counts)})
        if removes and len(snapshot.files):
            transaction.remove(snapshot.files.slice(0, 1))
        transaction.commit()
        snapshots.append(snapshots[-1].update())
    assert_each_id_once(store)
    live = load_snapshot(store).files.select(["path", "baseRowId"]).to_pylist()
    given_ids = ranges(store)
    assert all(file["baseRowId"] == given_ids[file["path"]][0] for file in live)
    for version in range(load_snapshot(store).version + 1):
        assert all(r["baseRowId"] == given_ids[r["path"]][0] for r in actions(store, version, "remove"))


def test_an_append_assigns_row_ids_that_were_enabled_concurrently(tmp_path):
    snapshot = create(tmp_path)
    late = begin(snapshot, a=3)
    upgrade = OptimisticTransaction(snapshot, snapshot.store, "UPGRADE PROTOCOL", {})
    upgrade.set_protocol(TRACKED)
    assert isinstance(upgrade.commit(), Committed)
    assert begin(load_snapshot(snapshot.store), b=2).commit() == Committed(2, 1)
    assert late.commit() == Committed(3, 2)
    assert ranges(snapshot.store) == {"b": (0, 2), "a": (2, 5)}
    late = begin(load_snapshot(snapshot.store), c=1)
    stable = OptimisticTransaction(load_snapshot(snapshot.store), snapshot.store, "SET TBLPROPERTIES", {})
    stable.set_metadata(replace(snapshot.metadata, configuration=STABLE))
    assert isinstance(stable.commit(), Committed)
    assert isinstance(late.commit().error, MetadataChangedError)


def test_the_high_water_mark_of_other_writers_is_used(tmp_path):
    snapshot = create(tmp_path, protocol=TRACKED)
    late = begin(snapshot, a=3)
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark": 999}', "removed": False}
    put(tmp_path, 1, {"domainMetadata": domain})
    assert late.commit() == Committed(2, 2)
    assert ranges(snapshot.store) == {"a": (1000, 1003)}
    last = {**domain, "configuration": json.dumps({"rowIdHighWaterMark": 2**63 - 4})}
    put(tmp_path, 3, {"domainMetadata": last})
    with pytest.raises(DeltaProtocolError, match=r"3 rows need row ids above 9223372036854775804") as caught:
        begin(load_snapshot(snapshot.store), b=3).commit()
    assert (caught.value.code, caught.value.version) == ("DELTA_ROW_TRACKING", 4)
    for nonsense in ("", "{}", "[]", '{"rowIdHighWaterMark": "5"}', '{"rowIdHighWaterMark": -2}'):
        with pytest.raises(LogCorruptedError, match="expected a rowIdHighWaterMark"):
            row_tracking.highest([DomainMetadata("delta.rowTracking", nonsense)], table="t", version=3)


def test_a_file_without_a_row_count_is_refused(tmp_path):
    snapshot = create(tmp_path, protocol=TRACKED)
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
    transaction.add(files("a"))
    with pytest.raises(DeltaProtocolError, match=r"no row count.*numRecords") as caught:
        transaction.commit()
    assert (caught.value.code, caught.value.version) == ("DELTA_ROW_TRACKING", 1)
    assert load_snapshot(snapshot.store).version == 0


def test_a_file_that_is_committed_again_keeps_its_ids(tmp_path):
    snapshot = create(tmp_path, protocol=TRACKED)
    begin(snapshot, a=3, b=2).commit()
    snapshot = load_snapshot(snapshot.store)
    again = begin(snapshot, c=4)
    again.add(snapshot.files.slice(0, 1))
    assert again.commit() == Committed(2, 1)
    ids_by_path = {
        add["path"]: (add["baseRowId"], add["defaultRowCommitVersion"]) for add in actions(snapshot.store, 2, "add")
    }
    path = snapshot.files["path"][0].as_py()
    assert ids_by_path == {path: (0 if path == "a" else 3, 1), "c": (5, 2)}


def test_a_file_that_got_row_ids_concurrently_is_removed_with_them(tmp_path):
    snapshot = create(tmp_path)
    begin(snapshot, a=3, b=2).commit()
    snapshot = load_snapshot(snapshot.store)
    upgrade = OptimisticTransaction(snapshot, snapshot.store, "UPGRADE PROTOCOL", {})
    upgrade.set_protocol(TRACKED)
    late = begin(snapshot, c=4)
    late.remove(snapshot.files)
    assert upgrade.commit() == Committed(2, 1)
    backfill = OptimisticTransaction(load_snapshot(snapshot.store), snapshot.store, "ROW TRACKING BACKFILL", {})
    backfill.add(sized(a=3, b=2))
    assert backfill.commit() == Committed(3, 1)
    assert late.commit() == Committed(4, 2)
    removes = actions(snapshot.store, 4, "remove")
    gone = {remove["path"]: (remove["baseRowId"], remove["defaultRowCommitVersion"]) for remove in removes}
    assert gone == {"a": (0, 3), "b": (3, 3)}
    assert ranges(snapshot.store, 4) == {"c": (5, 9)}


def test_a_table_that_cannot_keep_ids_is_refused_by_name(tmp_path):
    alone = Protocol(1, 7, None, frozenset({"rowTracking"}))
    with pytest.raises(DeltaProtocolError, match="rowTracking without domainMetadata"):
        create(tmp_path / "alone", protocol=alone)
    taken = {"delta.rowTracking.materializedRowIdColumnName": "ID"}
    with pytest.raises(DeltaProtocolError, match=r"'ID' has the name.*materializedRowIdColumnName"):
        create(tmp_path / "taken", taken, TRACKED)
    # A property without its feature has no effect.
    plain = create(tmp_path / "plain", STABLE)
    rearranging = OptimisticTransaction(plain, plain.store, "OPTIMIZE", {})
    rearranging.add(files("c", data_change=False))
    rearranging.remove(files("a"), data_change=False)
    assert rearranging.commit() == Committed(1, 1)
    assert "baseRowId" not in actions(plain.store, 1, "add")[0]


def test_no_row_ids_are_assigned_while_row_tracking_is_suspended(tmp_path):
    snapshot = create(tmp_path, {"delta.rowTrackingSuspended": "true"}, TRACKED)
    begin(snapshot, a=3).commit()
    assert "baseRowId" not in actions(snapshot.store, 1, "add")[0]
    assert not load_snapshot(snapshot.store).domains


def test_the_verbs_assign_new_ids_to_copied_rows(tmp_path):
    store = tracked_rows(tmp_path)
    table = DeltaTable(tmp_path)
    table.delete("id = 5")
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, rows(30), mode="append")
    DeltaTable(tmp_path).optimize.z_order(["id"])
    DeltaTable(tmp_path).create_checkpoint()
    write_deltalake(tmp_path, rows(40), mode="append")
    written = 30 + 9 + 29 + 10 + 39 + 10
    assert sum(last - first for first, last in ranges(store, 2).values()) == written
    snapshot = load_snapshot(store)
    assert mark(snapshot) == written - 1
    assert {file["path"]: file["baseRowId"] for file in snapshot.files.to_pylist()}.items() <= {
        path: first for path, (first, _) in ranges(store, 2).items()
    }.items()
    checksum = read_checksum(store, snapshot.version)
    assert checksum.domains == snapshot.domains
    expected = [n for n in range(50) if n != 5]
    for read in (read_delta_rs, read_duckdb):
        assert read(tmp_path)["id"].to_pylist() == expected


def test_replacing_a_file_requires_a_declaration_of_kept_row_ids(tmp_path):
    store = tracked_rows(tmp_path, STABLE)
    snapshot = load_snapshot(store)
    rearranging = OptimisticTransaction(snapshot, store, "OPTIMIZE", {})
    rearranging.remove(snapshot.files, data_change=False)
    rearranging.add(files("c", data_change=False, stats='{"numRecords":30}'))
    with pytest.raises(UnsupportedFeatureError, match="without preserving row ids") as caught:
        rearranging.commit()
    assert caught.value.version == 4
    assert load_snapshot(store).version == 4


def test_stable_row_ids_allow_appends_and_removes_of_whole_files(tmp_path):
    store = tracked_rows(tmp_path, STABLE)
    assert DeltaTable(tmp_path).delete("id >= 10 AND id < 20")["num_deleted_rows"] == 10
    assert DeltaTable(tmp_path).delete("id = 77")["num_deleted_rows"] == 0
    write_deltalake(tmp_path, rows(50), mode="append")
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    first_ids = {file["path"]: file["baseRowId"] for file in load_snapshot(store).files.to_pylist()}
    assert sorted(first_ids.values()) == [0, 20, 30]
    assert read_delta_rs(tmp_path)["id"].to_pylist() == [*range(10), *range(20, 30), *range(50, 60)]
    write_deltalake(tmp_path, rows(70), mode="overwrite", schema_mode="overwrite")
    snapshot = load_snapshot(store)
    assert snapshot.files["baseRowId"].to_pylist() == [40]
    assert snapshot.configuration == STABLE
    for version in range(1, snapshot.version + 1):
        assert actions(store, version, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}
