"""Columns get wider types: all verbs go on, and DuckDB reads the same rows as both engines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, PrimitiveType, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedFeatureError
from lakehouse_lib.schema.type_widening import may_change
from tests.peers import plain, read_duckdb
from tests.slow_cases import some_slow

ENABLED = {"delta.enableTypeWidening": "true"}
#: The changes of PROTOCOL.md: the old type, the new type, old values, and values that only the new type holds.
CHANGES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("byte", "short", [-128, 0, None], [30_000]),
    ("byte", "integer", [-128, 127, None], [2**31 - 1]),
    ("short", "long", [-32_768, 1, None], [2**40]),
    ("integer", "long", [-(2**31), 7, None], [2**62]),
    ("integer", "double", [-(2**31), 7, None], [0.5]),
    ("float", "double", [0.1, -1.5, None], [1e300]),
    ("byte", "decimal(12,2)", [-128, 5, None], [Decimal("0.25")]),
    ("integer", "decimal(10,0)", [-(2**31), 5, None], [Decimal("9999999999")]),
    ("long", "decimal(22,2)", [2**62, 5, None], [Decimal("0.25")]),
    ("decimal(5,2)", "decimal(10,4)", [Decimal("999.99"), Decimal("-1.00"), None], [Decimal("123456.7891")]),
    ("date", "timestamp_ntz", [dt.date(2026, 1, 2), dt.date(1969, 12, 31), None], [dt.datetime(2026, 1, 2, 3, 4, 5)]),
]


def in_type(value: Any, kind: str) -> Any:
    """An old value in the new type."""
    if value is None:
        return None
    if kind == "timestamp_ntz" and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    if kind.startswith("decimal"):
        return Decimal(value)
    return float(value) if kind == "double" else value


def rows(start: int, values: list[Any], kind: str) -> pa.Table:
    column = pa.array(values, Field("v", kind).to_arrow().type)
    return pa.table({"k": pa.array(range(start, start + len(values)), pa.int64()), "v": column})


@pytest.mark.parametrize(("old", "new", "old_values", "new_values"), some_slow(CHANGES, 1))
@pytest.mark.parametrize("properties", some_slow([{"delta.enableDeletionVectors": "true"}, {}], 1))
def test_every_verb_works_on_a_widened_table(
    tmp_path: Path,
    engine: Engine,
    old: str,
    new: str,
    old_values: list[Any],
    new_values: list[Any],
    properties: dict[str, str],
) -> None:
    write_deltalake(tmp_path, rows(0, old_values, old), configuration={"delta.checkpointInterval": "3", **properties})
    write_deltalake(tmp_path, rows(10, old_values, old), mode="append")
    table = DeltaTable(tmp_path, engine=engine)
    table.alter.set_table_properties(ENABLED)
    table.alter.change_column_type("v", new)
    assert str(table.schema().field("v").type) == new
    expected = {start + n: in_type(v, new) for start in (0, 10) for n, v in enumerate(old_values)}
    expected = {key: None if value is None else round_trip(old, new, value) for key, value in expected.items()}

    def check() -> None:
        own = plain(DeltaTable(tmp_path).to_pyarrow_table())
        assert dict(zip(own["k"].to_pylist(), own["v"].to_pylist(), strict=True)) == expected
        assert read_duckdb(tmp_path).equals(own)

    check()
    write_deltalake(table, rows(20, new_values, new), mode="append")
    expected[20] = new_values[0]
    check()
    table.update({"v": "NULL"}, predicate="k = 1")
    expected[1] = None
    check()
    table.update({"k": "k + 100"}, predicate="k = 0")
    expected[100] = expected.pop(0)
    check()
    merger = table.merge(rows(20, [None, new_values[0]], new), "target.k = source.k")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    expected |= {20: None, 21: new_values[0]}
    check()
    literal = f"'{new_values[0]}'" if new == "timestamp_ntz" else str(new_values[0])
    assert table.delete(f"v = {literal}")["num_deleted_rows"] == 1
    del expected[21]
    check()
    table.create_checkpoint()
    assert table.optimize.compact()["numFilesRemoved"] > 1
    check()
    write_deltalake(table, rows(30, new_values, new), mode="append")
    expected[30] = new_values[0]
    table.optimize.z_order(["v"])
    check()


def type_of(kind: str) -> pa.DataType:
    return Field("v", kind).to_arrow().type


def round_trip(old: str, new: str, value: Any) -> Any:
    """A value as a file of the old type has it."""
    return pa.scalar(value, pa.float32()).as_py() if (old, new) == ("float", "double") else value


def test_files_are_skipped_by_statistics_of_both_types(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(0, [1, 2], "integer"), configuration={**ENABLED, "delta.checkpointInterval": "1"})
    table = DeltaTable(tmp_path)
    table.alter.change_column_type("v", "long")
    write_deltalake(table, rows(10, [2**40], "long"), mode="append")
    for condition in ("v > 1000", "v < 2", f"v = {2**40}", "v = 2"):
        assert len(table.files(condition)) == 1, condition


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "integer"),
        ("integer", "float"),
        ("integer", "decimal(9,0)"),
        ("long", "decimal(19,0)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("date", "timestamp"),
        ("string", "long"),
        ("long", "long"),
        ("long", "double"),
    ],
)
def test_other_changes_are_refused(tmp_path: Path, old: str, new: str) -> None:
    assert not may_change(PrimitiveType(old), PrimitiveType(new))
    DeltaTable.create(tmp_path, pa.schema([("v", type_of(old))]), configuration=ENABLED)
    with pytest.raises(SchemaMismatchError, match="cannot change from"):
        DeltaTable(tmp_path).alter.change_column_type("v", new)
    assert DeltaTable(tmp_path).version() == 0


def test_what_is_refused(tmp_path: Path) -> None:
    data = pa.table({"k": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())})
    write_deltalake(tmp_path, data, partition_by=["p"], configuration={"delta.constraints.c": "v > 0"})
    table = DeltaTable(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=r"delta\.enableTypeWidening is not true"):
        table.alter.change_column_type("k", "long")
    table.alter.set_table_properties(ENABLED)
    for column, message in (("p", "the partitioning"), ("v", "CHECK c"), ("nothing", "does not exist")):
        with pytest.raises(InvalidArgumentError, match=message):
            table.alter.change_column_type(column, "long")
    table.alter.change_column_type("k", "long")
    table.alter.change_column_type("k", "decimal(20,0)")
    changes = table.schema().field("k").metadata["delta.typeChanges"]
    assert changes == [
        {"fromType": "integer", "toType": "long"},
        {"fromType": "long", "toType": "decimal(20,0)"},
    ]
    assert table.protocol().reader_features == ["typeWidening"]
    assert read_duckdb(tmp_path).to_pylist() == [{"k": Decimal(1), "p": 1, "v": 1}]
