"""Rows that were added, removed or moved after the plan was approved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse_airflow.registry import load_registry
from lakehouse_lib.privacy.drift import find_arrivals, find_moves, find_recreated, has_lost_keys
from lakehouse_lib.privacy.keys import ColumnKeys, PersonKeys, RecordLines
from lakehouse_lib.privacy.places import Place


def place(
    *values: int, rows: int = 1, on_disk: int | None = None, uri: str = "/t", table_id: str = "a", **more: Any
) -> Place:
    return Place(
        table="t",
        uri=uri,
        table_id=table_id,
        version=0,
        keys=PersonKeys((ColumnKeys("k", "long", values),), more.get("records", ())),
        rows=rows,
        files=1,
        unattributed=(),
        erase_mentions=False,
        on_disk={"rows": rows if on_disk is None else on_disk},
    )


LINES = (RecordLines("s", "f", ((2, 3),)),)


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (place(1), place(1, rows=9), []),
        (place(1, 2), place(1, rows=0), []),
        (place(1), place(rows=0), []),
        (place(1), place(1, 2), ["t"]),
        (place(rows=0), place(1, rows=0), ["t"]),
        (place(1, rows=0), place(1), ["t"]),
        (place(1, rows=0, on_disk=3), place(1), []),
        (None, place(1), ["t"]),
        (None, place(1, rows=0), []),
        (place(1, records=LINES), place(1, records=LINES), []),
        (place(1), place(1, records=LINES), ["t"]),
    ],
)
def test_arrived_rows_are_found_by_comparing_plans(then: Place | None, now: Place, expected: list[str]) -> None:
    assert find_arrivals({"t": then} if then else {}, {"t": now}) == expected


def test_a_key_whose_row_is_deleted_is_lost() -> None:
    then = {"t": place(1, 2), "own": place(7)}
    assert not has_lost_keys(then, {"t": place(1, 2, 3), "own": place(7, rows=0)})
    assert has_lost_keys(then, {"t": place(2, 3), "own": place(7)})
    assert has_lost_keys(then, {"own": place(7)})
    assert not has_lost_keys({"t": place(rows=0)}, {})


def test_a_table_with_another_id_was_recreated() -> None:
    then = {"t": place(1), "u": place(1)}
    assert find_recreated(then, {"t": place(1), "u": place(1, table_id="b")}) == ["u"]
    assert find_recreated(then, {}) == []


def test_moved_and_dropped_tables_of_a_subject_are_found(registry_file: Path) -> None:
    registry = load_registry()
    orders = place(1, uri=registry.table("orders").uri)
    assert find_moves({"orders": orders}, registry, "customer") == []
    assert find_moves({"orders": place(1, uri="/x")}, registry, "customer") == [
        f"orders is at {orders.uri}; the plan has /x"
    ]
    assert find_moves({"accounts": place(1)}, registry, "customer") == [
        "accounts is not a table of the subject customer any more"
    ]
    body = json.loads(registry_file.read_text())
    body["subjects"]["customer"]["rows"] = body["subjects"]["customer"]["rows"][:1]
    registry_file.write_text(json.dumps(body))
    assert find_moves({"orders": orders}, load_registry(), "customer") == [
        "orders is not a table of the subject customer any more"
    ]
