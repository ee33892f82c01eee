"""Which concurrent commits conflict: isolation levels, overlap by statistics, resolved conflicts, and the docs page."""

import itertools
import re
from dataclasses import replace
from importlib import import_module

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, data_skipping, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    InvalidArgumentError,
    MetadataChangedError,
    ProtocolChangedError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction
from tests.log_builder import put, statistics
from tests.table_builder import append, begin, create, files, paths_of

pages = import_module("docs.conflict_table")


@pytest.mark.slow
def test_the_page_has_the_outcomes_of_the_code():
    assert pages.PAGE.read_text() == pages.page(), "run `make docs`"


def test_the_pages_count_the_pairs_and_the_differences():
    losers = [name for name in pages.OPERATIONS if name not in pages.UNCHECKED]
    pairs = len(pages.LEVELS) * len(pages.OPERATIONS) * len(losers)
    differences = sum(map(len, pages.DIFFERENCES.values()))
    text = " ".join(pages.PAGE.read_text().split())
    assert f"the same {pairs} pairs" in text
    assert f"exactly these {differences} cells differ" in text
    assert sum(map(int, re.findall(r"- (\d+) cells:", text))) == differences
    interop = " ".join(pages.PAGE.with_name("interop.md").read_text().split())
    assert f"{pairs} pairs in all. {pairs - differences} pairs have the same outcome." in interop
    assert f"lists the other {differences}." in interop


@pytest.mark.slow
def test_only_the_winner_of_each_pair_is_committed(tmp_path):
    # For every pair, the log has the winner; it has the loser unless the loser got a conflict.
    for number, (level, winner, loser) in enumerate(
        itertools.product(pages.LEVELS, pages.OPERATIONS.values(), pages.OPERATIONS.values())
    ):
        folder = tmp_path / str(number)
        error = pages.outcome(folder, level, winner, loser)
        assert load_snapshot(pages.LocalStore(str(folder))).version == (1 if error else 2)


def two_transactions_of(tmp_path, level):
    """A table with one file of the ids 1 to 100, and two transactions on it."""
    snapshot = create(tmp_path / "t", {"delta.isolationLevel": level})
    return snapshot, begin(snapshot, "UPDATE"), begin(snapshot, "UPDATE")


def test_two_keys_of_one_partition(tmp_path):
    """Two transactions that read and write different keys are both committed, although both are in one partition."""
    snapshot, first, second = two_transactions_of(tmp_path, "Serializable")
    for transaction, key in ((first, 1), (second, 2)):
        transaction.read(parse(f"id = {key}", snapshot.schema))
        transaction.add(files(f"key-{key}", stats=statistics(key, key)))
    assert first.commit() == Committed(1, 1)
    assert second.commit() == Committed(2, 2)


def test_the_same_key_of_one_partition(tmp_path):
    snapshot, first, second = two_transactions_of(tmp_path, "Serializable")
    for number, transaction in enumerate((first, second)):
        transaction.read(parse("id = 1", snapshot.schema))
        transaction.add(files(f"try-{number}", stats=statistics(1, 1)))
    assert first.commit() == Committed(1, 1)
    outcome = second.commit()
    assert isinstance(outcome.error, ConcurrentAppendError)
    assert "version 1" in str(outcome.error)
    assert "id = 1" in str(outcome.error)


@pytest.mark.parametrize(("level", "stands"), [("Serializable", False), ("WriteSerializable", True)])
def test_write_serializable_reorders_a_blind_append(tmp_path, level, stands):
    """The transaction did not read the appended row, so the log is as if it had been committed before the append."""
    snapshot, reader, _ = two_transactions_of(tmp_path, level)
    reader.read(parse("id = 1", snapshot.schema))
    reader.add(files("from-what-was-read", stats=statistics(1, 1)))
    blind = begin(snapshot)
    blind.add(files("blind", stats=statistics(1, 1)))
    blind.commit()
    outcome = reader.commit()
    assert isinstance(outcome, Committed if stands else Conflict)


