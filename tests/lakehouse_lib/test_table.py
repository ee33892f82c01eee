"""The facade: what it takes, and what it refuses before anything happens."""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, InvalidArgumentError, TableNotFoundError, write_deltalake


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    return DeltaTable(tmp_path / "t")


@pytest.mark.parametrize("predicate", [[], (), [("id", "=", 1)], 5])
def test_a_delete_wants_sql(table: DeltaTable, predicate: Any) -> None:
    # An empty list of filters is no condition: every row would go.
    with pytest.raises(InvalidArgumentError, match="is no text"):
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
    with pytest.raises(InvalidArgumentError, match="both version"):
        DeltaTable(table.table_uri, 0, timestamp=dt.datetime.now(dt.UTC))


def test_a_file_is_no_table(tmp_path: Path) -> None:
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
def test_positions_mean_what_they_mean_in_deltalake(name: str) -> None:
    ours, theirs = (
        [
            one.name
            for one in inspect.signature(getattr(kind, name)).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD
        ]
        for kind in (DeltaTable, deltalake.DeltaTable)
    )
    assert ours == theirs[: len(ours)]
