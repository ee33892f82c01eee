"""Functions in updates, merges, deletes and constraints, and assignments of members of structs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import ConstraintViolatedError, DeltaError
from tests.peers import parquet_files

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "q": [1.5, 2.5, None],
        "s": ["ann", "Bob", None],
        "at": pa.array([dt.datetime(2024, 1, 31, 7), dt.datetime(2024, 3, 1), None], pa.timestamp("us", "UTC")),
        "items": [["a", "b"], ["c", "d"], None],
        "o": pa.array([{"x": 1, "y": {"z": "p", "w": 5}}, None, {"x": 2, "y": None}]),
    }
)


def column(table: DeltaTable, name: str) -> list[Any]:
    return table.to_pyarrow_table().sort_by("id")[name].to_pylist()


def test_a_merge_uses_functions_of_both_sides(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path, engine=engine)
    source = pa.table({"s": ["ANN", "BOB"], "q": [5.0, 2.0]})
    merger = table.merge(source, "upper(t.s) = s.s", source_alias="s", target_alias="t")
    merger = merger.when_matched_update({"q": "greatest(t.q, s.q) / 2"}, "abs(t.q - s.q) > 1")
    merger.when_matched_update({"q": "t.q / s.q", "s": "lower(s.s)"}).execute()
    assert (column(table, "q"), column(table, "s")) == ([2.5, 1.25, None], ["ann", "bob", None])


def test_an_expression_of_the_source_is_a_key_of_the_merge(tmp_path: Path) -> None:
    for name in ("ann", "zoe"):
        write_deltalake(tmp_path, pa.table({"s": [name], "n": [1]}), mode="append")
    table = DeltaTable(tmp_path)
    merger = table.merge(pa.table({"k": ["ANN"], "n": [7]}), "t.s = lower(s.k)", source_alias="s", target_alias="t")
    metrics = merger.when_matched_update({"n": "s.n"}).when_not_matched_insert({"s": "s.k"}).execute()
    assert (metrics["num_target_files_scanned"], metrics["num_target_rows_inserted"]) == (1, 0)
    assert table.to_pyarrow_table().sort_by("s").to_pylist() == [{"s": "ann", "n": 7}, {"s": "zoe", "n": 1}]


def test_updates_and_deletes_use_functions(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path, engine=engine)
    values = {
        "s": "upper(s)",
        "q": "round(q / id, 1)",
        "at": "at + INTERVAL '1' MONTH",
        "items": "array('x', items[1])",
    }
    table.update(values, predicate="s ILIKE 'A%'")
    assert column(table, "s") == ["ANN", "Bob", None]
    assert column(table, "q") == [1.5, 2.5, None]
    assert column(table, "at")[0] == dt.datetime(2024, 2, 29, 7, tzinfo=dt.UTC)
    assert column(table, "items") == [["x", "b"], ["c", "d"], None]
    table.delete("upper(s) = 'BOB' AND date_trunc('month', at) = '2024-03-01'")
    assert column(table, "id") == [1, 3]


def test_a_division_by_zero_changes_nothing(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    before = parquet_files(tmp_path)
    for verb, code in (
        (lambda: table.update({"q": "q / (id - 2)"}), "DELTA_VALUE_OUT_OF_RANGE"),
        (lambda: table.delete("q / (id - 2) > 0"), "DELTA_INVALID_PREDICATE"),
    ):
        with pytest.raises(DeltaError, match="divide by zero") as refusal:
            verb()
        assert refusal.value.code == code
    assert (table.version(), parquet_files(tmp_path)) == (0, before)
    table.update({"q": "if(id = 2, 0, q / (id - 2))"}, predicate="id = 3 OR q / id > 0")
    assert column(table, "q") == [-1.5, 0.0, None]


def test_the_arrow_engine_checks_a_constraint_with_functions(tmp_path: Path) -> None:
    codes = pa.table({"code": ["A", "B"]})
    write_deltalake(tmp_path, codes, configuration={"delta.constraints.upper": "upper(code) = code"})
    write_deltalake(tmp_path, codes, mode="append")
    with pytest.raises(ConstraintViolatedError, match=r"CHECK upper .*: 1 of 2 rows, such as \{'code': 'c'\}"):
        write_deltalake(tmp_path, pa.table({"code": ["C", "c"]}), mode="append")


def test_members_of_structs_are_assigned(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path, engine=engine)
    table.update({"o.x": "id * 10", "O.Y.z": "upper(o.y.z)"})
    expected = [
        {"x": 10, "y": {"z": "P", "w": 5}},
        {"x": 20, "y": {"z": None, "w": None}},
        {"x": 30, "y": {"z": None, "w": None}},
    ]
    assert column(table, "o") == expected
    merger = table.merge(pa.table({"id": [1], "v": [100]}), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update({"t.o.y.w": "s.v + t.o.y.w"}).execute()
    table.update(new_values={"o.x": 5, "items": ["x"]}, predicate="id = 2")
    expected[0]["y"]["w"], expected[1]["x"] = 105, 5
    assert (column(table, "o"), column(table, "items")) == (expected, [["a", "b"], ["x"], None])


@pytest.mark.parametrize(
    ("updates", "code"),
    [
        ({"o.x": "1", "o": "NULL"}, "DELTA_INVALID_ARGUMENT"),
        ({"o": "NULL", "o.x": "1"}, "DELTA_INVALID_ARGUMENT"),
        ({"o.y": "NULL", "O.Y.z": "'a'"}, "DELTA_INVALID_ARGUMENT"),
        ({"o.nope": "1"}, "DELTA_COLUMN_NOT_FOUND"),
        ({"o.x": "'a'"}, "DELTA_INVALID_ASSIGNMENT"),
    ],
)
def test_members_that_cannot_be_assigned(tmp_path: Path, updates: dict[str, str], code: str) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(DeltaError) as refusal:
        DeltaTable(tmp_path).update(updates)
    assert refusal.value.code == code


def test_an_insert_assigns_no_members(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    merger = DeltaTable(tmp_path).merge(ROWS, "t.id = s.id", source_alias="s", target_alias="t")
    with pytest.raises(DeltaError) as refusal:
        merger.when_not_matched_insert({"o.x": "s.o.x"})
    assert refusal.value.code == "DELTA_COLUMN_NOT_FOUND"
