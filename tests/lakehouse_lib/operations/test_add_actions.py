"""``get_add_actions``, compared with delta-rs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.log import cache
from lakehouse_lib.log.checkpoint.part import ParquetPart
from lakehouse_lib.store import LocalStore
from tests import days_table
from tests.checkpoint_files import put_classic
from tests.deletion_vector_bytes import inline
from tests.interop.rows import PARTITION_COLUMNS, rows
from tests.log_builder import Log, add, field, metadata, put

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


def assert_equal_to_theirs(uri: Path) -> None:
    for flatten in (False, True):
        our_actions = DeltaTable(uri).get_add_actions(flatten).sort_by("path")
        delta_rs_actions = pa.table(deltalake.DeltaTable(uri).get_add_actions(flatten)).sort_by("path")
        assert our_actions.schema == delta_rs_actions.schema
        assert our_actions.to_pylist() == delta_rs_actions.to_pylist()


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("write", [write_deltalake, deltalake.write_deltalake])
def test_every_type_and_nesting(tmp_path: Path, write: object, partitioned: bool) -> None:
    by = list(PARTITION_COLUMNS) if partitioned else None
    for start in (0, 40):
        write(tmp_path / "t", rows(start, 40), mode="append", partition_by=by)  # type: ignore[operator]
    assert_equal_to_theirs(tmp_path / "t")


# delta-rs cannot read the bound 0E-10 of basic-decimal-table; this library can.
@pytest.mark.parametrize(
    "name",
    sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir() and folder.name != "basic-decimal-table"),
)
def test_tables_of_spark(name: str) -> None:
    assert_equal_to_theirs(GOLDEN / name / "delta")


def test_a_bound_in_scientific_notation() -> None:
    shown = DeltaTable(GOLDEN / "basic-decimal-table" / "delta").get_add_actions(flatten=True)
    assert Decimal("0E-10") in shown["min.col3"].to_pylist()
    assert None not in shown["min.col3"].to_pylist()


def test_statistics_of_any_shape_are_null_and_no_error(tmp_path: Path) -> None:
    stats = [
        '{"numRecords": 1, "minValues": {"id": 5}, "maxValues": {"id": 7}, "nullCount": {"id": 0}}',
        '{"numRecords": "many", "minValues": {"id": "x"}, "maxValues": [], "nullCount": {"id": true}}',
        "no JSON",
        '{"numRecords": 2,\n "minValues": {"id": 99999999999999999999}}',
        "[1, 2]",
        "{",
        "",
        None,
    ]
    put(tmp_path, 0, *(add(f"{i}.parquet", stats=body) for i, body in enumerate(stats)))
    shown = DeltaTable(tmp_path).get_add_actions(flatten=True).sort_by("path").to_pydict()
    nothing = [None] * 7
    assert shown["num_records"] == [1, None, None, 2, None, None, None, None]
    assert shown["min.id"] == [5, *nothing]
    assert shown["max.id"] == [7, *nothing]
    assert shown["null_count.id"] == [0, *nothing]


def test_tables_with_deletion_vectors(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    log.file("a.parquet", list(range(10)))
    log.commit(log.add("a.parquet", deletionVector=inline([1, 2])))
    assert_equal_to_theirs(log.root)


def test_physical_names_become_the_columns_own(tmp_path: Path) -> None:
    mapped = metadata(
        field("shown", "integer", id=1, physical="col-1"), configuration={"delta.columnMapping.mode": "name"}
    )
    stats = '{"numRecords":1,"minValues":{"col-1":3},"maxValues":{"col-1":4},"nullCount":{"col-1":0}}'
    put(
        tmp_path, 0, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, mapped, add("a", size=1, stats=stats)
    )
    assert DeltaTable(tmp_path).get_add_actions(flatten=True).to_pylist() == [
        {
            "path": "a",
            "size_bytes": 1,
            "modification_time": 1,
            "num_records": 1,
            "null_count.shown": 0,
            "min.shown": 3,
            "max.shown": 4,
        }
    ]


def test_an_old_version_has_its_own_files(tmp_path: Path) -> None:
    for start in (0, 5):
        write_deltalake(tmp_path / "t", rows(start, 5), mode="append")
    assert DeltaTable(tmp_path / "t", version=0).get_add_actions()["num_records"].to_pylist() == [5]


@pytest.mark.parametrize("as_json", ["true", "false"])
@pytest.mark.parametrize("as_struct", ["true", "false"])
def test_checkpoints_with_either_form_of_statistics(tmp_path: Path, as_struct: str, as_json: str) -> None:
    forms = {"delta.checkpoint.writeStatsAsStruct": as_struct, "delta.checkpoint.writeStatsAsJson": as_json}
    uri = tmp_path / "t"
    for start in (0, 20, 40):
        deltalake.write_deltalake(uri, rows(start, 20), mode="append", configuration=forms)
    peer = deltalake.DeltaTable(uri)
    peer.create_checkpoint()
    peer.delete("id < 10")
    deltalake.write_deltalake(uri, rows(60, 20), mode="append")
    assert_equal_to_theirs(uri)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STATS = {
    "numRecords": 10,
    "minValues": {"id": 3, "moment": "2026-01-02T03:04:05.000Z", "text": "a", "price": 1.5},
    "maxValues": {"id": 9, "moment": "2026-01-02T03:04:05.000Z", "text": "b", "price": 99999},
    "nullCount": {"id": 1, "moment": 2, "text": 3, "price": 4},
}
TYPED = {"moment": MOMENT, "price": Decimal("1.50")}
STRUCTS = STATS | {end: STATS[end] | TYPED for end in ("minValues", "maxValues")}  # type: ignore[operator]


def checkpointed(root: Path, structs: list[object], kind: pa.StructType) -> pa.Table:
    """The add actions of a checkpoint's files that have STATS as JSON, and these values as structs."""
    store = LocalStore(str(root), fsync=False)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    files = [
        days_table.file(number, stats=json.dumps(STATS), stats_parsed=value) for number, value in enumerate(structs)
    ]
    put_classic(store, 1, [days_table.PROTOCOL, days_table.META, *files], stats_parsed=kind)
    cache.CACHE.clear()
    return DeltaTable(root).get_add_actions()


