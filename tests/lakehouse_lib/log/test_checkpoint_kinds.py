"""All kinds of checkpoints have the same content; a broken one is ignored; delta-rs and DuckDB agree."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
from lakehouse_lib.log import file_names, latest_version
from lakehouse_lib.log.segment import load_segment
from lakehouse_lib.protocol.actions import DomainMetadata, Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.table.delta_table import DeltaTable
from tests.checkpoint_files import put_classic, put_parts, put_sidecar, put_v2
from tests.lakehouse_lib.log.five_versions import AT, files_of, head, state_of
from tests.log_builder import SCHEMA
from tests.peers import files_delta_rs, plain, read_duckdb
from tests.slow_cases import some_slow
from tests.table_builder import paths_of


def _classic(store):
    return [put_classic(store, AT, [*head(), *files_of(store)])]


def _classic_mixed(store):
    files = files_of(store)
    return [put_classic(store, AT, [*files[:4], *head(), *files[4:]], row_group=3)]


def _classic_without_footer_statistics(store):
    return [put_classic(store, AT, [*head(), *files_of(store)], row_group=4, statistics=False)]


def _parts(store):
    files = files_of(store)
    return put_parts(store, AT, [files[:3], [*head(), *files[3:5]], files[5:]])


def _classic_named_v2(store):
    files = files_of(store)
    sidecars = [put_sidecar(store, files[:5]), put_sidecar(store, files[5:])]
    return [put_classic(store, AT, [{"checkpointMetadata": {"version": AT}}, *head(), *sidecars])]


def _v2_parquet(store):
    return [put_v2(store, AT, "parquet", [*head(), put_sidecar(store, files_of(store), row_group=2)])]


def _v2_json(store):
    files = files_of(store)
    spelled = f"file://{store.root}/_delta_log/_sidecars/{{name}}"
    return [put_v2(store, AT, "json", [*head(), put_sidecar(store, files[:4]), put_sidecar(store, files[4:], spelled)])]


def _v2_json_without_sidecars(store):
    return [put_v2(store, AT, "json", [*head(), *files_of(store)])]


def _v2_parquet_without_sidecars(store):
    return [put_v2(store, AT, "parquet", [*head(), *files_of(store)])]


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


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_checkpoint_gives_the_state_of_the_commits(table, kind):
    expected = {version: state_of(table, version) for version in (AT, 4)}
    kind(table)
    _cut(table)
    assert load_snapshot(table).checkpoint_version == AT
    assert {version: state_of(table, version) for version in (AT, 4)} == expected
    assert load_snapshot(table, AT).update().file_count == len(expected[4][4])
    assert expected[4][2:4] == ({"app": Transaction("app", 7, 5)}, {"d": DomainMetadata("d", "{}")})
    with pytest.raises(VersionNotFoundError, match="cleaned up"):
        load_snapshot(table, AT - 1)


@pytest.mark.parametrize("kind", some_slow(KINDS, 3))
def test_other_readers_read_the_same_rows(table, kind):
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
@pytest.mark.parametrize("kind", some_slow([_classic, _v2_parquet, _parts, _v2_json, _classic_named_v2], 2))
def test_an_unreadable_checkpoint_is_skipped_for_the_commits(table, kind, broken):
    expected = state_of(table)
    path = kind(table)[0]
    if broken == "sidecar":
        table.delete_many([meta.path for meta in table.list_from(file_names.SIDECARS)])
    else:
        table.put(path, table.read(path)[:-9] if broken == "truncated" else broken)
    assert state_of(table) == expected


@pytest.mark.parametrize("kind", [_classic, _v2_parquet, _parts])
def test_damaged_pages_are_skipped_when_they_are_read(table, kind):
    expected = state_of(table)
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
    assert state_of(table) == expected
    assert sorted(snapshot.files["path"].to_pylist()) == [row["path"] for row in expected[4]]
    assert snapshot.checkpoint_version is None
    _cut(table)
    with pytest.raises(LogCorruptedError, match=r"checkpoint .* cannot be read .*version 3.*restore it"):
        _ = load_snapshot(table).files


@pytest.mark.parametrize("kind", [_classic, _v2_parquet, _parts])
def test_a_checkpoint_with_text_that_is_not_utf8_is_skipped(table, kind):
    expected = state_of(table)
    kind(table)
    corrupted = 0
    for meta in [*table.list_from(file_names.LOG), *table.list_from(file_names.SIDECARS)]:
        if meta.path.endswith(".parquet"):
            sink = pa.BufferOutputStream()
            pq.write_table(pq.read_table(pa.BufferReader(table.read(meta.path))), sink, compression="none")
            data = sink.getvalue().to_pybytes()
            corrupted += data.count(b"f2-1.parquet")
            table.put(meta.path, data.replace(b"f2-1.parquet", b"f\xff-1.parquet"))
    assert corrupted
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


@pytest.mark.parametrize("kind", some_slow(KINDS, 3))
def test_text_may_be_in_views(table, kind):
    expected = state_of(table)
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
    assert state_of(table) == expected
    DeltaTable(table.root).create_checkpoint()  # without expired removes
    assert state_of(table)[:5] == expected[:5]


def test_any_complete_checkpoint_of_a_version_is_used(table):
    expected = state_of(table)
    for kind in KINDS:
        kind(table)
    _cut(table)
    assert state_of(table) == expected
    # One checkpoint after the other disappears or breaks, until none is left.
    checkpoints = [meta.path for meta in table.list_from(file_names.LOG) if ".checkpoint." in meta.path]
    random.Random(2).shuffle(checkpoints)
    for number, path in enumerate(checkpoints[:-1]):
        _destroy(table, path, by_tearing=bool(number % 2))
        if not any(_is_complete(table, other) for other in checkpoints[number + 1 :]):
            break
        assert state_of(table) == expected, path
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


def test_an_older_checkpoint_replaces_one_with_a_missing_or_damaged_part(table):
    expected = state_of(table)
    put_classic(table, 1, [*head(), *files_of(table, 1)])
    parts = _parts(table)
    table.delete_many([parts[1], file_names.commit(0), file_names.commit(1)])
    assert load_segment(table).checkpoint.version == 1
    assert state_of(table) == expected
    table.put(parts[1], b"torn")
    assert state_of(table) == expected
    assert load_snapshot(table).checkpoint_version == 1


def test_checkpoint_columns_that_are_missing_are_null(table):
    put_classic(
        table,
        AT,
        [*head(), *files_of(table)],
        without=["remove", "txn", "sidecar", "add.stats", "add.deletionVector"],
    )
    _cut(table)
    snapshot = load_snapshot(table, AT)
    assert len(snapshot.files) == 11
    assert snapshot.files["stats"].null_count == snapshot.files["deletionVector"].null_count == 11
    assert (len(snapshot.tombstones), snapshot.transactions) == (0, {})


@pytest.mark.parametrize(
    "without", ["add.path", "metaData", "protocol", "metaData.schemaString", "protocol.minReaderVersion"]
)
def test_a_checkpoint_without_required_columns_is_a_delta_error(table, without):
    put_classic(table, AT, [*head(), *files_of(table)], without=[without])
    _cut(table)
    with pytest.raises(LogCorruptedError, match=r"version \d"):
        _ = load_snapshot(table).files


@pytest.mark.parametrize("crc", [None, b"", b"{", b'{"tableSizeBytes":1,"numFiles":999,"metadata":{},"protocol":{}}'])
def test_checksum_files_do_not_affect_reads(table, crc):
    expected = state_of(table)
    for version in range(5):
        if crc is not None:
            table.put(f"{file_names.LOG}/{version:020d}.crc", crc)
    assert state_of(table) == expected


def test_the_schema_is_the_one_of_the_hand_made_tables(table):
    assert load_snapshot(table).metadata.schema_string == SCHEMA
