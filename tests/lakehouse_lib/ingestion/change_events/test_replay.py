"""Random change events, late, repeated and in any batches, give the table that a sequential replay gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, apply_changes
from tests.slow_cases import some_slow

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()), ("op", pa.string())])
VALUES = ("id", "a", "b")


def event_sets() -> st.SearchStrategy[list[dict[str, Any]]]:
    event = st.fixed_dictionaries(
        {
            "id": st.integers(0, 3),
            "ts": st.integers(0, 12),
            "a": st.none() | st.sampled_from("xyz"),
            "b": st.none() | st.integers(0, 3),
            "op": st.sampled_from(["U", "U", "U", "D"]),
        }
    )
    return st.lists(event, min_size=1, max_size=24, unique_by=lambda row: (row["id"], row["ts"]))


def replay(events: list[dict[str, Any]], *, scd_type: int, keeps_nulls: bool) -> list[dict[str, Any]]:
    """The rows after events in the order of their sequence."""
    rows: dict[int, dict[str, Any]] = {}
    history: list[dict[str, Any]] = []
    for event in sorted(events, key=lambda row: row["ts"]):
        before = rows.pop(event["id"], None)
        if before is not None:
            before["__end_at"] = event["ts"]
        if event["op"] == "D":
            continue
        row = {name: event[name] for name in ("id", "ts", "a", "b")}
        if keeps_nulls and before is not None:
            row |= {name: before[name] for name in ("a", "b") if row[name] is None}
        row["__start_at"], row["__end_at"] = event["ts"], None
        rows[event["id"]] = row
        history.append(row)
    names = ("id", "ts", "a", "b") if scd_type == 1 else (*VALUES, "__start_at", "__end_at")
    return [{name: row[name] for name in names} for row in (rows.values() if scd_type == 1 else history)]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row.get("__start_at", 0)))


def apply(table: Path, rows: list[dict[str, Any]], scd_type: int, keeps_nulls: bool) -> None:
    apply_changes(
        table,
        pa.Table.from_pylist(rows, SCHEMA),
        keys=["id"],
        sequence_by="ts",
        apply_as_deletes="op = 'D'",
        except_columns=["op"],
        ignore_null_updates=keeps_nulls,
        stored_as_scd_type=scd_type,
    )


@pytest.mark.parametrize(("scd_type", "keeps_nulls"), some_slow([(2, True), (2, False), (1, True), (1, False)], 1))
@given(events=event_sets(), seed=st.integers(0, 1 << 30))
def test_events_in_any_order_give_the_replayed_table(
    tmp_path_factory: pytest.TempPathFactory,
    scd_type: int,
    keeps_nulls: bool,
    events: list[dict[str, Any]],
    seed: int,
) -> None:
    chance = random.Random(seed)
    delivered = events + chance.choices(events, k=len(events) // 2)  # some of them twice
    chance.shuffle(delivered)
    table = tmp_path_factory.mktemp("replay") / "table"
    while delivered:
        size = chance.randint(1, 6)
        apply(table, delivered[:size], scd_type, keeps_nulls)
        delivered = delivered[size:]
    expected = in_order(replay(events, scd_type=scd_type, keeps_nulls=keeps_nulls))
    rows = DeltaTable(table).to_pyarrow_table()
    names = list(expected[0]) if expected else rows.column_names
    assert in_order(rows.select(names).to_pylist()) == expected