def test_complete_structs_are_read_instead_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = days_table.record_reads(monkeypatch)
    shown = checkpointed(tmp_path, [STRUCTS, STRUCTS], days_table.PARSED)
    assert [leaf for leaf, _ in reads if leaf == "add.stats"] == []
    assert shown["max"].to_pylist() == [{"id": 9, "moment": MOMENT, "text": "b", "price": Decimal("1.50")}] * 2
    assert shown["null_count"].to_pylist() == [STATS["nullCount"]] * 2


def altered(kind: pa.DataType, path: tuple[str, ...], other: pa.DataType | None) -> pa.DataType:
    """The struct with another type for the member at ``path``; None: without the member."""
    name, *below = path
    members = {
        member.name: altered(member.type, tuple(below), other) if member.name == name and below else member.type
        for member in kind
    }
    if not below:
        members.pop(name)
        if other is not None:
            members[name] = other
    return pa.struct(members)


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("numRecords",), None),
        (("minValues", "text"), None),
        (("nullCount", "id"), None),
        (("maxValues", "moment"), pa.timestamp("ns")),
        (("minValues", "id"), pa.int32()),
        (("minValues", "text"), pa.binary()),
    ],
)
def test_json_is_read_if_structs_are_incomplete(
    tmp_path: Path, path: tuple[str, ...], other: pa.DataType | None
) -> None:
    shown = checkpointed(tmp_path, [STRUCTS], altered(days_table.PARSED, path, other))
    assert shown["num_records"].to_pylist() == [10]
    assert shown["min"].to_pylist() == [STATS["minValues"] | TYPED]  # type: ignore[operator]
    assert shown["max"].to_pylist() == [STATS["maxValues"] | TYPED | {"price": Decimal(99999)}]  # type: ignore[operator]
    assert shown["null_count"].to_pylist() == [STATS["nullCount"]]


def test_statistics_survive_a_damaged_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path), fsync=False)
    files = [days_table.file(number) for number in range(3)]
    put(store, 0, days_table.PROTOCOL, days_table.META, *files)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    put_classic(store, 1, [days_table.PROTOCOL, days_table.META, *reversed(files)])
    cache.CACHE.clear()
    real = ParquetPart._read

    def fail(self: ParquetPart, block: int, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
        if ("add", "stats") in leaves:
            raise self._broken("a damaged page")
        return real(self, block, leaves)

    monkeypatch.setattr(ParquetPart, "_read", fail)
    shown = DeltaTable(tmp_path).get_add_actions(flatten=True).sort_by("path")
    assert shown["path"].to_pylist() == ["f000", "f001", "f002"]
    assert shown["min.id"].to_pylist() == [0, 10, 20]


def test_json_is_read_if_a_file_has_no_struct(tmp_path: Path) -> None:
    shown = checkpointed(tmp_path, [STRUCTS, None], days_table.PARSED)
    assert shown["max"].to_pylist() == [STATS["maxValues"] | TYPED | {"price": Decimal(99999)}] * 2  # type: ignore[operator]
