"""ALTER beyond deltalake: rename and drop columns with column mapping, and NOT NULL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import (
    ConcurrentAppendError,
    ConstraintViolatedError,
    DeltaError,
    InvalidArgumentError,
    InvalidSchemaError,
    MetadataChangedError,
    UnsupportedFeatureError,
)
from lakehouse_lib.operations.alter.columns import set_column_not_null
from lakehouse_lib.operations.alter.mapped_columns import rename_column
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import parquet_files, plain, read_by_all, read_duckdb

ROWS = pa.table({"id": [1, 2, 3], "part": ["p", "p", "q"], "note": ["a", "b", "c"], "price": [1.0, None, 3.0]})
MAPPED = {"delta.columnMapping.mode": "name"}


def read_delta_rs_sql(root: Path, columns: list[str]) -> pa.Table:
    """The rows as delta-rs reads them by SQL; its other readers refuse column mapping."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(root))
    names = ", ".join(f'"{name}"' for name in columns)
    return plain(pa.table(builder.execute(f"SELECT {names} FROM t").read_all()))


@pytest.mark.parametrize("upgraded", [False, True], ids=["created with mapping", "upgraded"])
def test_renamed_and_dropped_columns(tmp_path: Path, engine: Engine, upgraded: bool) -> None:
    write_deltalake(tmp_path, ROWS, configuration={} if upgraded else MAPPED)
    table = DeltaTable(tmp_path, engine=engine)
    if upgraded:
        table.alter.set_table_properties(MAPPED)
    before = parquet_files(tmp_path)
    table.alter.rename_column("NOTE", "old note")
    table.alter.drop_columns(["price"])
    table.alter.add_columns([Field("note", "string"), Field("price", "long")])  # neither has the dropped values
    assert parquet_files(tmp_path) == before
    rows = [dict(zip(("id", "part", "old note", "note", "price"), (*row, None, None), strict=True)) for row in OLD]
    assert table.to_pyarrow_table().to_pylist() == rows
    more = {"id": [4], "part": ["q"], "old note": ["d"], "note": ["n"], "price": pa.array([7], pa.int64())}
    write_deltalake(table, pa.table(more), mode="append")
    table.update({"`old note`": "note"}, predicate="`old note` = 'a' OR price = 7")
    expected = plain(table.to_pyarrow_table())
    assert expected["old note"].to_pylist() == [None, "b", "c", "n"]
    assert table.optimize.compact()["numFilesAdded"] == 1
    assert plain(table.to_pyarrow_table()).equals(expected)
    assert read_delta_rs_sql(tmp_path, expected.column_names).equals(expected)
    assert read_duckdb(tmp_path).equals(expected)
    assert DeltaTable(tmp_path, version=0).to_pyarrow_table().equals(ROWS)


OLD = [(1, "p", "a"), (2, "p", "b"), (3, "q", "c")]


@pytest.mark.parametrize(
    ("verb", "arguments", "error", "message"),
    [
        ("rename_column", ("part", "x"), InvalidArgumentError, "the partitioning of the table"),
        ("rename_column", ("nothing", "x"), InvalidArgumentError, "'nothing' does not exist"),
        ("rename_column", ("note", "ID"), InvalidSchemaError, "'id' exists already"),
        ("rename_column", ("note", ""), InvalidSchemaError, "at least 1 character"),
        ("rename_column", ("id", "x"), InvalidArgumentError, "CHECK positive"),
        ("rename_column", ("price", "x"), InvalidArgumentError, "delta.dataSkippingStatsColumns"),
        ("drop_columns", (["part"],), InvalidArgumentError, "the partitioning of the table"),
        ("drop_columns", (["id"],), InvalidArgumentError, "CHECK positive"),
        ("drop_columns", (["note", "note"],), InvalidArgumentError, "twice"),
        ("drop_columns", ([],), InvalidArgumentError, "at least one name"),
        ("drop_columns", ("note",), InvalidArgumentError, "a list of names"),
    ],
    ids=str,
)
def test_what_is_refused(
    tmp_path: Path, verb: str, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    properties = {"delta.constraints.positive": "id > 0", "delta.dataSkippingStatsColumns": "price"}
    write_deltalake(tmp_path, ROWS, partition_by=["part"], configuration=MAPPED | properties)
    with pytest.raises(error, match=message):
        getattr(DeltaTable(tmp_path).alter, verb)(*arguments)
    assert DeltaTable(tmp_path).version() == 0


def test_the_last_column_is_not_dropped(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=["part"], configuration=MAPPED)
    with pytest.raises(InvalidArgumentError, match="no column that data files can store"):
        DeltaTable(tmp_path).alter.drop_columns(["id", "note", "price"])


def test_no_column_id_is_used_again_after_a_restore(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}))
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties(MAPPED)
    table.alter.add_columns([Field("b", "long"), Field("c", "long")])  # ids 2 and 3
    table.restore(0)
    table.alter.set_table_properties(MAPPED)
    table.alter.add_columns([Field("d", "long")])
    ids = {field.name: field.metadata["delta.columnMapping.id"] for field in table.schema().fields}
    assert ids == {"a": 4, "d": 5}
    assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == "5"
    assert read_delta_rs_sql(tmp_path, ["a", "d"]).to_pylist() == [{"a": 1, "d": None}]


def test_a_table_without_column_mapping_is_refused_with_a_hint(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    alter = DeltaTable(tmp_path).alter
    for verb in (lambda: alter.rename_column("note", "x"), lambda: alter.drop_columns(["note"])):
        with pytest.raises(UnsupportedFeatureError, match="columnMapping") as refused:
            verb()
        assert 'alter.set_table_properties({"delta.columnMapping.mode": "name"})' in str(refused.value.hint)


def test_not_null_is_set_if_no_row_has_null(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable(tmp_path, engine=engine)
    with pytest.raises(ConstraintViolatedError, match=r"NOT NULL price: 1 row, such as \{'price': None, 'id': 2"):
        table.alter.set_column_not_null("price")
    table.delete("id = 2")
    table.alter.set_column_not_null("price")
    with pytest.raises(InvalidArgumentError, match="NOT NULL already"):
        table.alter.set_column_not_null("price")
    with pytest.raises(ConstraintViolatedError, match="NOT NULL price"):
        write_deltalake(table, ROWS, mode="append")
    table.alter.drop_column_not_null("price")
    write_deltalake(table, ROWS, mode="append")
    assert [entry["operation"] for entry in table.history()][:2] == ["WRITE", "CHANGE COLUMN"]
    assert read_by_all(tmp_path)["id"].to_pylist() == [1, 1, 2, 3, 3]


def test_conflicts(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS.filter(ROWS["price"].is_valid()), configuration=MAPPED)
    snapshot = load_snapshot(open_store(tmp_path))
    engine = DeltaTable(tmp_path).engine
    DeltaTable(tmp_path).alter.rename_column("note", "remark")
    with pytest.raises(MetadataChangedError):
        rename_column(snapshot, "note", "comment")
    snapshot = load_snapshot(snapshot.store)
    write_deltalake(tmp_path, ROWS.rename_columns(["id", "part", "remark", "price"]), mode="append")
    with pytest.raises(ConcurrentAppendError):
        set_column_not_null(snapshot, "price", engine)
    set_column_not_null(snapshot, "id", engine)  # the new rows have no null in id, as their statistics say
    files = parquet_files(tmp_path)
    with pytest.raises(DeltaError):
        write_deltalake(DeltaTable(tmp_path), ROWS, mode="append")  # it has the old name
    assert parquet_files(tmp_path) == files