def test_write_serializable_does_not_reorder_commits_with_reads(tmp_path):
    snapshot, reader, winner = two_transactions_of(tmp_path, "WriteSerializable")
    for transaction in (reader, winner):
        transaction.read(parse("id = 1", snapshot.schema))
        transaction.add(files(transaction.metrics.setdefault("name", str(id(transaction))), stats=statistics(1, 1)))
    winner.commit()
    assert isinstance(reader.commit().error, ConcurrentAppendError)


def test_a_change_of_metadata_is_never_reordered(tmp_path):
    snapshot, change, _ = two_transactions_of(tmp_path, "WriteSerializable")
    change.read(None)
    change.set_metadata(replace(snapshot.metadata, configuration={"delta.isolationLevel": "Serializable"}))
    append(snapshot, "blind")
    assert isinstance(change.commit().error, ConcurrentAppendError)


def test_the_level_of_each_commit_is_in_the_log(tmp_path):
    snapshot = append(create(tmp_path / "t", {"delta.isolationLevel": "writeserializable"}), "a", "b")
    compaction = begin(snapshot, "OPTIMIZE")
    compaction.remove(files("a", "b"), data_change=False)
    compaction.add(files("ab", data_change=False))
    compaction.commit()
    levels = [entry["isolationLevel"] for entry in DeltaTable(tmp_path / "t").history()]
    assert levels == ["SnapshotIsolation", "WriteSerializable", "WriteSerializable"]


def test_an_unknown_level_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"delta.isolationLevel = 'Snapshot'.*WriteSerializable"):
        append(create(tmp_path / "t", {"delta.isolationLevel": "Snapshot"}), "a")


def test_an_unknown_level_fails_only_commits_that_need_it(tmp_path):
    # Another engine may have left this state; it can be repaired.
    path = tmp_path / "t"
    for number in range(2):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    snapshot = load_snapshot(pages.LocalStore(str(path)))
    body = replace(snapshot.metadata, configuration={"delta.isolationLevel": "Foo"}).to_json()
    put(path, 2, {"metaData": body})
    table = DeltaTable(path)
    assert rows_of(path) == [0, 1]
    assert table.vacuum() == []
    assert table.health().version == 2
    assert table.optimize.compact()["numFilesRemoved"] == 2
    table.create_checkpoint()
    with pytest.raises(InvalidArgumentError, match=rf"delta.isolationLevel = 'Foo'.*table {path}\)\. Set it to"):
        table.delete("id = 1")
    repair = begin(load_snapshot(snapshot.store), "SET TBLPROPERTIES")
    repair.set_metadata(snapshot.metadata)
    assert repair.commit() == Committed(4, 1)
    table.delete("id = 1")
    assert rows_of(path) == [0]


def test_removed_files_conflict_if_they_may_have_been_read(tmp_path):
    snapshot = create(tmp_path / "t")
    both = begin(snapshot)
    both.add(pa.concat_tables([files("low", stats=statistics(1, 9)), files("high", stats=statistics(10, 19))]))
    both.commit()
    snapshot = load_snapshot(snapshot.store)
    low, high = (begin(snapshot) for _ in range(2))
    low.read(parse("id < 5", snapshot.schema))
    high.read(parse("id > 15", snapshot.schema))
    for name, transaction in (("l", low), ("h", high)):
        transaction.add(files(name, stats=statistics(30, 30)))
    compaction = begin(snapshot, "OPTIMIZE")
    compaction.remove(snapshot.prune(parse("id < 5", snapshot.schema)), data_change=False)
    compaction.add(files("low2", data_change=False, stats=statistics(1, 9)))
    compaction.commit()
    assert isinstance(low.commit().error, ConcurrentDeleteReadError)
    assert isinstance(high.commit(), Committed)


