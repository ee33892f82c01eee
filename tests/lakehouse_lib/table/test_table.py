"""DeltaTable: the arguments that it accepts, and those that it refuses before anything happens."""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pytest

from lakehouse_lib import (
    ArrowEngine,
    DeltaTable,
    Field,
    InvalidArgumentError,
    InvalidSchemaError,
    StructType,
    TableNotFoundError,
    write_deltalake,
)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    return DeltaTable(tmp_path / "t")


@pytest.mark.parametrize("predicate", [[], (), [("id", "=", 1)], 5])
def test_a_delete_takes_sql(table: DeltaTable, predicate: Any) -> None:
    # An empty list of filters is not a condition; a delete would remove every row.
    with pytest.raises(InvalidArgumentError, match="expected SQL text"):
        table.delete(predicate)
    assert DeltaTable(table.table_uri).count() == 2


@pytest.mark.parametrize("version", ["0", 0.0, True])
def test_a_version_is_a_whole_number(table: DeltaTable, version: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="the version"):
        DeltaTable(table.table_uri, version)


def test_a_timestamp_is_a_datetime(table: DeltaTable) -> None:
    day: Any = "2026-01-31"
    with pytest.raises(InvalidArgumentError, match=day):
        DeltaTable(table.table_uri, timestamp=day)
    with pytest.raises(InvalidArgumentError, match="DELTA_INVALID_VERSION"):
        DeltaTable(table.table_uri, 0, timestamp=dt.datetime.now(dt.UTC))


def test_nat_of_pandas_is_refused_as_a_timestamp(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError, match="timestamp is NaT"):
        DeltaTable(table.table_uri, timestamp=pd.NaT)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="timestamp is NaT"):
        table.load_as_version(pd.NaT)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["spark", ArrowEngine, 5], ids=repr)
def test_a_value_that_is_not_an_engine_is_refused(table: DeltaTable, engine: Any) -> None:
    for refused in (
        lambda: DeltaTable(table.table_uri, engine=engine),
        lambda: write_deltalake(table, pa.table({"id": [3]}), mode="append", engine=engine),
        lambda: write_deltalake(Path(table.table_uri) / "new", pa.table({"id": [3]}), engine=engine),
    ):
        with pytest.raises(InvalidArgumentError, match=r"engine is .*/t.*Give SparkEngine\(spark\)"):
            refused()
    assert DeltaTable(table.table_uri).count() == 2


@pytest.mark.parametrize(
    "how",
    [
        {"name": 5},
        {"description": b"d"},
        {"configuration": "x"},
        {"configuration": ["a"]},
        {"configuration": {5: "a"}},
        {"partition_by": 5},
        {"partition_by": [0]},
    ],
    ids=repr,
)
def test_arguments_of_a_new_table_have_their_types(tmp_path: Path, how: dict[str, Any]) -> None:
    rows = pa.table({"id": [1], "p": ["a"]})
    (what,) = how
    for refused in (
        lambda: write_deltalake(tmp_path / "t", rows, **how),
        lambda: DeltaTable.create(tmp_path / "t", rows.schema, **how),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"{what} is .*{tmp_path}.*, or None"):
            refused()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("mode", ["error", "append"])
def test_the_error_of_creating_an_existing_table_names_the_modes(table: DeltaTable, mode: Any) -> None:
    with pytest.raises(InvalidArgumentError, match='Use mode "ignore" to open it'):
        DeltaTable.create(table.table_uri, pa.schema([("id", pa.int64())]), mode=mode)


def test_a_schema_may_be_a_struct(tmp_path: Path) -> None:
    made = DeltaTable.create(tmp_path / "t", StructType([Field("id", "long")]))
    assert made.schema().names == ["id"]


@pytest.mark.parametrize("schema", [[Field("id", "long")], {"id": "no type"}, None, '{"type": "struct"}'], ids=type)
def test_a_value_that_is_not_a_schema_is_refused(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(InvalidSchemaError, match=r"is not a schema.*Give Schema\(\["):
        DeltaTable.create(tmp_path / "t", schema)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("limit", [-1, "1", 1.5, True])
def test_a_limit_is_a_number_of_commits(table: DeltaTable, limit: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"limit is {limit!r}.*/t"):
        table.history(limit)


def test_storage_options_are_a_dictionary(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError, match=r"storage_options is of type list.*/t") as refusal:
        DeltaTable(table.table_uri, storage_options=["secret"])  # type: ignore[arg-type]
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("size", ["1", 1.5, -1])
def test_the_target_size_of_health_is_a_number(table: DeltaTable, size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"target_file_size is {size!r}.*/t"):
        table.health(target_file_size=size)


@pytest.mark.parametrize("columns", [None, 5, [0], []], ids=repr)
def test_z_order_takes_columns(table: DeltaTable, columns: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"column.*/t"):
        table.optimize.z_order(columns)


def test_a_file_is_refused_as_a_table(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id\n1\n")
    assert not DeltaTable.is_deltatable(file)
    with pytest.raises(TableNotFoundError, match=r"orders\.csv"):
        DeltaTable(file)


@pytest.mark.parametrize(
    "name",
    [
        "create",
        "delete",
        "file_uris",
        "get_add_actions",
        "history",
        "load_as_version",
        "to_pandas",
        "to_pyarrow_table",
        "transaction_version",
        "vacuum",
    ],
)
def test_positional_arguments_are_those_of_deltalake(name: str) -> None:
    our_names, delta_rs_names = (
        [
            parameter.name
            for parameter in inspect.signature(getattr(kind, name)).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        for kind in (DeltaTable, deltalake.DeltaTable)
    )
    assert our_names == delta_rs_names[: len(our_names)]
