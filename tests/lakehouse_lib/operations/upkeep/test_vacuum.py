"""The plan of vacuum and the files that it leaves, compared with delta-rs."""

from __future__ import annotations

import base64
import os
import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable as OurTable
from lakehouse_lib.errors import InvalidArgumentError, RetentionError, StoreError, UnsupportedFeatureError
from lakehouse_lib.log.history import history
from lakehouse_lib.log.retention.last_vacuum import last_vacuumed
from lakehouse_lib.operations.listing import OBJECT_SCHEMA
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.upkeep.unneeded_files.plan import file_needs
from lakehouse_lib.operations.upkeep.unneeded_files.scan import scan_batches
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol.actions import FILE_SCHEMA, TOMBSTONE_SCHEMA
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, open_store
from tests.log_builder import Action, edit, put
from tests.peers import files_delta_rs, parquet_files, read_delta_rs

CUTOFF = 1_000
OLD, YOUNG = 10, 2_000
STORE = LocalStore("/tables/t")


def objects(*rows: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"path": p, "size": 1, "modified": m} for p, m in rows], schema=OBJECT_SCHEMA)


def live(*paths: str, vectors: dict[str, dict[str, object]] | None = None) -> pa.Table:
    rows = [{"path": path, "deletionVector": (vectors or {}).get(path)} for path in paths]
    return pa.Table.from_pylist(rows, schema=FILE_SCHEMA)


def removed(*rows: tuple[str, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"path": p, "deletionTimestamp": t} for p, t in rows], schema=TOMBSTONE_SCHEMA)


def planned(stored: pa.Table, files: pa.Table, tombstones: pa.Table, *partition_columns: str) -> list[str]:
    needs = file_needs(files, tombstones, CUTOFF, store=STORE, partition_columns=partition_columns)
    unneeded = scan_batches(stored.to_batches(), needs).unneeded()
    return sorted(path for table in unneeded for path in table["path"].to_pylist())


def test_a_file_goes_when_its_removal_is_past_the_retention_or_nobody_knows_it_and_it_is_old() -> None:
    stored = objects(
        ("live.parquet", OLD),
        ("removed-long-ago.parquet", YOUNG),
        ("removed-lately.parquet", OLD),
        ("removed-without-a-time.parquet", OLD),
        ("leftover.parquet", OLD),
        ("being-written.parquet", YOUNG),
    )
    tombstones = removed(
        ("removed-long-ago.parquet", CUTOFF),
        ("removed-lately.parquet", CUTOFF + 1),
        ("removed-without-a-time.parquet", None),
    )
    assert planned(stored, live("live.parquet"), tombstones) == [
        "leftover.parquet",
        "removed-long-ago.parquet",
        "removed-without-a-time.parquet",
    ]


def test_a_file_that_came_back_after_its_removal_stays() -> None:
    assert planned(objects(("a.parquet", OLD)), live("a.parquet"), removed(("a.parquet", OLD))) == []


@pytest.mark.parametrize(
    "spelling",
    ["a%20b/c%2520d", "/tables/t/a b/c%2520d", "file:/tables/t/a%20b/c%2520d", "file:///tables/t/a%20b/c%2520d"],
)
def test_a_file_is_one_file_however_the_log_spells_it(spelling: str) -> None:
    if spelling.startswith("/"):
        spelling = spelling.replace(" ", "%20")
    assert planned(objects(("a b/c%20d", OLD)), live(spelling), removed()) == []
    assert planned(objects(("a b/c%20d", OLD)), live(), removed((spelling, YOUNG))) == []
    assert planned(objects(("a b/c%20d", OLD)), live(), removed((spelling, OLD))) == ["a b/c%20d"]


def test_a_reference_out_of_the_table_may_lead_back_in_by_another_name() -> None:
    elsewhere = live("file:///link/to/t/x%20y.parquet", "s3://bucket/y.parquet")
    stored = objects(("p=1/x y.parquet", OLD), ("y.parquet", OLD), ("z.parquet", OLD))
    assert planned(stored, elsewhere, removed(("/other/z.parquet", OLD))) == ["z.parquet"]


def test_a_reference_from_elsewhere_keeps_a_name_that_has_a_percent_sign_in_it() -> None:
    stored = objects(("a%20b.parquet", OLD), ("c.parquet", OLD))
    assert planned(stored, live("file:///link/to/t/a%2520b.parquet"), removed()) == ["c.parquet"]


