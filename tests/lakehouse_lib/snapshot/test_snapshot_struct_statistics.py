"""Struct statistics of a checkpoint equal the JSON statistics, and footers equal their row groups."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.expressions import parse
from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.checkpoint.footer.parquet_footer import _Compact
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.statistics import bounds_of, struct_bounds
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.checkpoint_files import put_classic
from tests.days_table import META, PARSED, PROTOCOL, file, record_reads
from tests.log_builder import add, field, metadata, put, struct
from tests.table_builder import paths_of


@pytest.fixture
def reads(monkeypatch):
    return record_reads(monkeypatch)


moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(microsecond=0))
cells = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "moment": st.none() | moments.map(lambda at: at.replace(tzinfo=UTC)),
        "text": st.none() | st.text('aé€𐍈"\\\n', max_size=3),
        "price": st.none() | st.decimals(-(10**17), 10**17, places=2),
    }
)
rows = st.fixed_dictionaries(
    {
        "numRecords": st.none() | st.integers(0, 3),
        "tightBounds": st.none() | st.booleans(),
        "minValues": st.none() | cells,
        "maxValues": st.none() | cells,
        "nullCount": st.none()
        | st.fixed_dictionaries({name: st.none() | st.integers(0, 3) for name in ("id", "moment", "text", "price")}),
    }
)


@given(st.lists(st.none() | rows, min_size=1, max_size=5))
def test_both_forms_of_statistics_give_the_same_bounds(stored):
    structs = pa.array(stored, PARSED)
    as_json = pa.table({"stats": pa.array([_json(row) for row in stored], pa.string())})
    fields = Schema.from_json(META["metaData"]["schemaString"]).fields
    kinds = {(field.name,): field.type for field in fields if field.name != "day"}
    by_struct, by_json = struct_bounds(structs, kinds), bounds_of(as_json, kinds)
    for path in kinds:
        for part in ("min", "max", "null_count", "num_records"):
            assert getattr(by_struct[path], part).to_pylist() == getattr(by_json[path], part).to_pylist(), (path, part)


def _json(row):
    if row is None:
        return None

    def plain(value):
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(k)}:{plain(v)}" for k, v in value.items() if v is not None) + "}"
        if isinstance(value, datetime):
            return json.dumps(value.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        return json.dumps(value) if isinstance(value, (str, int, bool)) else f"{value:f}"

    return plain(row)


@pytest.mark.parametrize("without", [["add.stats"], []])
def test_struct_statistics_prune_and_only_their_leaves_are_read(tmp_path, reads, without):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    files = []
    for number in range(40):
        action = file(number)
        stats = json.loads(action["add"]["stats"])
        # Every fourth file has only JSON statistics, or none.
        action["add"]["stats_parsed"] = stats if number % 4 else None
        files.append(action)
    put_classic(store, 1, [PROTOCOL, META, *files], row_group=21, stats_parsed=PARSED, without=without)
    cache.CACHE.clear()
    snapshot = load_snapshot(store)
    paths = snapshot.prune(parse("id BETWEEN 100 AND 129", snapshot.schema), ["path"])["path"].to_pylist()
    unknown = {f"f{n:03d}" for n in range(0, 40, 4)} if without else set()
    assert set(paths) == {"f010", "f011", "f012"} | unknown
    parsed = {leaf for leaf, _ in reads if leaf.startswith("add.stats_parsed")}
    assert parsed == {
        f"add.stats_parsed.{leaf}"
        for leaf in ("numRecords", "tightBounds", "minValues.id", "maxValues.id", "nullCount.id")
    }
    assert any(leaf == "add.stats" for leaf, _ in reads) is not bool(without)
    texts = [stats for stats in snapshot.files["stats"].to_pylist() if stats is not None]
    assert len(texts) == (30 if without else 40)
    assert all(json.loads(stats)["numRecords"] == 10 for stats in texts)


@pytest.fixture
def clustered(tmp_path):
    """Forty files with struct statistics and typed partition values, ten of one day in each row group."""
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    files = []
    for number in range(40):
        action = file(number)
        low = number * 10
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
        stats = {"id": low, "moment": moment, "text": f"t{low:03d}", "price": None}
        action["add"]["stats_parsed"] = {
            "numRecords": 10,
            "minValues": stats,
            "maxValues": stats | {"id": low + 9},
            "nullCount": {"id": 0, "moment": 0, "text": 0, "price": 10},
        }
        action["add"]["partitionValues_parsed"] = {"day": date(2026, 1, 1 + number // 10)}
        files.append(action)
    files = [*files[:9], PROTOCOL, *files[9:], META]
    put_classic(store, 1, files, row_group=10, stats_parsed=PARSED, partitions_parsed=pa.struct({"day": pa.date32()}))
    cache.CACHE.clear()
    return load_snapshot(store)


@pytest.mark.parametrize(
    ("condition", "paths", "groups"),
    [
        ("id = 155", ["f015"], {1}),
        ("id < 95 AND id >= 80", ["f008", "f009"], {0, 1}),  # the protocol action's row moves f009 to the next group
        ("id > 1000", [], set()),
        ("moment > timestamp '2026-01-02 14:30:00'", ["f039"], {3, 4}),
        ("price = 3", [], None),  # a footer without a min does not help, but the files' null counts do
        ("text = 't150'", ["f015"], None),
        ("day = date '2026-01-04' AND id < 305", ["f030"], {1, 2, 3}),  # a group with two days does not show the day
        ("day > date '2026-01-09'", [], None),
    ],
)
def test_row_groups_are_skipped_by_their_footers(clustered, reads, condition, paths, groups):
    assert clustered.prune(parse(condition, clustered.schema), ["path"])["path"].to_pylist() == paths
    judged = {block for leaf, block in reads if leaf.startswith("add.stats_parsed") or leaf == "add.stats"}
    assert groups is None or judged <= groups
    assert groups != set() or not any(leaf.startswith("add.stats") for leaf, _ in reads)


def test_a_footer_does_not_prune_a_file_of_unknown_statistics(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    file_with_stats = file(1)
    file_with_stats["add"]["stats_parsed"] = {"numRecords": 10, "minValues": {"id": 10}, "maxValues": {"id": 19}}
    unknown = file(50, stats=None)
    put_classic(store, 1, [PROTOCOL, META, file_with_stats, unknown], stats_parsed=PARSED)
    snapshot = load_snapshot(store)
    assert snapshot.prune(parse("id = 500", snapshot.schema))["path"].to_pylist() == ["f050"]
    assert paths_of(snapshot) == ["f001", "f050"]
    # The same for a footer without null counts, which are optional.
    path = file_names.checkpoint(1)
    store.put(path, _without_null_counts(store.read(path)))
    snapshot = load_snapshot(store)
    assert snapshot.prune(parse("id = 500", snapshot.schema))["path"].to_pylist() == ["f050"]


def test_a_file_whose_bounds_cross_is_kept_unless_its_whole_row_group_lies_elsewhere(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    files = [file(0), file(1)]
    for action, low, high in ((files[0], 10, 5), (files[1], 0, 20)):
        action["add"]["stats_parsed"] = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}}
    put_classic(store, 1, [PROTOCOL, META, *files], stats_parsed=PARSED)
    snapshot = load_snapshot(store)
    for condition, paths in (("id = 1", ["f000", "f001"]), ("id = 100", [])):
        assert snapshot.prune(parse(condition, snapshot.schema), ["path"])["path"].to_pylist() == paths


def test_a_time_after_the_year_9999_does_not_fail_the_read(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    # 9999-12-31 23:59:59 west of Greenwich, which many tables use for "for ever".
    ends = {"minValues": {"moment": 0}, "maxValues": {"moment": 253_402_329_599_000_000}}
    body = file(1, stats=None, stats_parsed={"numRecords": 10, **ends})
    put_classic(store, 1, [PROTOCOL, META, body], stats_parsed=PARSED)
    snapshot = load_snapshot(store)
    for condition, count in (("moment > timestamp '2026-01-01 00:00:00'", 1), ("moment < timestamp '1960-01-01'", 0)):
        assert snapshot.prune(parse(condition, snapshot.schema), ["path"]).num_rows == count
    expected = {"numRecords": 10, "minValues": {"moment": "1970-01-01T00:00:00.000000Z"}, "maxValues": {}}
    assert [json.loads(stats) for stats in snapshot.files["stats"].to_pylist()] == [expected]


def test_a_footer_with_text_cut_inside_a_character_does_not_prune(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    head = metadata(field("p", "string"), partition_by=["p"])
    body = add("f", partitionValues={"p": "aé"}, partitionValues_parsed={"p": "aé"})
    kind = pa.struct({"p": pa.string()})
    path = put_classic(store, 1, [PROTOCOL, head, body], partitions_parsed=kind)
    data = store.read(path)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    store.put(path, data[:start] + data[start:].replace("aé".encode(), b"ab\xc3"))
    snapshot = load_snapshot(store)
    for condition, paths in (("p = 'aé'", ["f"]), ("p = 'x'", [])):
        assert snapshot.prune(parse(condition, snapshot.schema), ["path"])["path"].to_pylist() == paths


def test_a_name_with_a_dot_is_not_read_as_a_struct(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    head = metadata(field("a.b", "long"), field("a", struct(field("b", "long"))))
    values = {"a.b": 5, "a": {"b": 900}}
    stats = {"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": {"a.b": 0, "a": {"b": 0}}}
    leaves = pa.struct({"a.b": pa.int64(), "a": pa.struct({"b": pa.int64()})})
    kind = pa.struct({"numRecords": pa.int64()} | dict.fromkeys(("minValues", "maxValues", "nullCount"), leaves))
    body = add("f", stats=json.dumps(stats), stats_parsed=stats)
    put_classic(store, 1, [PROTOCOL, head, body], stats_parsed=kind)
    snapshot = load_snapshot(store)
    for condition, paths in (("`a.b` = 5", ["f"]), ("a.b = 900", ["f"]), ("`a.b` = 900", []), ("a.b = 5", [])):
        assert snapshot.prune(parse(condition, snapshot.schema), ["path"])["path"].to_pylist() == paths, condition
    shown = DeltaTable(tmp_path).get_add_actions()
    assert shown["min"].to_pylist() == shown["max"].to_pylist() == [values]


class _NullCounts(_Compact):
    """The start and the end of a footer's null counts (Statistics, field 3 of parquet.thrift)."""

    def __init__(self, footer):
        super().__init__(footer)
        self.places = []

    def _meta_data(self, _chunk):
        for member, kind in self._fields():
            if (member, kind) != (12, 12):
                self._skip(kind)
                continue
            number = 0
            while (header := self._data[self._at]) & 0x0F:
                start = self._at
                number, kind = self._field(header, number)
                self._skip(kind)
                if number == 3:
                    self.places.append((start, self._at))
            self._at += 1


def _without_null_counts(data):
    """The same Parquet object with its null counts turned into counts of distinct values."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    counts = _NullCounts(data[start:-8])
    counts.row_groups()
    assert counts.places
    changed = bytearray(data)
    for first, behind in counts.places:
        changed[start + first] += 0x10  # the high half byte is the difference to the previous field's number
        if changed[start + behind] & 0x0F:
            changed[start + behind] -= 0x10
    corrupted = bytes(changed)
    group = pq.ParquetFile(pa.BufferReader(corrupted)).metadata.row_group(0)
    statistics = [group.column(number).statistics for number in range(group.num_columns)]
    assert not any(chunk is not None and chunk.has_null_count for chunk in statistics)
    return corrupted
