"""Tables with variants, which delta-spark wrote: every verb copies them, and new ones are structs of two members."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, Field, Schema, StructType, VariantType, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, SchemaMismatchError
from tests.peers import parquet_files

OF_DELTA_SPARK = Path(__file__).parents[2] / "data" / "delta_spark" / "tables" / "variant"
#: {"a": 1} in the encoding of the Parquet variant.
METADATA, VALUE = b"\x01\x01\x00\x01a", b"\x02\x01\x00\x00\x02\x0c\x01"
VARIANT = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
NEW = {"value": VALUE, "metadata": METADATA}


def by_id(rows: pa.Table) -> dict[int, Any]:
    return {row["id"]: row for row in rows.to_pylist()}


def new_rows(*ids: int) -> pa.Table:
    members = {"v": pa.array([NEW] * len(ids), VARIANT), "l": pa.array([[NEW, None]] * len(ids), pa.list_(VARIANT))}
    structs = pa.array([{"v": NEW}] * len(ids), pa.struct([("v", VARIANT)]))
    return pa.table({"id": pa.array(ids, pa.int64()), **members, "s": structs})


def test_verbs_copy_variants(tmp_path: Path, engine: Engine) -> None:
    shutil.copytree(OF_DELTA_SPARK, tmp_path / "t")
    table = DeltaTable(tmp_path / "t", engine=engine)
    expected = by_id(table.to_pyarrow_table())
    write_deltalake(table, new_rows(100, 101), mode="append")
    added = {"id": 100, "v": NEW, "s": {"v": NEW}, "l": [NEW, None]}
    expected |= {100: added, 101: added | {"id": 101}}
    assert by_id(table.to_pyarrow_table()) == expected
    first = min(expected)
    table.update({"id": "id + 1000"}, predicate=f"id = {first}")
    expected[first + 1000] = expected.pop(first) | {"id": first + 1000}
    merger = table.merge(new_rows(101, 102), "target.id = source.id")
    merger.when_matched_update({"v": "NULL"}).when_not_matched_insert_all().execute()
    expected |= {101: expected[101] | {"v": None}, 102: added | {"id": 102}}
    table.delete("id = 100")
    del expected[100]
    assert by_id(table.to_pyarrow_table()) == expected
    table.optimize.compact()
    write_deltalake(table, new_rows(103), mode="append")
    expected[103] = added | {"id": 103}
    table.optimize.z_order(["id"])
    assert by_id(DeltaTable(tmp_path / "t").to_pyarrow_table()) == expected
    for path in table.file_uris():
        variant = pq.read_schema(path).field("v").type
        assert {field.name: field.nullable for field in variant} == {"metadata": False, "value": False}


def test_a_new_table(tmp_path: Path, engine: Engine) -> None:
    schema = Schema([Field("id", "long"), Field("v", VariantType())])
    table = DeltaTable.create(tmp_path, schema)
    assert table.protocol().reader_features == ["variantType"]
    table = DeltaTable(tmp_path, engine=engine)
    write_deltalake(table, new_rows(1, 2).select(["id", "v"]), mode="append")
    table.alter.add_columns([Field("w", StructType([Field("v", VariantType())]))])
    assert by_id(table.to_pyarrow_table())[2] == {"id": 2, "v": NEW, "w": None}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.string(), "{}", "v is string, expected variant"),
        (pa.struct([("value", pa.binary())]), {"value": VALUE}, "a struct of binary metadata and value"),
        (VARIANT, {"value": VALUE, "metadata": None}, "v is a variant without metadata"),
    ],
    ids=["text", "a member is missing", "a member is null"],
)
def test_what_is_refused(tmp_path: Path, engine: Engine, kind: pa.DataType, value: Any, message: str) -> None:
    DeltaTable.create(tmp_path, Schema([Field("id", "long"), Field("v", VariantType())]))
    rows = pa.table({"id": [1, 2], "v": pa.array([None, value], kind)})
    with pytest.raises(SchemaMismatchError, match=message):
        write_deltalake(DeltaTable(tmp_path, engine=engine), rows, mode="append")
    assert DeltaTable(tmp_path).version() == 0
    assert not parquet_files(tmp_path)


def test_a_variant_neither_partitions_nor_orders(tmp_path: Path) -> None:
    schema = Schema([Field("id", "long"), Field("v", VariantType())])
    with pytest.raises(InvalidArgumentError, match="partition_by has 'v' of type variant"):
        DeltaTable.create(tmp_path, schema, partition_by=["v"])
    table = DeltaTable.create(tmp_path, schema)
    write_deltalake(table, new_rows(1, 2).select(["id", "v"]), mode="append")
    with pytest.raises(InvalidArgumentError, match="'v'"):
        table.optimize.z_order(["v"])
