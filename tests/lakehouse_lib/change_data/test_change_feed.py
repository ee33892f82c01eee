"""The change data feed of tables that delta-rs wrote, compared with delta-rs' feed."""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import DeltaTable, Field, Schema, write_deltalake
from lakehouse_lib.change_data import commit_range
from lakehouse_lib.change_data.schemas import check_readable_as
from lakehouse_lib.errors import (
    DeltaProtocolError,
    InvalidArgumentError,
    InvalidPredicateError,
    LogCorruptedError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lakehouse_lib.log import file_names
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.fault_store import FaultStore
from tests.peers import collected

ON = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with all kinds of commits: insert, delete and update with change files, rewrite, merge, overwrite."""
    uri = tmp_path / "t"
    # delta-rs 1.6.6 cannot find its own change files if a partition value is escaped in folder names.
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", None], "value": [1.0, None, 3.0]})
    deltalake.write_deltalake(uri, rows, partition_by=["part"], configuration=ON)
    more = pa.table({"id": [4, 5], "part": ["a", "c"], "value": [4.0, 5.0]})
    deltalake.write_deltalake(uri, more, mode="append")
    delta_rs_table = deltalake.DeltaTable(uri)
    delta_rs_table.delete("id = 2")
    delta_rs_table.update(updates={"value": "value + 1"}, predicate="part = 'a'")
    delta_rs_table.optimize.compact()
    source = pa.table({"id": [1, 9], "part": ["a", "z"], "value": [0.5, 9.0]})
    merge = delta_rs_table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(uri, pa.table({"id": [7], "part": ["b"], "value": [7.0]}), mode="overwrite")
    return uri


def rows_of(changes: Any) -> list[tuple[Any, ...]]:
    """The rows of our feed (a reader or a DataFrame) or delta-rs' feed (arro3), without times, sorted."""
    if hasattr(changes, "toArrow"):
        changes = changes.toArrow()
    rows = pa.table(changes)
    rows = rows.select([name for name in sorted(rows.column_names) if name != "_commit_timestamp"])
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


@pytest.mark.parametrize(
    "range_",
    [
        {},
        {"starting_version": 2},
        {"starting_version": 1, "ending_version": 3},
        {"starting_version": 4, "ending_version": 4},
        {"ending_version": 99},
        {"predicate": "_change_type = 'delete'"},
        {"predicate": "part = 'a' AND value > 1"},
        {"predicate": "id > 3 and _commit_version > 0", "columns": ["id", "_commit_version"]},
        {"columns": ["_change_type", "id"]},
    ],
    ids=str,
)
def test_the_feed_is_that_of_delta_rs(table: Path, engine: Any, range_: dict[str, Any]) -> None:
    delta_rs_feed = deltalake.DeltaTable(table).load_cdf(**range_)
    our_feed = DeltaTable(table, engine=engine).load_cdf(**range_)
    assert rows_of(our_feed) == rows_of(delta_rs_feed)


def test_change_files_in_folders_with_escaped_names(tmp_path: Path, engine: Any) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "part": ["b=/ü", "50% #"]})
    deltalake.write_deltalake(uri, rows, partition_by=["part"], configuration=ON)
    deltalake.DeltaTable(uri).update(updates={"id": "id + 10"})
    assert rows_of(DeltaTable(uri, engine=engine).load_cdf(starting_version=1)) == [
        ("update_postimage", 1, 11, "b=/ü"),
        ("update_postimage", 1, 12, "50% #"),
        ("update_preimage", 1, 1, "b=/ü"),
        ("update_preimage", 1, 2, "50% #"),
    ]


def test_columns_are_those_of_the_protocol(table: Path, engine: Any) -> None:
    feed = DeltaTable(table, engine=engine).load_cdf()
    schema = feed.toArrow().schema if engine.name == "spark" else feed.schema
    assert schema.names == ["id", "part", "value", "_change_type", "_commit_version", "_commit_timestamp"]
    assert schema.field("_change_type").type == pa.string()
    assert schema.field("_commit_version").type == pa.int64()
    assert pa.types.is_timestamp(schema.field("_commit_timestamp").type)
    assert DeltaTable(table).load_cdf(columns=["_commit_version", "id"]).schema.names == ["_commit_version", "id"]