def test_a_table_opened_through_a_link_keeps_what_its_log_calls_by_the_real_name(table: Path, tmp_path: Path) -> None:
    log = table / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace('"path":"part', f'"path":"file://{table}/part'))
    (tmp_path / "link").symlink_to(table)
    before = {file for file in parquet_files(table) if file.name != "leftover.parquet"}
    vacuum(load_snapshot(LocalStore(str(tmp_path / "link"))), now=in_days(8), dry_run=False)
    live_names = {Path(path).name for path in load_snapshot(LocalStore(str(table))).files["path"].to_pylist()}
    assert {file for file in before if file.name in live_names} <= parquet_files(table)


def test_a_name_that_is_not_utf8_is_told(table: Path) -> None:
    Path(os.fsdecode(os.fsencode(table) + b"/\xff.parquet")).write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="not UTF-8"):
        vacuum(load_snapshot(open_store(table)), now=in_days(8))


def test_hidden_folders_stay_but_for_those_that_hold_data() -> None:
    stored = objects(
        ("_ingest/orders/1.json", OLD),
        (".hidden/a.parquet", OLD),
        ("p=1/_temporary/a.parquet", OLD),
        (".part.parquet.crc", OLD),
        ("_SUCCESS", OLD),
        ("_p=1/_q=2/a.parquet", OLD),
        ("_other=1/a.parquet", OLD),
        ("_change_data/cdc.parquet", OLD),
        ("_delta_index/i.bin", OLD),
    )
    assert planned(stored, live(), removed(), "_p", "_q") == [
        "_change_data/cdc.parquet",
        "_delta_index/i.bin",
        "_p=1/_q=2/a.parquet",
    ]


def test_what_a_killed_spark_job_left_goes() -> None:
    stored = objects(
        ("spark_write=1/_temporary/0/_temporary/attempt_1/part-0.parquet", OLD),
        ("spark_write=2/_temporary/0/_temporary/attempt_1/part-0.parquet", YOUNG),
    )
    assert planned(stored, live(), removed()) == ["spark_write=1/_temporary/0/_temporary/attempt_1/part-0.parquet"]


def test_a_checksum_goes_with_its_file_and_not_without() -> None:
    stored = objects(
        ("p=1/a.parquet", OLD), ("p=1/.a.parquet.crc", YOUNG), ("b.parquet", YOUNG), (".b.parquet.crc", OLD)
    )
    assert planned(stored, live(), removed()) == ["p=1/.a.parquet.crc", "p=1/a.parquet"]


def test_a_table_inside_the_table_stays() -> None:
    stored = objects(
        ("inner/_delta_log/00000000000000000000.json", OLD), ("inner/p=1/a.parquet", OLD), ("innermost", OLD)
    )
    assert planned(stored, live(), removed()) == ["innermost"]


def test_what_makes_the_folder_an_iceberg_table_too_stays() -> None:
    """Converters write this metadata beside the Delta log, for the same data files."""
    stored = objects(
        ("metadata/v2.metadata.json", OLD),
        ("metadata/version-hint.text", OLD),
        ("metadata/snap-1-1-7a.avro", OLD),
        ("metadata/stats/7a.stats", OLD),
        ("p=1/metadata/7a.metadata.json.notes", OLD),
        ("metadata.txt", OLD),
    )
    assert planned(stored, live(), removed()) == ["metadata.txt", "p=1/metadata/7a.metadata.json.notes"]


def vector_name(of: uuid.UUID) -> str:
    # base64.b85 has the digits of Z85 with another alphabet.
    base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(of.bytes).decode().translate(str.maketrans(base85, z85))


@given(st.lists(st.uuids(), min_size=1, max_size=5, unique=True))
def test_deletion_vector_files_live_as_long_as_their_data_files(ids: list[uuid.UUID]) -> None:
    vectors = {
        f"{i}.parquet": {"storageType": "u", "pathOrInlineDv": f"{'ab' * (i % 2)}{vector_name(vector_id)}"}
        for i, vector_id in enumerate(ids)
    }
    vectors["p.parquet"] = {"storageType": "p", "pathOrInlineDv": "file:///tables/t/x/absolute.bin"}
    vectors["i.parquet"] = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    names = [f"{'ab/' * (i % 2)}deletion_vector_{vector_id}.bin" for i, vector_id in enumerate(ids)]
    stored = objects(*((name, OLD) for name in names), ("x/absolute.bin", OLD), ("deletion_vector_x.bin", OLD))
    assert planned(stored, live(*vectors, vectors=vectors), removed()) == ["deletion_vector_x.bin"]


