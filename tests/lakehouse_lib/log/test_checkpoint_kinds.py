"""All kinds of checkpoints have the same content; a broken one is ignored; delta-rs and DuckDB agree."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
from lakehouse_lib.log import file_names, latest_version
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.segment import Compaction, load_segment
from lakehouse_lib.protocol.actions import DomainMetadata, Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.checkpoint_files import put_classic, put_compaction, put_parts, put_sidecar, put_v2
from tests.log_builder import METADATA, SCHEMA, add_of_row, protocol, put, remove
from tests.peers import files_delta_rs, plain, read_duckdb
from tests.table_builder import paths_of

V2 = protocol("v2Checkpoint", writer=["domainMetadata"])
LEGACY = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
META = {"metaData": METADATA | {"configuration": {"delta.checkpointPolicy": "v2"}}}
TXN = {"txn": {"appId": "app", "version": 7, "lastUpdated": 5}}
DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
AT = 3  # the checkpoint's version


@pytest.fixture
def table(tmp_path):
    """Versions 0 to 4, each with new files of real rows; 2 removes a file of 1, and 4 one of 0. No checkpoint yet."""
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    for version in range(5):
        actions = [add_of_row(store, f"f{version}-{n}.parquet", 10 * version + n) for n in range(3)]
        if version == 0:
            actions = [V2, META, TXN, DOMAIN, *actions]
        if version == 2:
            actions.append(remove("f1-0.parquet"))
        if version == 4:
            actions.append(remove("f0-1.parquet"))
        put(store, version, *actions)
    return store


def _few():
    return [V2, META, TXN, DOMAIN]


def _files(store, version=AT):
    """The adds and removes of a version, from its commits."""
    adds, removes = {}, {}
    for number in range(version + 1):
        for line in store.read(file_names.commit(number)).splitlines():
            action = json.loads(line)
            if "add" in action:
                adds[action["add"]["path"]] = action
            if "remove" in action:
                adds.pop(action["remove"]["path"])
                removes[action["remove"]["path"]] = action
    files = [*adds.values(), *removes.values()]
    random.Random(1).shuffle(files)
    return files


def _classic(store):
    return [put_classic(store, AT, [*_few(), *_files(store)])]


def _classic_mixed(store):
    files = _files(store)
    return [put_classic(store, AT, [*files[:4], *_few(), *files[4:]], row_group=3)]


def _classic_without_footer_statistics(store):
    return [put_classic(store, AT, [*_few(), *_files(store)], row_group=4, statistics=False)]


def _parts(store):
    files = _files(store)
    return put_parts(store, AT, [files[:3], [*_few(), *files[3:5]], files[5:]])


def _classic_named_v2(store):
    files = _files(store)
    sidecars = [put_sidecar(store, files[:5]), put_sidecar(store, files[5:])]
    return [put_classic(store, AT, [{"checkpointMetadata": {"version": AT}}, *_few(), *sidecars])]


def _v2_parquet(store):
    return [put_v2(store, AT, "parquet", [*_few(), put_sidecar(store, _files(store), row_group=2)])]


def _v2_json(store):
    files = _files(store)
    spelled = f"file://{store.root}/_delta_log/_sidecars/{{name}}"
    return [put_v2(store, AT, "json", [*_few(), put_sidecar(store, files[:4]), put_sidecar(store, files[4:], spelled)])]


def _v2_json_without_sidecars(store):
    return [put_v2(store, AT, "json", [*_few(), *_files(store)])]


def _v2_parquet_without_sidecars(store):
    return [put_v2(store, AT, "parquet", [*_few(), *_files(store)])]


KINDS = [
    _classic,
    _classic_mixed,
    _classic_without_footer_statistics,
    _parts,
    _classic_named_v2,
    _v2_parquet,
    _v2_json,
    _v2_json_without_sidecars,
    _v2_parquet_without_sidecars,
]


def _cut(store):
    """Delete the commits up to the checkpoint, so that only the checkpoint has their actions."""
    store.delete_many([file_names.commit(version) for version in range(AT + 1)])


def _state(store, version=None):
    snapshot = load_snapshot(store, version)
    rows = snapshot.files.sort_by("path").to_pylist()
    removed = sorted(snapshot.tombstones["path"].to_pylist())
    return snapshot.metadata, snapshot.protocol, snapshot.transactions, snapshot.domains, rows, removed


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_the_commits_say(table, kind):
    expected = {version: _state(table, version) for version in (AT, 4)}
    kind(table)
    _cut(table)
    assert load_snapshot(table).checkpoint_version == AT
    assert {version: _state(table, version) for version in (AT, 4)} == expected
    assert load_snapshot(table, AT).update().file_count == len(expected[4][4])
    assert expected[4][2:4] == ({"app": Transaction("app", 7, 5)}, {"d": DomainMetadata("d", "{}")})
    with pytest.raises(VersionNotFoundError, match="cleaned up"):
        load_snapshot(table, AT - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_others_read_the_same_rows(table, kind):
    kind(table)
    _cut(table)
    our_rows = plain(DeltaTable(table.root).to_pyarrow_table())
    assert our_rows["id"].to_pylist() == [0, 2, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42]
    assert our_rows.equals(read_duckdb(table.root))
    assert files_delta_rs(table.root) == {Path(table.root, path) for path in paths_of(load_snapshot(table))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_any_kind_counts_for_the_latest_version(table, kind):
    kind(table)
    _cut(table)
    table.delete_many([file_names.commit(4)])
    assert load_snapshot(table).version == AT
    if kind is not _parts:
        assert latest_version(table) == AT


@pytest.mark.parametrize("broken", [b"", b"PAR1", b"{", b'{"add": {"size": 1}}\n', "truncated", "sidecar"])
@pytest.mark.parametrize("kind", [_classic, _parts, _v2_parquet, _v2_json, _classic_named_v2])
def test_an_unreadable_checkpoint_is_passed_over_for_the_commits(table, kind, broken):
    expected = _state(table)
    path = kind(table)[0]
    if broken == "sidecar":
        table.delete_many([meta.path for meta in table.list_from(file_names.SIDECARS)])
    else:
        table.put(path, table.read(path)[:-9] if broken == "truncated" else broken)
    assert _state(table) == expected


@pytest.mark.parametrize("kind", [_classic, _v2_parquet, _parts])
def test_pages_that_turn_out_torn_are_passed_over_when_they_are_read(table, kind):
    expected = _state(table)
    kind(table)
    for meta in [*table.list_from(file_names.LOG), *table.list_from(file_names.SIDECARS)]:
        if meta.path.endswith(".parquet"):
            data = bytearray(table.read(meta.path))
            column = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0)
            index = next(i for i in range(column.num_columns) if column.column(i).path_in_schema == "add.path")
            start = column.column(index).dictionary_page_offset or column.column(index).data_page_offset
            data[start : start + 8] = b"\xff" * 8
            table.put(meta.path, bytes(data))
    snapshot = load_snapshot(table)
    assert snapshot.checkpoint_version == AT
    assert _state(table) == expected
    assert sorted(snapshot.files["path"].to_pylist()) == [row["path"] for row in expected[4]]
    assert snapshot.checkpoint_version is None
    _cut(table)
    with pytest.raises(LogCorruptedError, match=r"checkpoint .* cannot be read .*version 3.*restore it"):
        _ = load_snapshot(table).files


@pytest.mark.parametrize("kind", [_classic, _v2_parquet, _parts])
def test_text_that_is_no_utf8_is_no_checkpoint(table, kind):
    expected = _state(table)
    kind(table)
    spoiled = 0
    for meta in [*table.list_from(file_names.LOG), *table.list_from(file_names.SIDECARS)]:
        if meta.path.endswith(".parquet"):
            sink = pa.BufferOutputStream()
            pq.write_table(pq.read_table(pa.BufferReader(table.read(meta.path))), sink, compression="none")
            data = sink.getvalue().to_pybytes()
            spoiled += data.count(b"f2-1.parquet")
            table.put(meta.path, data.replace(b"f2-1.parquet", b"f\xff-1.parquet"))
    assert spoiled
    assert sorted(Path(uri).name for uri in DeltaTable(table.root).file_uris()) == [row["path"] for row in expected[4]]
    _cut(table)
    with pytest.raises(LogCorruptedError, match=r"checkpoint .* cannot be read .*UTF"):
        DeltaTable(table.root).file_uris()


def _with_views(kind):
    """The type with views instead of strings."""
    if pa.types.is_string(kind):
        return pa.string_view()
    if pa.types.is_map(kind):
        return pa.map_(_with_views(kind.key_type), _with_views(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_with_views(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(_with_views(member.type)) for member in kind])
    return kind


@pytest.mark.parametrize("kind", KINDS)
def test_text_may_be_in_views(table, kind):
    expected = _state(table)
    kind(table)
    for meta in [*table.list_from(file_names.LOG), *table.list_from(file_names.SIDECARS)]:
        if meta.path.endswith(".parquet"):
            actions = pq.read_table(pa.BufferReader(table.read(meta.path)))
            schema = pa.schema([column.with_type(_with_views(column.type)) for column in actions.schema])
            sink = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist(actions.to_pylist(), schema), sink)
            table.put(meta.path, sink.getvalue().to_pybytes())
    assert DeltaTable(table.root).repair()["checkpoints_unreadable"] == {}
    _cut(table)
    assert _state(table) == expected
    DeltaTable(table.root).create_checkpoint()  # without expired removes
    assert _state(table)[:5] == expected[:5]


def test_of_several_checkpoints_of_a_version_any_complete_one_will_do(table):
    expected = _state(table)
    for kind in KINDS:
        kind(table)
    _cut(table)
    assert _state(table) == expected
    # One checkpoint after the other disappears or breaks, until none is left.
    checkpoints = [meta.path for meta in table.list_from(file_names.LOG) if ".checkpoint." in meta.path]
    random.Random(2).shuffle(checkpoints)
    for number, path in enumerate(checkpoints[:-1]):
        _destroy(table, path, by_tearing=bool(number % 2))
        if not any(_is_complete(table, other) for other in checkpoints[number + 1 :]):
            break
        assert _state(table) == expected, path
    for path in checkpoints:
        _destroy(table, path, by_tearing=True)
    with pytest.raises(LogCorruptedError, match=r"cannot be read|is missing"):
        load_snapshot(table)


def _destroy(store, path, *, by_tearing):
    if by_tearing:
        store.put(path, b"torn")
    else:
        store.delete_many([path])


def _is_complete(store, path):
    parts = file_names.parse(path).parts
    if not parts:
        return True
    paths = [
        file_names.checkpoint(AT).replace(".parquet", f".{n:010d}.{parts:010d}.parquet") for n in range(1, parts + 1)
    ]
    return all(store.head(part) is not None and store.read(part) != b"torn" for part in paths)


def test_a_missing_or_torn_part_sends_readers_to_an_older_checkpoint(table):
    expected = _state(table)
    put_classic(table, 1, [*_few(), *_files(table, 1)])
    parts = _parts(table)
    table.delete_many([parts[1], file_names.commit(0), file_names.commit(1)])
    assert load_segment(table).checkpoint.version == 1
    assert _state(table) == expected
    table.put(parts[1], b"torn")
    assert _state(table) == expected
    assert load_snapshot(table).checkpoint_version == 1


def test_checkpoint_columns_that_are_missing_are_null(table):
    put_classic(
        table, AT, [*_few(), *_files(table)], without=["remove", "txn", "sidecar", "add.stats", "add.deletionVector"]
    )
    _cut(table)
    snapshot = load_snapshot(table, AT)
    assert len(snapshot.files) == 11
    assert snapshot.files["stats"].null_count == snapshot.files["deletionVector"].null_count == 11
    assert (len(snapshot.tombstones), snapshot.transactions) == (0, {})


@pytest.mark.parametrize(
    "without", ["add.path", "metaData", "protocol", "metaData.schemaString", "protocol.minReaderVersion"]
)
def test_a_checkpoint_without_what_it_must_have_is_an_error_of_ours(table, without):
    put_classic(table, AT, [*_few(), *_files(table)], without=[without])
    _cut(table)
    with pytest.raises(LogCorruptedError, match=r"version \d"):
        _ = load_snapshot(table).files


@pytest.mark.parametrize("crc", [None, b"", b"{", b'{"tableSizeBytes":1,"numFiles":999,"metadata":{},"protocol":{}}'])
def test_checksum_files_change_no_read(table, crc):
    expected = _state(table)
    for version in range(5):
        if crc is not None:
            table.put(f"{file_names.LOG}/{version:020d}.crc", crc)
    assert _state(table) == expected


# Log compactions.


def _compacted(store, start, end):
    """Write a log compaction of the commits ``start`` to ``end``, reconciled."""
    actions = {}
    for number in range(start, end + 1):
        for line in store.read(file_names.commit(number)).splitlines():
            action = json.loads(line)
            ((kind, body),) = action.items()
            if kind != "commitInfo":
                actions[body.get("path", kind)] = action
    return put_compaction(store, start, end, list(actions.values()))


def test_a_compaction_stands_for_its_commits(table, monkeypatch):
    expected = {version: _state(table, version) for version in range(5)}
    _compacted(table, 0, 1)
    _compacted(table, 1, 4)
    _compacted(table, 2, 3)
    read = []
    real = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: read.append(path) or real(self, path))
    assert {version: _state(table, version) for version in range(5)} == expected
    assert [d.version for d in load_segment(table).deltas] == [1, 3, 4]
    read.clear()
    CACHE.clear()
    load_snapshot(table)
    assert [path for path in read if path.endswith(".json")] == [
        file_names.compaction(0, 1),
        file_names.compaction(2, 3),
        file_names.commit(4),
    ]
    assert load_snapshot(table, 0).update().version == 4


def test_a_compaction_keeps_removes_of_files_before_it(table):
    put_classic(table, 1, [*_few(), *_files(table, 1)])
    _compacted(table, 2, 4)
    table.delete_many([file_names.commit(0), file_names.commit(1)])
    assert isinstance(load_segment(table).deltas[0], Compaction)
    assert paths_of(load_snapshot(table)) == sorted(
        {f"f{v}-{n}.parquet" for v in range(5) for n in range(3)} - {"f1-0.parquet", "f0-1.parquet"}
    )
    assert sorted(load_snapshot(table).tombstones["path"].to_pylist()) == ["f0-1.parquet", "f1-0.parquet"]
    assert plain(DeltaTable(table.root).to_pyarrow_table()).equals(read_duckdb(table.root))


@pytest.mark.parametrize("broken", [b"", b"{", b'{"add": {"size": 1}}\n', "duplicate"])
def test_an_unreadable_compaction_is_passed_over(table, broken):
    expected = _state(table)
    path = _compacted(table, 0, 3)
    table.put(path, table.read(path) * 2 if broken == "duplicate" else broken)
    assert _state(table) == expected


def test_a_compaction_that_does_not_fit_is_ignored(table):
    expected = _state(table)
    put_classic(table, 2, [*_few(), *_files(table, 2)])
    _compacted(table, 1, 3)  # starts before the checkpoint
    put_compaction(table, 4, 9, [remove("f0-0.parquet")])  # ends after the log
    put_compaction(table, 3, 3, [remove("f0-0.parquet")])  # replaces one commit only
    assert [d.version for d in load_segment(table).deltas] == [3, 4]
    assert _state(table) == expected


def test_a_compaction_says_the_time_of_its_last_commit(table):
    before = load_snapshot(table).timestamp
    os.utime(f"{table.root}/{_compacted(table, 0, 4)}", (1, 1))
    assert load_snapshot(table).timestamp == before


def test_a_domain_that_a_compaction_removes_stays_away(table):
    put_classic(table, 1, [*_few(), *_files(table, 1)])
    gone = {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}
    put_compaction(table, 2, 3, [gone, remove("f1-0.parquet")])
    assert load_snapshot(table).domains == {}


def test_the_schema_is_the_one_of_the_hand_made_tables(table):
    assert load_snapshot(table).metadata.schema_string == SCHEMA