def test_times_are_those_of_the_commits(table: Path, engine: Any) -> None:
    log = sorted((table / "_delta_log").glob("0*.json"))
    for version, commit in enumerate(log):
        os.utime(commit, (1_700_000_000 + version * 10, 1_700_000_000 + version * 10 + 0.5))
    feed = DeltaTable(table, engine=engine).load_cdf()
    rows = collected(feed)
    moments = rows["_commit_timestamp"].cast(pa.timestamp("us", "UTC")).to_pylist()
    for version, moment in zip(rows["_commit_version"].to_pylist(), moments, strict=True):
        assert moment == dt.datetime.fromtimestamp(log[version].stat().st_mtime, dt.UTC)


def test_only_requested_commits_are_read_for_their_in_commit_times(tmp_path: Path) -> None:
    for number in range(9):
        write_deltalake(
            tmp_path,
            pa.table({"id": [number]}),
            mode="append",
            configuration={**ON, "delta.enableInCommitTimestamps": "true"} if not number else None,
        )
    DeltaTable(tmp_path).create_checkpoint()  # so that the latest version is read without the commits
    every = commit_range(open_store(str(tmp_path)), 0, None, None, None)
    reads: list[str] = []
    store = FaultStore(tmp_path, before={"read": reads.append, "open_input": reads.append})
    for ending, requested in ((7, range(6, 8)), (None, range(6, 9))):
        reads.clear()
        assert commit_range(store, 6, ending, None, None).times == every.times[6 : requested.stop]
        assert [path for path in reads if path.endswith(".json")] == [file_names.commit(v) for v in requested]


def test_the_arrow_engine_streams_commits_in_order(table: Path) -> None:
    versions = DeltaTable(table).load_cdf().read_all()["_commit_version"]
    assert pc.all(pc.equal(pc.sort_indices(versions), pa.array(range(len(versions)), pa.uint64()))).as_py()


def test_a_table_open_at_an_old_version_returns_all_changes(table: Path) -> None:
    old = DeltaTable(table, version=1).load_cdf()
    assert rows_of(old) == rows_of(deltalake.DeltaTable(table, version=1).load_cdf())


class TestTimes:
    @pytest.fixture
    def timed(self, tmp_path: Path) -> Path:
        """A table with versions 0 to 3, ten seconds apart."""
        for version in range(4):
            rows = pa.table({"id": [version]})
            deltalake.write_deltalake(tmp_path / "t", rows, mode="append", configuration=None if version else ON)
            os.utime(tmp_path / f"t/_delta_log/{version:020}.json", (1_700_000_000 + version * 10,) * 2)
        return tmp_path / "t"

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (10, None, [1, 2, 3]),
            (10.001, None, [2, 3]),
            (-100, 20, [0, 1, 2]),
            (5, 29.999, [1, 2]),
            (11, 19, []),
            (None, -1, []),
            (10.0004, None, [2, 3]),  # a commit has whole milliseconds, and a bound is not rounded to them
            (None, 19.9996, [0, 1]),
            (19.9996, 19.9998, []),
        ],
    )
    def test_bounds_are_at_or_after_and_at_or_before(
        self, timed: Path, start: float | None, end: float | None, expected: list[int]
    ) -> None:
        bounds = [None if at is None else dt.datetime.fromtimestamp(1_700_000_000 + at, dt.UTC) for at in (start, end)]
        table = DeltaTable(timed)
        for since, until in (bounds, [None if b is None else b.isoformat() for b in bounds]):
            feed = table.load_cdf(starting_timestamp=since, ending_timestamp=until)
            assert [row["_commit_version"] for row in feed.read_all().to_pylist()] == expected

    def test_a_text_without_a_zone_is_utc(self, timed: Path) -> None:
        feed = DeltaTable(timed).load_cdf(starting_timestamp="2023-11-14T22:13:40")
        assert feed.read_all()["_commit_version"].to_pylist() == [2, 3]

    def test_a_start_in_the_future(self, timed: Path) -> None:
        table = DeltaTable(timed)
        with pytest.raises(VersionNotFoundError, match="after the latest version 3"):
            table.load_cdf(starting_timestamp="2100-01-01T00:00:00Z")
        assert not len(table.load_cdf(starting_timestamp="2100-01-01T00:00:00Z", allow_out_of_range=True).read_all())

    @pytest.mark.parametrize(
        "bounds",
        [
            {"starting_timestamp": "yesterday"},
            {"starting_version": -1},
            {"starting_version": True},
            {"ending_version": 1.5},
            {"starting_version": None},
            {"starting_version": 3, "ending_version": 2},
            {"starting_timestamp": "2024-01-01", "ending_timestamp": "2023-01-01"},
        ],
        ids=str,
    )
    def test_bounds_that_are_not_valid_are_refused(self, timed: Path, bounds: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match=str(timed)):
            DeltaTable(timed).load_cdf(**bounds)