def test_the_error_names_the_first_of_several_winners(tmp_path):
    snapshot = append(create(tmp_path / "t"), "a", "b")
    late = begin(snapshot, "DELETE")
    late.remove(files("a", "b"))
    append(snapshot, "c")
    for version, name in ((3, "b"), (4, "a")):
        winner = begin(load_snapshot(snapshot.store), "OPTIMIZE")
        winner.remove(files(name), data_change=False)
        winner.add(files(f"{name}{version}", data_change=False))
        winner.commit()
    error = late.commit().error
    assert isinstance(error, ConcurrentDeleteDeleteError)
    assert error.version == 3


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        ({"description": "new words"}, True),
        ({"configuration": {"owner": "me", "delta.logRetentionDuration": "interval 1 day"}}, True),
        ({"configuration": {"delta.isolationLevel": "WriteSerializable"}}, False),
        ({"configuration": {"delta.appendOnly": "true"}}, False),
        ({"configuration": {"delta.neverHeardOf": "1"}}, False),
        ({"id": "another table"}, False),
    ],
)
def test_a_harmless_metadata_change_is_not_a_conflict(tmp_path, change, stands):
    snapshot = create(tmp_path / "t")
    late = begin(snapshot, adds=["late"])
    winner = begin(snapshot, "SET TBLPROPERTIES")
    winner.set_metadata(replace(snapshot.metadata, **change))
    winner.commit()
    outcome = late.commit()
    assert isinstance(outcome, Committed) if stands else isinstance(outcome.error, MetadataChangedError)


@pytest.mark.parametrize(
    ("protocol", "stands"),
    [
        (Protocol(1, 3), True),
        (Protocol(1, 7, writer_features=frozenset({"appendOnly", "invariants", "domainMetadata"})), True),
        (Protocol(1, 7, writer_features=frozenset({"appendOnly"})), False),  # invariants (version 2) are removed
        (Protocol(1, 7, writer_features=frozenset({"appendOnly", "invariants", "columnMappingUsageTracking"})), False),
    ],
)
def test_a_compatible_protocol_change_is_not_a_conflict(tmp_path, protocol, stands):
    snapshot = create(tmp_path / "t")
    late = begin(snapshot, adds=["late"])
    put(tmp_path / "t", 1, {"protocol": protocol.to_json()})
    outcome = late.commit()
    assert isinstance(outcome, Committed) if stands else isinstance(outcome.error, ProtocolChangedError)


def rows_of(path):
    return sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def test_a_delete_is_planned_again_after_a_compaction_and_an_append(tmp_path):
    path = tmp_path / "t"
    for number in range(4):
        write_deltalake(path, pa.table({"id": [number * 10, number * 10 + 1]}), mode="append")
    store = pages.LocalStore(str(path))
    before = load_snapshot(store)
    compact(load_snapshot(store), ArrowEngine())
    write_deltalake(path, pa.table({"id": [1, 2]}), mode="append")
    looked_into = []

    class Watching(ArrowEngine):
        def run(self, function, tasks, *others):
            looked_into.append(sum(len(task.files) for task in tasks))
            return super().run(function, tasks, *others)

    result = delete(before, parse("id = 1 or id = 20", before.schema), Watching())
    assert rows_of(path) == [0, 2, 10, 11, 21, 30, 31]
    assert result.metrics["numDeletedRows"] == 3
    assert (result.read_version, result.version) == (5, 6)
    assert looked_into[1] == 2  # the compacted file and the appended file, each read once
    left = {file.name for file in path.glob("*.parquet")}
    referred = {row["path"] for row in load_snapshot(store).tombstones.to_pylist()} | set(
        paths_of(load_snapshot(store))
    )
    assert left <= referred, "what the first round wrote is gone"


def test_a_delete_commits_after_a_change_of_a_maintenance_property(tmp_path):
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"id": [1, 2]}))
    before = load_snapshot(pages.LocalStore(str(path)))
    write_deltalake(path, pa.table({"id": [1, 3]}), mode="append")
    now = before.update()
    configuration = {**now.configuration, "delta.logRetentionDuration": "interval 40 days"}
    transaction = OptimisticTransaction(now, now.store, "SET TBLPROPERTIES", {})
    transaction.set_metadata(replace(now.metadata, configuration=configuration))
    assert isinstance(transaction.commit(), Committed)
    assert delete(before, parse("id = 1", before.schema), ArrowEngine()).metrics["numDeletedRows"] == 2
    assert rows_of(path) == [2, 3]
    assert DeltaTable(path).metadata().configuration["delta.logRetentionDuration"] == "interval 40 days"


def test_a_delete_fails_after_a_change_of_the_schema(tmp_path):
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"id": [1, 2]}))
    before = load_snapshot(pages.LocalStore(str(path)))
    write_deltalake(path, pa.table({"id": [3], "new": [1]}), mode="append", schema_mode="merge")
    files_before = set(path.glob("*.parquet"))
    with pytest.raises(CommitFailedError):
        delete(before, parse("id = 1", before.schema), ArrowEngine())
    assert set(path.glob("*.parquet")) == files_before
    assert rows_of(path) == [1, 2, 3]


