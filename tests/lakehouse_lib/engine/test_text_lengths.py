"""Texts that are longer than their CHAR or VARCHAR are refused by every verb that writes rows, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import ConstraintViolatedError
from tests.char_table import SCHEMA
from tests.peers import read_delta_rs

GOOD = {"id": 1, "v": "äöü", "c": "ab", "s": {"m": "xy", "n": 1}, "a": ["a", None], "mm": [("k", "v")]}
BAD: dict[str, dict[str, Any]] = {
    "VARCHAR(3) v": {"v": "abc "},
    "CHAR(4) c": {"c": "abcde"},
    "VARCHAR(2) s.m": {"s": {"m": "xyz", "n": 1}},
    "CHAR(2) a.element": {"a": [None, "abc"]},
    "VARCHAR(2) mm.key": {"mm": [("kkk", "v")]},
    "VARCHAR(3) mm.value": {"mm": [("k", "vvvv")]},
}


def rows(*values: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([*values], SCHEMA.to_arrow())


@pytest.fixture
def table(tmp_path: Path, engine: Engine) -> DeltaTable:
    DeltaTable.create(tmp_path, SCHEMA)
    empty = dict.fromkeys(GOOD)
    write_deltalake(tmp_path, rows(GOOD, empty), mode="append", engine=engine)
    return DeltaTable(tmp_path, engine=engine)


@pytest.mark.parametrize("rule", BAD)
def test_a_longer_text_is_refused_by_name(table: DeltaTable, engine: Engine, rule: str) -> None:
    with pytest.raises(ConstraintViolatedError, match=r"1 (of 2 )?row") as refused:
        write_deltalake(table.store.root, rows(GOOD, GOOD | BAD[rule]), mode="append", engine=engine)
    assert refused.value.message.startswith(f"the data violates {rule}: ")
    assert DeltaTable(table.store.root).version() == 1


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.update(new_values={"v": "long"}),
        lambda table: (
            table.merge(rows(GOOD | {"v": "long"}), "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .execute()
        ),
    ],
    ids=["update", "merge"],
)
def test_update_and_merge_refuse_a_longer_text(table: DeltaTable, verb: Callable[[DeltaTable], object]) -> None:
    with pytest.raises(ConstraintViolatedError, match=r"VARCHAR\(3\) v"):
        verb(table)
    table.update(new_values={"v": "new"}, predicate="id = 1")
    assert sorted(read_delta_rs(Path(table.store.root))["v"].to_pylist(), key=str) == [None, "new"]