def test_the_protocols_example_of_a_vector_name() -> None:
    # PROTOCOL.md, section Deletion Vector Descriptor Schema, JSON Example 1.
    vectors = {"a.parquet": {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}}
    stored = objects(("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", OLD))
    assert planned(stored, live("a.parquet", vectors=vectors), removed()) == []


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of delta-rs with three appends, a delete that rewrites a file, and a compaction, some time ago."""
    root = tmp_path / "orders"
    for start in (0, 10, 20):
        write_deltalake(root, pa.table({"id": list(range(start, start + 10))}), mode="append")
    DeltaTable(root).delete("id = 13")
    DeltaTable(root).optimize.compact()
    (root / "_ingest" / "orders").mkdir(parents=True)
    (root / "_ingest" / "orders" / "1.json").write_text("{}")
    (root / "leftover.parquet").write_bytes(b"PAR1")
    return root


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def test_after_vacuum_the_folder_holds_what_delta_rs_lists(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    before = read_delta_rs(table)
    dry = vacuum(snapshot, now=in_days(8))
    assert {table / path for path in dry.files} == parquet_files(table) - files_delta_rs(table)
    assert (dry.version, dry.read_version, dry.metrics["numFilesToDelete"]) == (None, snapshot.version, 5)
    result = vacuum(snapshot, now=in_days(8), dry_run=False)
    assert result.files == dry.files
    assert (result.version, result.metrics) == (snapshot.version + 2, {**dry.metrics, "numDeletedFiles": 5})
    assert parquet_files(table) == files_delta_rs(table)
    assert read_delta_rs(table) == before
    assert (table / "_ingest" / "orders" / "1.json").exists()
    assert vacuum(snapshot, now=in_days(8), dry_run=False).files == ()


def test_a_dry_run_and_a_run_with_nothing_to_do_leave_no_trace(table: Path) -> None:
    files = parquet_files(table)
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, dry_run=False).files == ()
    assert vacuum(snapshot, now=in_days(8)).files
    assert parquet_files(table) == files
    assert load_snapshot(snapshot.store).version == snapshot.version


def test_the_history_tells_when_files_went(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    vacuum(snapshot, retention_hours=0, enforce_retention_duration=False, dry_run=False, now=in_days(1))
    end, start = history(snapshot.store, 2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationMetrics"]["numFilesToDelete"] == end["operationMetrics"]["numDeletedFiles"] == "5"
    assert start["operationParameters"]["specifiedRetentionMillis"] == "0"
    assert DeltaTable(table).history(1)[0]["operation"] == "VACUUM END"


def test_less_than_the_tables_retention_has_to_be_said_out_loud(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    with pytest.raises(RetentionError) as refused:
        vacuum(snapshot, retention_hours=24)
    assert "24 hours" in str(refused.value)
    assert "168 hours" in str(refused.value)
    assert "enforce_retention_duration=False" in str(refused.value)
    assert len(vacuum(snapshot, retention_hours=24, enforce_retention_duration=False, now=in_days(1.1)).files) == 5
    assert vacuum(snapshot, retention_hours=24, enforce_retention_duration=False, now=in_days(0.9)).files == ()


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), 10**30, True, "7"])
def test_a_retention_that_is_none_is_refused(table: Path, hours: float) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(f"retention_hours is {hours!r}; expected")):
        vacuum(load_snapshot(open_store(table)), retention_hours=hours, enforce_retention_duration=False)


def test_the_tables_own_retention_counts(table: Path) -> None:
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 days"})
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, now=in_days(1.9)).files == ()
    assert len(vacuum(snapshot, now=in_days(2.1)).files) == 5
    with pytest.raises(RetentionError, match="48 hours"):
        vacuum(snapshot, retention_hours=47)


def test_more_than_the_tables_retention_is_kept_though_checkpoints_forget(table: Path) -> None:
    """Checkpoints of the table drop removes after two days; a vacuum of eight days keeps a file removed after five."""
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 days"})
    days_ago = 3 * 86_400

    def age(action: Action) -> None:
        for kind, key in (("remove", "deletionTimestamp"), ("commitInfo", "timestamp")):
            if kind in action:
                action[kind][key] -= days_ago * 1000

    for version in range(DeltaTable(table).version() + 1):
        edit(table, version, age)
        commit = table / "_delta_log" / f"{version:020d}.json"
        os.utime(commit, (commit.stat().st_mtime - days_ago,) * 2)
    for file in parquet_files(table):
        os.utime(file, (file.stat().st_mtime - 30 * 86_400,) * 2)
    snapshot = load_snapshot(open_store(table))
    unknown = vacuum(snapshot, retention_hours=8 * 24).files
    assert unknown == ("leftover.parquet",)
    write_deltalake(table, pa.table({"id": [99]}), mode="append")
    checkpoint(load_snapshot(open_store(table)))
    snapshot = load_snapshot(open_store(table))
    assert not len(snapshot.tombstones)
    assert vacuum(snapshot, retention_hours=8 * 24).files == unknown
    assert len(vacuum(snapshot, retention_hours=2 * 24).files) == 5


def test_an_old_snapshot_decides_by_the_latest_version(table: Path) -> None:
    old = load_snapshot(open_store(table), 1)
    vacuum(old, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)


def test_an_old_snapshot_whose_next_commits_are_cleaned_up_does_too(table: Path) -> None:
    old = load_snapshot(open_store(table), 1)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    vacuum(old, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)


def test_a_commit_during_the_listing_keeps_its_files(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_snapshot(open_store(table))
    walk = LocalStore.walk

    def committed_meanwhile(store: LocalStore, prefix: str = ""):
        if not prefix:
            write_deltalake(table, pa.table({"id": [99]}), mode="append")
        return walk(store, prefix)

    monkeypatch.setattr(LocalStore, "walk", committed_meanwhile)
    vacuum(snapshot, retention_hours=0, enforce_retention_duration=False, dry_run=False, now=in_days(1))
    assert parquet_files(table) == files_delta_rs(table)
    assert 99 in read_delta_rs(table)["id"].to_pylist()


def test_an_unknown_writer_feature_is_refused_before_anything_goes(table: Path) -> None:
    files = parquet_files(table)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["vacuumProtocolCheck"],
        "writerFeatures": ["vacuumProtocolCheck", "secretFiles"],
    }
    put(table, 5, {"protocol": protocol})
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="secretFiles"):
            vacuum(load_snapshot(open_store(table)), now=in_days(8), dry_run=dry_run)
    assert parquet_files(table) == files


def test_files_with_odd_partition_folders(tmp_path: Path) -> None:
    root = tmp_path / "t"
    values = ["a b", "a%20b", "ü/=", "_x", ".y", "é:z", None]
    for _ in range(2):
        write_deltalake(
            root,
            pa.table({"_p": pa.array(values, pa.string()), "id": list(range(7))}),
            mode="overwrite",
            partition_by=["_p"],
        )
    vacuum(load_snapshot(open_store(root)), now=in_days(8), dry_run=False)
    assert parquet_files(root) == files_delta_rs(root)
    assert len(parquet_files(root)) == 7


def test_a_vacuum_that_dies_half_way_can_be_run_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_snapshot(open_store(table))
    unlink, gone = os.unlink, list[str]()

    def fails_after_two(path: str, **options: object) -> None:
        if str(path).endswith(".parquet"):
            if len(gone) == 2:
                raise OSError(5, "Input/output error")
            gone.append(path)
        unlink(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", fails_after_two)
    with pytest.raises(StoreError, match="Input/output error"):
        vacuum(snapshot, now=in_days(8), dry_run=False)
    monkeypatch.undo()
    assert len(vacuum(snapshot, now=in_days(8), dry_run=False).files) == 3
    assert parquet_files(table) == files_delta_rs(table)


@pytest.mark.parametrize("full", [False, True])
def test_change_files_go_after_the_retention(tmp_path: Path, full: bool) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    write_deltalake(tmp_path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(tmp_path).update({"id": "id + 10"}, predicate="id = 1")
    (old,) = (tmp_path / "_change_data").iterdir()
    leftover = tmp_path / "_change_data" / "leftover.parquet"
    leftover.write_bytes(b"PAR1")
    ten_days_ago = (datetime.now(UTC) - timedelta(days=10)).timestamp()
    for path in (old, leftover, *(tmp_path / "_delta_log").glob("*.json")):
        os.utime(path, (ten_days_ago, ten_days_ago))
    DeltaTable(tmp_path).update({"id": "id + 10"}, predicate="id = 2")
    (young,) = set((tmp_path / "_change_data").iterdir()) - {old, leftover}
    vacuum(load_snapshot(open_store(str(tmp_path))), dry_run=False, full=full)
    assert set((tmp_path / "_change_data").iterdir()) == {young} | (set() if full else {leftover})


def test_a_linked_folder_is_neither_followed_nor_unlinked(table: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.parquet").write_bytes(b"PAR1")
    (table / "linked").symlink_to(outside)
    vacuum(load_snapshot(open_store(table)), now=in_days(8), dry_run=False)
    assert (table / "linked" / "a.parquet").exists()


def test_file_times_are_read_as_milliseconds(table: Path) -> None:
    moment = datetime.now(UTC)
    leftover = table / "leftover.parquet"
    os.utime(leftover, (moment.timestamp() - 3600, moment.timestamp() - 3600))
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, retention_hours=0.9, enforce_retention_duration=False, now=moment).files == (
        "leftover.parquet",
    )
    assert vacuum(snapshot, retention_hours=1.1, enforce_retention_duration=False, now=moment).files == ()


def test_a_vacuum_that_is_not_full_lists_no_data(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = set(DeltaTable(table).vacuum(0, enforce_retention_duration=False, full=False))
    walk = LocalStore.walk

    def listed(store: LocalStore, folder: str = ""):
        assert folder
        return walk(store, folder)

    monkeypatch.setattr(LocalStore, "walk", listed)
    snapshot = load_snapshot(open_store(table))
    result = vacuum(snapshot, full=False, now=in_days(8), dry_run=False)
    assert set(result.files) == expected
    assert parquet_files(table) == files_delta_rs(table) | {table / "leftover.parquet"}
    assert vacuum(snapshot, full=False, now=in_days(8), dry_run=False).files == ()


def test_commits_cleaned_up_since_the_last_vacuum_need_a_full_one(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DeltaTable(table).delete("id < 5")
    checkpoint(load_snapshot(open_store(table)))
    removed = parquet_files(table) - files_delta_rs(table)
    for version in range(DeltaTable(table).version()):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    snapshot = load_snapshot(open_store(table))
    result = vacuum(snapshot, full=False, now=in_days(8), dry_run=False)
    assert "files that they have removed stay until a vacuum with full=True" in caplog.text
    assert {table / path for path in result.files} <= removed
    assert last_vacuumed(open_store(table)) is None
    vacuum(snapshot, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)
    DeltaTable(table).delete("id < 9")
    caplog.clear()
    assert len(vacuum(snapshot, full=False, now=in_days(8), dry_run=False).files) >= 1
    assert not caplog.text
    assert parquet_files(table) == files_delta_rs(table)


def test_the_hint_of_an_earlier_table_in_the_folder_is_ignored(table: Path) -> None:
    hint = table / "_delta_log" / "_last_vacuum_info"
    hint.write_text('{"latestCommitVersionOutsideOfRetentionWindow":99}')
    checkpoint(load_snapshot(open_store(table)))
    result = vacuum(load_snapshot(open_store(table)), full=False, now=in_days(8), dry_run=False)
    assert len(result.files) == 4
    assert hint.read_text() == f'{{"latestCommitVersionOutsideOfRetentionWindow":{result.read_version}}}\n'


@pytest.mark.parametrize("full", [False, True])
def test_what_a_pin_has_kept_is_removed_later_without_a_listing(table: Path, full: bool) -> None:
    opened = OurTable(table)
    opened.pin("first", 0)
    checkpoint(load_snapshot(open_store(table)))
    vacuum(opened.snapshot, full=full, now=in_days(8), dry_run=False)
    assert len(OurTable(table, 0).to_pyarrow_table()) == 10
    opened.release("first")
    vacuum(opened.snapshot, full=False, now=in_days(8), dry_run=False)
    (table / "leftover.parquet").unlink(missing_ok=True)
    assert parquet_files(table) == files_delta_rs(table)