def test_a_start_past_the_latest_version(table: Path, engine: Any) -> None:
    opened = DeltaTable(table, engine=engine)
    with pytest.raises(VersionNotFoundError, match="allow_out_of_range"):
        opened.load_cdf(starting_version=30)
    assert rows_of(opened.load_cdf(starting_version=30, allow_out_of_range=True)) == []


def test_the_hint_names_a_version_that_can_be_read(tmp_path: Path) -> None:
    for version in range(6):
        rows = pa.table({"id": [version]})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", configuration=None if version else ON)
    DeltaTable(tmp_path / "t").create_checkpoint()
    for version in range(4):
        (tmp_path / f"t/_delta_log/{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError, match=r"commit 0 was cleaned up.*Start at version 4 or later"):
        DeltaTable(tmp_path / "t").load_cdf(starting_version=0, ending_version=1)


@pytest.fixture
def every_ten_seconds(tmp_path: Path) -> DeltaTable:
    """Six appends, ten seconds apart."""
    for version in range(6):
        write_deltalake(tmp_path, pa.table({"id": [version]}), mode="append", configuration=None if version else ON)
        os.utime(tmp_path / file_names.commit(version), (1_700_000_000 + version * 10,) * 2)
    table = DeltaTable(tmp_path)
    table.create_checkpoint()
    return table


def clean_up(table: DeltaTable, versions: int) -> None:
    for version in range(versions):
        (Path(table.table_uri) / file_names.commit(version)).unlink()


@pytest.mark.parametrize(
    "bounds",
    [
        {"starting_version": 2, "ending_timestamp": "2023-11-14T22:13:50Z"},
        {"starting_timestamp": "2023-11-14T22:13:35Z", "ending_timestamp": "2023-11-14T22:13:50Z"},
        {"starting_timestamp": "2023-11-14T22:13:35Z", "ending_version": 3},
    ],
    ids=str,
)
def test_a_range_before_the_oldest_commit_is_refused(every_ten_seconds: DeltaTable, bounds: dict[str, Any]) -> None:
    table = every_ten_seconds
    assert table.load_cdf(**bounds).read_all()["_commit_version"].to_pylist() == [2, 3]
    clean_up(table, 4)
    with pytest.raises(VersionNotFoundError, match=r"commit [23] was cleaned up.*Start at version 4 or later"):
        table.load_cdf(**bounds)
    assert not table.load_cdf(4, ending_timestamp="2023-11-14T22:13:50Z").read_all()


def test_a_start_after_the_end_is_an_empty_range(every_ten_seconds: DeltaTable) -> None:
    clean_up(every_ten_seconds, 4)
    for bounds in (
        {"starting_timestamp": "2023-11-14T22:14:05Z", "ending_version": 3},
        {"starting_timestamp": "2024-01-01", "ending_version": 3, "allow_out_of_range": True},
    ):
        assert not every_ten_seconds.load_cdf(**bounds).read_all()


def test_unknown_columns(table: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="nope"):
        DeltaTable(table).load_cdf(columns=["nope"])
    with pytest.raises(InvalidPredicateError, match="nope"):
        DeltaTable(table).load_cdf(predicate="nope = 1")


def test_versions_without_a_feed_are_refused(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    deltalake.write_deltalake(uri, pa.table({"id": [1]}))
    deltalake.DeltaTable(uri).alter.set_table_properties(ON)
    deltalake.write_deltalake(uri, pa.table({"id": [2]}), mode="append")
    deltalake.DeltaTable(uri).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    deltalake.write_deltalake(uri, pa.table({"id": [3]}), mode="append")
    table = DeltaTable(uri)
    for range_, version in (({}, 0), ({"starting_version": 1}, 3), ({"starting_version": 4}, 4)):
        with pytest.raises(DeltaProtocolError, match=f"no change data feed at version {version}") as refused:
            table.load_cdf(**range_)
        assert refused.value.version == version
    assert table.load_cdf(1, 2).read_all()["id"].to_pylist() == [2]


def test_columns_are_null_before_they_were_added(tmp_path: Path, engine: Any) -> None:
    uri = tmp_path / "t"
    deltalake.write_deltalake(uri, pa.table({"id": [1]}), configuration=ON)
    deltalake.write_deltalake(uri, pa.table({"id": [2], "new": ["x"]}), mode="append", schema_mode="merge")
    our_feed = DeltaTable(uri, engine=engine).load_cdf()
    assert rows_of(our_feed) == rows_of(deltalake.DeltaTable(uri).load_cdf())
    # A range that ends before the column was added does not have it.
    assert "new" not in DeltaTable(uri).load_cdf(ending_version=0).schema.names


def test_a_change_of_type_is_refused_by_name(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    deltalake.write_deltalake(uri, pa.table({"id": [1], "x": ["one"]}), configuration=ON)
    rows = pa.table({"id": [2], "x": [2]})
    deltalake.write_deltalake(uri, rows, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaMismatchError, match="x was string and is long"):
        DeltaTable(uri).load_cdf()
    # The overwrite removes rows that have the old schema.
    with pytest.raises(SchemaMismatchError, match="version 1"):
        DeltaTable(uri).load_cdf(starting_version=1)
    assert DeltaTable(uri).load_cdf(ending_version=0).read_all()["x"].to_pylist() == ["one"]


def test_a_column_of_the_feeds_name_is_refused(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"_change_type": ["x"]})
    deltalake.write_deltalake(uri, rows)
    with pytest.raises((DeltaProtocolError, InvalidArgumentError)):
        DeltaTable(uri).load_cdf()


def test_a_table_with_changed_partitioning(tmp_path: Path, engine: Any) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "day": ["mon", "tue"]})
    deltalake.write_deltalake(uri, rows, partition_by=["day"], configuration=ON)
    deltalake.write_deltalake(uri, rows, mode="overwrite", schema_mode="overwrite", partition_by=["id"])
    changes = [(row[0], row[1], row[-1]) for row in rows_of(DeltaTable(uri, engine=engine).load_cdf())]
    assert sorted(changes) == sorted(
        [("insert", 0, 1), ("insert", 0, 2), ("delete", 1, 1), ("delete", 1, 2), ("insert", 1, 1), ("insert", 1, 2)]
    )
    days = {(row[2], row[3]) for row in rows_of(DeltaTable(uri, engine=engine).load_cdf())}
    assert days == {("mon", 1), ("tue", 2)}


