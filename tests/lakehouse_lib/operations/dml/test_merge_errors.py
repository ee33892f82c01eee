"""MERGE that is refused or fails: the error names the value, and the table and its files stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import CommitProperties, DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet import updating
from lakehouse_lib.engine.parquet.merge import task as merge_task
from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from lakehouse_lib.operations.dml import apply
from tests.lakehouse_lib.operations.dml.merge_cases import ON, Clause, made, run, source
from tests.peers import parquet_files

BAD: list[tuple[str, list[Clause], list[int], str]] = [
    (ON, [], [1], "DELTA_INVALID_MERGE"),
    ("target.nope = source.id", [("when_matched_delete", {})], [1], "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    ("id = source.id", [("when_matched_delete", {})], [1], "DELTA_AMBIGUOUS_COLUMN"),
    (ON, [("when_matched_update_all", {})], [1, 1], "DELTA_MULTIPLE_SOURCE_ROWS_MATCH"),
    (ON, [("when_matched_delete", {"predicate": "source.amount < 0"})], [1, 1], "DELTA_MULTIPLE_SOURCE_ROWS_MATCH"),
    (ON, [("when_matched_update", {"updates": {"nope": "1"}})], [1], "DELTA_COLUMN_NOT_FOUND"),
    (ON, [("when_matched_update", {"updates": {}})], [1], "DELTA_INVALID_MERGE"),
    (ON, [("when_matched_update", {"updates": {"id": "source.name"}})], [1], "DELTA_INVALID_ASSIGNMENT"),
    (ON, [("when_not_matched_insert", {"updates": {"id": "target.id"}})], [999], "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    (
        ON,
        [("when_not_matched_by_source_delete", {"predicate": "source.id = 1"})],
        [1],
        "DELTA_PREDICATE_COLUMN_NOT_FOUND",
    ),
    (
        ON,
        [("when_matched_update", {"updates": {"id": "target.id * 9223372036854775807"}})],
        [2],
        "DELTA_VALUE_OUT_OF_RANGE",
    ),
    (ON, [("when_matched_update", {"updates": {"name": "initcap(target.name)"}})], [1], "DELTA_PREDICATE_NEEDS_SPARK"),
]


@pytest.mark.parametrize(("condition", "clauses", "ids", "code"), BAD)
def test_bad_input_changes_nothing(
    tmp_path: Path, engine: Engine, condition: str, clauses: list[Clause], ids: list[int], code: str
) -> None:
    made(tmp_path)
    table, before = DeltaTable(tmp_path, engine=engine), parquet_files(tmp_path)
    with pytest.raises(DeltaError) as refusal:
        run(table, source(ids), condition, clauses)
    assert refusal.value.code == code
    assert refusal.value.table is not None
    assert DeltaTable(tmp_path).version() == table.version() == 2
    assert parquet_files(tmp_path) == before


def test_target_rows_that_several_source_rows_match_are_named(tmp_path: Path, engine: Engine) -> None:
    """The error shows ten of them, by the columns of the condition."""
    made(tmp_path)
    repeated = [*range(1, 25, 2)]
    with pytest.raises(DeltaError) as refusal:
        run(
            DeltaTable(tmp_path, engine=engine),
            source([2, *repeated, *repeated]),
            ON,
            [("when_matched_update_all", {})],
        )
    assert str([{"id": number} for number in repeated[:10]]) in str(refusal.value)


BAD_CALLS: list[tuple[Any, Any, list[Clause], list[str]]] = [
    (
        None,
        "t.id = source.id",
        [],
        ["'t' in 't.id' is neither an alias nor a column", "the aliases are target and source", "source_alias"],
    ),
    (None, "target.id = source.name", [], ["'target.id'", "'source.name'", "cast the column of the source"]),
    (None, None, [], ["predicate of the merge is None", "target.id = source.id"]),
    ("text", ON, [], ["the source", "builtins.str", "Arrow table"]),
    (pa.table({"id": [1], "extra": [2]}), ON, [("when_matched_update_all", {})], ["'extra'", "except_cols=['extra']"]),
    (pa.table({"id": [1]}), ON, [("when_matched_update", {"updates": {"name": "source.name"}})], ["the source has no"]),
    (None, ON, [("when_matched_update", {"updates": {"amount": 5}})], ["of type int", "'5'"]),
    (None, ON, [("when_matched_update", {"updates": {"amount": "'abc'"}})], ["'abc'", "Write a literal"]),
]


@pytest.mark.parametrize(("data", "condition", "clauses", "texts"), BAD_CALLS)
def test_an_error_names_the_value_and_has_a_hint(
    tmp_path: Path, data: Any, condition: Any, clauses: list[Clause], texts: list[str]
) -> None:
    table = made(tmp_path, files=1)
    with pytest.raises(DeltaError) as refusal:
        run(table, source([1]) if data is None else data, condition, clauses)
    assert all(text in str(refusal.value) for text in [*texts, table.table_uri]), str(refusal.value)


@pytest.mark.parametrize(
    ("source_alias", "target_alias"), [("t", "t"), ("t", "T"), ("target", None), (None, "Source"), (5, None)]
)
def test_equal_aliases_are_refused(tmp_path: Path, source_alias: Any, target_alias: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        made(tmp_path, files=1).merge(source([1]), "t.id = t.id", source_alias, target_alias)
    assert refusal.value.code == "DELTA_INVALID_MERGE"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("when_matched_update", {"updates": None}),
        ("when_not_matched_insert", {"updates": None}),
        ("when_matched_update", {"updates": ["name"]}),
        ("when_matched_update_all", {"except_cols": "id"}),
        ("when_matched_update_all", {"except_cols": ["nope"]}),
        ("when_matched_update_all", {"except_cols": ["id", "part", "name", "amount"]}),
    ],
)
def test_arguments_of_a_clause(tmp_path: Path, method: str, arguments: dict[str, Any]) -> None:
    merger = made(tmp_path, files=1).merge(source([1]), ON, "source", "target")
    with pytest.raises(InvalidArgumentError) as refusal:
        getattr(merger, method)(**arguments)
    assert refusal.value.code == "DELTA_INVALID_MERGE"


@pytest.mark.parametrize(
    ("verb", "module", "function"),
    [("update", updating, "write_checked"), ("merge", merge_task, "write_checked"), ("delete", apply, "copy_tags")],
)
def test_an_unexpected_error_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, module: Any, function: str
) -> None:
    """A file of several cannot be written, after others have been written."""
    table = made(tmp_path)
    before = parquet_files(tmp_path)
    write = getattr(module, function)
    failures = iter([None, pa.ArrowInvalid("too wide"), None])

    def fail(*arguments: Any) -> pa.Table:
        failure = next(failures)
        if failure is not None:
            raise failure
        return write(*arguments)

    monkeypatch.setattr(module, function, fail)
    merge = table.merge(source([1, 301, 601]), ON).when_matched_update({"name": "'x'"}).execute
    changes: dict[str, Callable[[], Any]] = {
        "merge": merge,
        "update": partial(table.update, {"name": "'x'"}),
        "delete": partial(table.delete, "id IN (1, 301, 501)"),
    }
    with pytest.raises(pa.ArrowInvalid, match="too wide"):
        changes[verb]()
    assert parquet_files(tmp_path) == before


@pytest.mark.slow
def test_a_commit_that_is_too_long_leaves_no_files(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    before = parquet_files(tmp_path)
    with pytest.raises(InvalidArgumentError):
        table.update({"name": "'x'"}, commit_properties=CommitProperties(custom_metadata={"x": "x" * (70 << 20)}))
    assert parquet_files(tmp_path) == before
