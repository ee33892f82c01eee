"""The jobs that update and merge rows, and the command lines that their operators write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_airflow.operators.change_rows import LakehouseMergeRowsOperator, LakehouseUpdateRowsOperator
from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import CommitUnknownError, InvalidArgumentError, InvalidPredicateError, StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import put_commit
from spark_jobs import delete_rows, merge_rows, update_rows
from tests.peers import read_by_all
from tests.spark_jobs.command_lines import command_line_of

ADDITION = json.dumps([{"when_matched_update": {"updates": {"v": "target.v + source.v"}}}])
UPSERT = [{"when_matched_update_all": {}}, {"when_not_matched_insert_all": {"predicate": "s.id > 2"}}]


def test_update(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, pa.table({"id": [1, 2, 3], "v": [10, 20, 30]}))
    operator = LakehouseUpdateRowsOperator(task_id="u", table=str(table), updates={"v": "v + id"}, predicate="id > 1")
    line = command_line_of(operator, tmp_path)
    result = update_rows.prepare(update_rows.arguments().parse_args(line))(spark)
    assert (result["version"], result["metrics"]["numUpdatedRows"]) == (1, 2)
    assert read_by_all(table)["v"].to_pylist() == [10, 22, 33]
    everywhere = command_line_of(
        LakehouseUpdateRowsOperator(task_id="a", table=str(table), updates={"v": "0"}), tmp_path
    )
    assert update_rows.prepare(update_rows.arguments().parse_args(everywhere))(spark)["metrics"]["numUpdatedRows"] == 3


def test_merge(spark: Any, tmp_path: Path) -> None:
    table, source = tmp_path / "t", tmp_path / "s"
    write_deltalake(table, pa.table({"id": [1, 2], "v": [10, 20]}))
    write_deltalake(source, pa.table({"id": [1, 3], "v": [11, 33], "w": ["a", "b"]}))
    operator = LakehouseMergeRowsOperator(
        task_id="m",
        table=str(table),
        source=str(source),
        predicate="t.id = s.id",
        clauses=UPSERT,
        source_alias="s",
        target_alias="t",
        merge_schema=True,
    )
    line = command_line_of(operator, tmp_path)
    assert not any("id" in argument for argument in line if argument.startswith("--") and "=" in argument)
    result = merge_rows.prepare(merge_rows.arguments().parse_args(line))(spark)
    assert (result["table"], result["read_version"], result["version"]) == (str(table), 0, 1)
    assert result["metrics"]["numTargetRowsInserted"] == 1
    assert json.loads(json.dumps(dict(result))) == result
    assert read_by_all(table).to_pylist() == [
        {"id": 1, "v": 11, "w": "a"},
        {"id": 2, "v": 20, "w": None},
        {"id": 3, "v": 33, "w": "b"},
    ]


def test_a_retried_job_changes_rows_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store puts the commit of the first update and loses the answer. The other jobs run twice."""
    table, source = tmp_path / "t", tmp_path / "s"
    write_deltalake(table, pa.table({"id": [1, 2], "v": [10, 20]}))
    write_deltalake(source, pa.table({"id": [1, 3], "v": [11, 33]}))

    def losing(method: Any) -> Any:
        def call(store: LocalStore, path: str, *data: bytes) -> Any:
            answer = method(store, path, *data) if data or path != file_names.commit(1) else None
            if path == file_names.commit(1):
                raise StoreError("connection reset")
            return answer

        return call

    def run(job: Any, *line: str) -> dict[str, Any]:
        line = ("--table", str(table), f"--app-transaction={job.__name__}", *line)
        return dict(job.prepare(job.arguments().parse_args(line))(spark))

    update = ("--updates", '{"v": "v + 1"}')
    with monkeypatch.context() as patch:
        patch.setattr(put_commit, "_ATTEMPTS", 1)
        for name in ("put_if_absent", "read"):
            patch.setattr(LocalStore, name, losing(getattr(LocalStore, name)))
        with pytest.raises(CommitUnknownError):
            run(update_rows, *update)
    retry = run(update_rows, *update)
    assert (retry["version"], retry["done_before"], retry["metrics"]["numUpdatedRows"]) == (1, True, 2)
    merge = ("--source", str(source), "--predicate", "target.id = source.id", "--clauses", ADDITION)
    for version, (job, line) in enumerate(((merge_rows, merge), (delete_rows, ("--predicate", "v = 22"))), start=2):
        first, retry = run(job, *line), run(job, *line)
        assert retry == {**first, "done_before": True}
        assert first["version"] == version
    assert read_by_all(table).to_pylist() == [{"id": 2, "v": 21}]


@pytest.mark.parametrize(
    "clauses",
    [
        [{"when_matched_upsert": {}}],
        [{"when_matched_update_all": {"except": ["a"]}}],
        [{"when_matched_delete": {}, "when_not_matched_insert_all": {}}],
        [{"execute": {}}],
        [{"when_matched_delete": "id = 1"}],
    ],
)
def test_clauses_are_checked_before_spark_starts(tmp_path: Path, clauses: Any) -> None:
    for name in ("t", "s"):
        write_deltalake(tmp_path / name, pa.table({"id": [1]}))
    line = ["--table", str(tmp_path / "t"), "--source", str(tmp_path / "s"), "--predicate", "target.id = source.id"]
    options = merge_rows.arguments().parse_args([*line, "--clauses", json.dumps(clauses)])
    with pytest.raises(InvalidArgumentError, match="expected one method with its arguments") as refused:
        merge_rows.prepare(options)
    assert refused.value.code == "DELTA_INVALID_MERGE"


@pytest.mark.parametrize("text", ["x", "[1]", '{"a": 1}', "[]"])
def test_updates_are_a_json_object_of_texts(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a valid JSON object of texts"):
        update_rows.arguments().parse_args(["--table", "t", "--updates", text])


def test_an_empty_predicate_updates_nothing(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    line = ["--table", str(tmp_path), "--updates", '{"id": "2"}', "--predicate", " "]
    with pytest.raises(InvalidPredicateError):
        update_rows.prepare(update_rows.arguments().parse_args(line))
