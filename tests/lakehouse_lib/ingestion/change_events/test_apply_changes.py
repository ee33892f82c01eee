"""Change events: what is refused, faults, several writers, and columns that the events lack."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs

from lakehouse_lib import (
    CommitProperties,
    ConcurrentTransactionError,
    DeltaTable,
    InvalidArgumentError,
    NotSupportedError,
    SchemaMismatchError,
    Transaction,
    apply_changes,
    write_deltalake,
)
from lakehouse_lib.ingestion.change_events import apply as applying
from tests.slow_cases import some_slow

Event = Callable[[], None]
RULES: dict[str, Any] = {
    "keys": ["id"],
    "sequence_by": "ts",
    "apply_as_deletes": "op = 'D'",
    "except_columns": ["op"],
}


def events(*rows: tuple[int, int, str | None, str]) -> pa.Table:
    names = ("id", "ts", "name", "op")
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("op", pa.string())])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def rows_of(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaRs(table).to_pyarrow_table().to_pylist(), key=lambda row: tuple(map(str, row.values())))


def test_the_rows_follow_the_source(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    result = apply_changes(table, events((1, 1, "a", "U"), (1, 3, "b", "U"), (2, 1, "c", "U")), **RULES)
    assert (result.metrics["numEvents"], result.metrics["numTargetRowsInserted"]) == (3, 2)
    opened = DeltaTable(table)
    result = apply_changes(opened, events((1, 2, "late", "U"), (2, 5, None, "D"), (3, 1, "d", "U")), **RULES)
    assert rows_of(table) == [{"id": 1, "ts": 3, "name": "b"}, {"id": 3, "ts": 1, "name": "d"}]
    assert opened.version() == result.version
    apply_changes(table, events((2, 4, "before its deletion", "U"), (2, 6, "again", "U")), **RULES)
    assert {"id": 2, "ts": 6, "name": "again"} in rows_of(table)
    assert rows_of(tmp_path / "orders_deleted_keys") == [{"id": 2, "ts": 5}]


def test_events_that_change_nothing_commit_nothing(tmp_path: Path) -> None:
    batch = events((1, 1, "a", "U"), (2, 1, "b", "U"), (2, 2, None, "D"), (1, 1, "a", "U"))
    apply_changes(tmp_path / "t", batch, **RULES)
    result = apply_changes(tmp_path / "t", batch.filter(pa.array([True, True, False, True])), **RULES)
    assert result.version is None
    assert result.metrics["numDuplicateEvents"] == 1


def test_a_deletion_that_changes_no_row_is_committed_with_the_metrics_of_a_merge(tmp_path: Path) -> None:
    for version in (1, 2):
        result = apply_changes(tmp_path / "t", events((1, 1, None, "D")), **RULES)
        assert (result.version, result.metrics["numTargetRowsDeleted"]) == (version, 0)
    assert DeltaRs(tmp_path / "t_deleted_keys").version() == 1  # its creation and one commit


def test_a_history_starts_with_an_empty_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "name": ["a"]}))
    with pytest.raises(InvalidArgumentError, match="expected an empty table, or one with history") as refused:
        apply_changes(tmp_path / "t", events((1, 1, "a", "U")), **RULES, stored_as_scd_type=2)
    assert refused.value.code == "DELTA_INVALID_CHANGE_RULES"
    DeltaTable(tmp_path / "t").delete()
    apply_changes(tmp_path / "t", events((1, 1, "a", "U"), (1, 4, "b", "U")), **RULES, stored_as_scd_type=2)
    assert rows_of(tmp_path / "t") == [
        {"id": 1, "name": "a", "__start_at": 1, "__end_at": 4},
        {"id": 1, "name": "b", "__start_at": 4, "__end_at": None},
    ]


def test_a_table_with_rows_is_followed_from_their_sequence(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3], "ts": [5, None, 7], "name": ["a", "b", "c"]}))
    apply_changes(tmp_path / "t", events((1, 4, "late", "U"), (2, 1, "newer", "U"), (3, 8, None, "D")), **RULES)
    assert rows_of(tmp_path / "t") == [{"id": 1, "ts": 5, "name": "a"}, {"id": 2, "ts": 1, "name": "newer"}]


def test_events_without_a_column_keep_its_values(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "ts": [1], "name": ["a"], "city": ["Bonn"]}))
    for keeps_nulls in (False, True):
        ts = 2 + keeps_nulls
        apply_changes(tmp_path / "t", events((1, ts, "b", "U")), **RULES, ignore_null_updates=keeps_nulls)
        (row,) = rows_of(tmp_path / "t")
        assert (row["ts"], row["name"], row["city"]) == (ts, "b", "Bonn")
    apply_changes(tmp_path / "t", events((1, 4, None, "U")), **RULES, ignore_null_updates=True)
    (row,) = rows_of(tmp_path / "t")
    assert row["__sequences"] == {"ts": 4, "name": 3, "city": 2}


def test_new_columns_are_added_on_request(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "ts": [1]}))
    with pytest.raises(InvalidArgumentError, match="'name', which the table does not have"):
        apply_changes(tmp_path / "t", events((1, 2, "b", "U")), **RULES)
    apply_changes(tmp_path / "t", events((1, 2, "b", "U")), **RULES, merge_schema=True)
    assert rows_of(tmp_path / "t") == [{"id": 1, "ts": 2, "name": "b"}]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("decimal", pa.array([Decimal("1.50"), Decimal("1.25")], pa.decimal128(10, 2))),
        ("text", pa.array(["b", "a"])),
        ("date", pa.array([datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)])),
        ("time", pa.array([2, 1], pa.timestamp("us", "UTC"))),
    ],
)
def test_keys_and_sequences_of_every_ordered_type(tmp_path: Path, column: str, values: pa.Array) -> None:
    batch = pa.table({"key": pa.array([values[0]] * 2), column: values, "n": [1, 2], "tags": [["x"], ["y", None]]})
    for scd_type in (1, 2):
        table = tmp_path / str(scd_type)
        for part in (batch.slice(1), batch.slice(0, 1), batch):
            apply_changes(table, part, keys=["key"], sequence_by=column, stored_as_scd_type=scd_type)
        rows = DeltaTable(table).to_pyarrow_table().sort_by("n").to_pylist()
        assert [(row["n"], row["tags"]) for row in rows] == [(1, ["x"]), (2, ["y", None])][: len(rows)]
        assert len(rows) == scd_type
    assert rows[1]["__end_at"] == rows[0]["__start_at"] == values[0].as_py()


@pytest.mark.parametrize("scd_type", [1, 2])
def test_keys_of_any_name(tmp_path: Path, scd_type: int) -> None:
    """Also of names that this module gives to its own columns."""
    names = ["position", "group", "kind", "place", "k1", "k0"]
    batch = pa.table({**{name: [number] * 3 for number, name in enumerate(names)}, "sequence": [1, 3, 2]})
    batch = batch.append_column("deleted", [[False, False, True]])
    rules: dict[str, Any] = {"keys": names, "apply_as_deletes": "deleted", "except_columns": ["deleted"]}
    for start in range(3):
        apply_changes(
            tmp_path / "t", batch.slice(start, 1), **rules, sequence_by="sequence", stored_as_scd_type=scd_type
        )
    sequence = "__start_at" if scd_type == 2 else "sequence"
    rows = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by(sequence).to_pylist()
    assert [row[sequence] for row in rows] == ([1, 3] if scd_type == 2 else [3])
    assert {tuple(row[name] for name in names) for row in rows} == {tuple(range(6))}


def test_nan_and_the_sign_of_zero_do_not_make_events_differ(tmp_path: Path) -> None:
    """Whatever the other events of the batch are."""
    numbers = [0.0, -0.0, float("nan"), float("nan"), 1.0]
    batch = pa.table({"id": [1, 1, 2, 2, 3], "ts": [1] * 5, "x": numbers, "nested": [{"x": x} for x in numbers]})
    for rows in (batch, batch.slice(0, 2)):
        table = tmp_path / str(len(rows))
        apply_changes(table, rows, keys=["id"], sequence_by="ts")
        assert DeltaTable(table).to_pyarrow_table().num_rows == len(set(rows["id"].to_pylist()))


def test_different_events_with_one_sequence_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgumentError, match="1 events differ from another event with the same key and sequence: id 7, ts 1"
    ) as refused:
        apply_changes(tmp_path / "t", events((7, 1, "a", "U"), (7, 1, "b", "U"), (8, 1, "x", "U")), **RULES)
    assert refused.value.code == "DELTA_AMBIGUOUS_SEQUENCE"
    with pytest.raises(InvalidArgumentError, match="1 events differ"):
        apply_changes(tmp_path / "t", events((7, 1, "a", "U"), (7, 1, "a", "D")), **RULES)
    assert DeltaRs(tmp_path / "t").version() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": []}, "keys is empty"),
        ({"keys": ["id", "ID"]}, r"keys is \['id', 'ID'\]; expected each column once"),
        ({"keys": ["nobody"]}, "the events have no column 'nobody'; they have id, ts, name, op"),
        ({"sequence_by": "TS"}, "the events have no column 'TS'; they have id, ts, name, op"),
        ({"sequence_by": "id"}, "sequence_by is the key 'id'"),
        ({"except_columns": ["ts"]}, "except_columns has 'ts', which the table needs"),
        ({"stored_as_scd_type": 3}, "stored_as_scd_type is 3; expected 1 or 2"),
        ({"keys": ["name"]}, "'name' is NULL in 1 events"),
    ],
)
def test_rules_that_do_not_fit(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as refused:
        apply_changes(tmp_path / "t", events((1, 1, None, "U")), **{**RULES, **change})
    assert refused.value.code == "DELTA_INVALID_CHANGE_RULES"


def test_keys_without_an_exact_order_are_refused(tmp_path: Path) -> None:
    batch = pa.table({"id": [1.5], "ts": [1]})
    with pytest.raises(NotSupportedError, match="column 'id' has the type double"):
        apply_changes(tmp_path / "t", batch, keys=["id"], sequence_by="ts")
    assert not (tmp_path / "t").exists()  # no table with columns that no later events fit


def test_numbers_of_pandas_are_keys_of_a_table_of_integers(tmp_path: Path) -> None:
    """A column of integers becomes a column of doubles in pandas when it gets a NaN."""
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "ts": [1], "name": ["a"]}))
    apply_changes(
        str(tmp_path / "t"), pa.table({"id": [1.0], "ts": [2.0], "name": ["b"]}), keys=["id"], sequence_by="ts"
    )
    assert rows_of(tmp_path / "t") == [{"id": 1, "ts": 2, "name": "b"}]


def test_a_key_in_another_case_is_refused_before_the_table_is_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="the events have no column 'ID'"):
        apply_changes(str(tmp_path / "t"), pa.table({"id": [1], "ts": [1]}), keys=["ID"], sequence_by="ts")
    assert not (tmp_path / "t").exists()


def test_the_case_of_the_sequence_of_a_history_does_not_matter(tmp_path: Path) -> None:
    batch = pa.table({"id": [1], "ts": [1], "name": ["a"]})
    apply_changes(str(tmp_path / "t"), batch, keys=["id"], sequence_by="TS", stored_as_scd_type=2)
    assert len(rows_of(tmp_path / "t")) == 1


def test_a_value_that_does_not_fit_commits_nothing(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": pa.array([1], pa.int64()), "ts": [1], "name": [1]}))
    with pytest.raises(SchemaMismatchError):
        apply_changes(tmp_path / "t", events((1, 2, "text", "U"), (2, 2, None, "D")), **RULES)
    assert DeltaRs(tmp_path / "t").version() == 0
    assert not (tmp_path / "t_deleted_keys").exists()


def test_a_run_killed_between_its_two_commits_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply_changes(tmp_path / "t", events((1, 1, "a", "U"), (2, 1, "b", "U")), **RULES)
    batch = events((1, 5, None, "D"), (2, 7, "c", "U"), (1, 3, "late", "U"))
    merge = applying.merge
    calls = iter([merge])  # the second merge is that of the table

    def killed(*arguments: Any, **named: Any) -> Any:
        try:
            return next(calls)(*arguments, **named)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(applying, "merge", killed)
    with pytest.raises(KeyboardInterrupt):
        apply_changes(tmp_path / "t", batch, **RULES)
    monkeypatch.undo()
    assert len(rows_of(tmp_path / "t")) == 2
    apply_changes(tmp_path / "t", batch, **RULES)
    assert rows_of(tmp_path / "t") == [{"id": 2, "ts": 7, "name": "c"}]


def test_an_application_transaction_is_committed_once(tmp_path: Path) -> None:
    properties = CommitProperties(app_transactions=[Transaction("source", 1)])
    apply_changes(tmp_path / "t", events((1, 1, "a", "U")), **RULES, commit_properties=properties)
    with pytest.raises(ConcurrentTransactionError):
        apply_changes(tmp_path / "t", events((1, 2, "b", "U")), **RULES, commit_properties=properties)
    assert rows_of(tmp_path / "t")[0]["name"] == "a"


@pytest.mark.slow
@pytest.mark.parametrize("scd_type", [2, 1])
def test_two_loaders_at_once_give_the_table_of_a_replay(tmp_path: Path, scd_type: int) -> None:
    chance = random.Random(scd_type)
    stream = [
        (key, ts, None if (is_delete := chance.random() < 0.3) else f"{key} at {ts}", "D" if is_delete else "U")
        for key in range(5)
        for ts in range(12)
    ]
    for name in ("expected", "raced"):
        apply_changes(tmp_path / name, events(*stream[:1]), **RULES, stored_as_scd_type=scd_type)
    apply_changes(tmp_path / "expected", events(*stream), **RULES, stored_as_scd_type=scd_type)
    chance.shuffle(stream)
    batches = [events(*stream[start : start + 5]) for start in range(0, len(stream), 5)]
    with ThreadPoolExecutor(2) as threads:
        list(
            threads.map(
                lambda batch: apply_changes(tmp_path / "raced", batch, **RULES, stored_as_scd_type=scd_type), batches
            )
        )
    assert rows_of(tmp_path / "raced") == rows_of(tmp_path / "expected")


@pytest.mark.parametrize("scd_type", some_slow([2, 1], 1))
@pytest.mark.parametrize("transactions", [[], [Transaction("deletions", 1)]])
@pytest.mark.parametrize("overlap", ["deletion within insert", "insert within deletion", "killed within insert"])
def test_a_deletion_beside_an_earlier_event_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: str, transactions: list[Transaction], scd_type: int
) -> None:
    """The outer run has read the deletions when the inner run begins."""

    def nothing() -> None:
        pass

    record = applying._record_deletions

    def run(batch: pa.Table, before: Event = nothing, after: Event = nothing, **options: Any) -> None:
        def recorded(*arguments: Any) -> None:
            monkeypatch.setattr(applying, "_record_deletions", record)
            before()
            record(*arguments)
            after()

        monkeypatch.setattr(applying, "_record_deletions", recorded)
        apply_changes(tmp_path / "t", batch, **RULES, stored_as_scd_type=scd_type, **options)

    def insert(before: Event = nothing) -> None:
        run(events((1, 3, "a", "U")), before)

    def delete(before: Event = nothing, after: Event = nothing) -> None:
        properties = CommitProperties(app_transactions=transactions)
        run(events((1, 5, None, "D")), before, after, commit_properties=properties)

    def kill() -> None:
        raise KeyboardInterrupt

    def delete_after_a_kill() -> None:
        with pytest.raises(KeyboardInterrupt):
            delete(after=kill)
        delete()

    run(events((2, 1, "b", "U"), (2, 2, None, "D")))
    if overlap == "insert within deletion":
        delete(insert)
    else:
        insert(delete if overlap == "deletion within insert" else delete_after_a_kill)
    history = [
        {"id": 1, "name": "a", "__start_at": 3, "__end_at": 5},
        {"id": 2, "name": "b", "__start_at": 1, "__end_at": 2},
    ]
    assert rows_of(tmp_path / "t") == (history if scd_type == 2 else [])