def partitioned(path, parts=("a", "b"), each=3):
    for number, part in itertools.product(range(each), parts):
        table = pa.table({"part": [part] * 2, "id": [number, number + 100]})
        write_deltalake(path, table, mode="append", partition_by=["part"])
    return load_snapshot(pages.LocalStore(str(path)))


@pytest.mark.parametrize("verb", [compact, lambda *a: z_order(*a, ["id"])], ids=["compact", "z_order"])
def test_a_rewrite_commits_the_partitions_without_a_conflict(tmp_path, verb):
    path = tmp_path / "t"
    before = partitioned(path)
    delete(before, parse("part = 'b' and id = 1", before.schema), ArrowEngine())
    expected = rows_of(path)
    result = verb(before, ArrowEngine())
    assert rows_of(path) == expected
    assert result.metrics["numRemovedFiles"] == 3
    after = load_snapshot(before.store)
    assert len(after.prune(parse("part = 'a'", after.schema))) == 1
    assert len(after.prune(parse("part = 'b'", after.schema))) == 3
    paths = set(paths_of(after)) | set(after.tombstones["path"].to_pylist())
    assert {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in str(file)} <= paths


@pytest.mark.parametrize("verb", [compact, lambda *a: z_order(*a, ["id"])], ids=["compact", "z_order"])
def test_a_rewrite_that_lost_every_partition_is_planned_again(tmp_path, verb):
    path = tmp_path / "t"
    before = partitioned(path)
    delete(before, parse("id = 1", before.schema), ArrowEngine())
    expected = rows_of(path)
    assert verb(before, ArrowEngine()).version == 7
    assert rows_of(path) == expected


@pytest.mark.parametrize("loses_a_file", [True, False])
@pytest.mark.parametrize("verb", [compact, lambda *a: z_order(*a, ["id"])], ids=["compact", "z_order"])
def test_a_rewrite_fails_after_a_schema_change_in_any_order_of_winners(tmp_path, verb, loses_a_file):
    path = tmp_path / "t"
    before = partitioned(path)
    if loses_a_file:
        delete(before, parse("part = 'b' and id = 1", before.schema), ArrowEngine())
    new = pa.table({"part": ["c"], "id": [7], "new": [1]})
    write_deltalake(path, new, mode="append", schema_mode="merge")
    expected, files_before = rows_of(path), set(path.rglob("*.parquet"))
    with pytest.raises(MetadataChangedError, match=r"added the column 'new'.*version [67]\).*run it again"):
        verb(before, ArrowEngine())
    assert (rows_of(path), set(path.rglob("*.parquet"))) == (expected, files_before)


@pytest.mark.parametrize("loses_a_file", [True, False])
def test_a_rewrite_fails_after_a_dropped_feature_in_any_order_of_winners(tmp_path, loses_a_file):
    # Another writer changes the protocol of the table so that it has fewer rules.
    path = tmp_path / "t"
    before = partitioned(path)
    if loses_a_file:
        delete(before, parse("part = 'b' and id = 1", before.schema), ArrowEngine())
    put(path, 6 + loses_a_file, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}})
    expected = rows_of(path)
    with pytest.raises(ProtocolChangedError, match="writer 2 to reader 1, writer 1"):
        compact(before, ArrowEngine())
    assert rows_of(path) == expected


def test_many_winners_are_checked_together(tmp_path, monkeypatch):
    snapshot = create(tmp_path / "t")
    late = begin(snapshot)
    late.read(parse("id = 5", snapshot.schema))
    late.add(files("late", stats=statistics(5, 5)))
    current = snapshot
    for number in range(30):
        winner = begin(current)
        winner.add(files(f"f{number}", stats=statistics(100 + number, 100 + number)))
        winner.commit()
        current = current.update()
    counts = []
    real = data_skipping.may_match
    monkeypatch.setattr(data_skipping, "may_match", lambda *args: counts.append(len(args[1])) or real(*args))
    assert late.commit() == Committed(31, 2)
    assert counts == [30]
