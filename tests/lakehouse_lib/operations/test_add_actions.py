"""``get_add_actions``, beside delta-rs' table of the same."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from tests.deletion_vector_bytes import inline
from tests.hand_log import Log
from tests.interop.rows import PARTITION_COLUMNS, rows
from tests.log_tables import add, put

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


def assert_equal_to_theirs(uri: Path) -> None:
    for flatten in (False, True):
        ours = DeltaTable(uri).get_add_actions(flatten).sort_by("path")
        theirs = pa.table(deltalake.DeltaTable(uri).get_add_actions(flatten)).sort_by("path")
        assert ours.schema == theirs.schema
        assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("write", [write_deltalake, deltalake.write_deltalake])
def test_every_type_and_nesting(tmp_path: Path, write: object, partitioned: bool) -> None:
    by = list(PARTITION_COLUMNS) if partitioned else None
    for start in (0, 40):
        write(tmp_path / "t", rows(start, 40), mode="append", partition_by=by)  # type: ignore[operator]
    assert_equal_to_theirs(tmp_path / "t")


# Of basic-decimal-table delta-rs cannot read the bound 0E-10; we show it.
@pytest.mark.parametrize(
    "name", sorted(one.name for one in GOLDEN.iterdir() if one.is_dir() and one.name != "basic-decimal-table")
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
    put(tmp_path, 0, *(add(f"{i}.parquet", stats=one) for i, one in enumerate(stats)))
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
    field = {
        "name": "shown",
        "type": "integer",
        "nullable": True,
        "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
    }
    metadata = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "name"},
    }
    stats = '{"numRecords":1,"minValues":{"col-1":3},"maxValues":{"col-1":4},"nullCount":{"col-1":0}}'
    body = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": stats}
    log = tmp_path / "_delta_log"
    log.mkdir()
    actions = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata}, {"add": body}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
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