def test_a_partition_column_that_did_not_exist_is_refused(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "day": ["mon", "tue"]})
    deltalake.write_deltalake(uri, rows, partition_by=["day"], configuration=ON)
    deltalake.write_deltalake(uri, rows, mode="overwrite", schema_mode="overwrite", partition_by=["id"])
    first = uri / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('"partitionColumns":["day"]', '"partitionColumns":["true"]'))
    with pytest.raises(LogCorruptedError, match=r"partitioned by 'true'.*version 0"):
        DeltaTable(uri).load_cdf()


@pytest.mark.parametrize(
    ("then", "now", "fits"),
    [
        ("integer", "long", True),
        ("float", "double", True),
        ("integer", "decimal(12,2)", True),
        ("decimal(4,1)", "decimal(6,2)", True),
        ("void", "string", True),
        ("long", "integer", False),
        ("string", "integer", False),
        ("decimal(6,2)", "decimal(6,1)", False),
    ],
)
def test_only_widened_types_are_read(tmp_path: Path, then: str, now: str, fits: bool) -> None:
    DeltaTable.create(tmp_path / "t", Schema([Field("x", now)]), configuration=ON)
    end = load_snapshot(open_store(tmp_path / "t"))
    before = end.metadata.with_schema(Schema([Field("x", then)]).to_json())
    if fits:
        check_readable_as(end, before, 0)
    else:
        with pytest.raises(SchemaMismatchError, match=re.escape(f"x was {then} and is {now}")):
            check_readable_as(end, before, 0)
