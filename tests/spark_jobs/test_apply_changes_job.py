"""The job that applies change events, from the arguments of its operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_airflow.operators.apply_changes import LakehouseApplyChangesOperator
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.ingestion.change_events import follow
from spark_jobs import apply_changes
from spark_jobs.job import FailedAfterWork, run_in_process
from tests.peers import read_by_all
from tests.spark_jobs.command_lines import command_line_of


def test_new_events_are_applied_by_spark_and_no_events_need_no_spark(spark: Any, tmp_path: Path) -> None:
    table, events = tmp_path / "t", tmp_path / "events"
    write_deltalake(events, pa.table({"id": [1, 2, 2], "ts": [1, 1, 2], "v": [10, 20, None], "op": ["U", "U", "D"]}))
    operator = LakehouseApplyChangesOperator(
        task_id="a",
        table=str(table),
        events=str(events),
        keys=["id"],
        sequence_by="ts",
        apply_as_deletes="op = 'D'",
        except_columns=["op"],
        deleted_keys=str(tmp_path / "deleted"),
    )
    options = apply_changes.arguments().parse_args(command_line_of(operator, tmp_path))
    prepared = apply_changes.prepare(options)
    assert callable(prepared)
    result = prepared(spark)
    assert (result["table"], result["metrics"]["numEvents"]) == (str(table), 3)
    assert json.loads(json.dumps(dict(result))) == result
    assert read_by_all(table).to_pylist() == [{"id": 1, "ts": 1, "v": 10}]
    assert read_by_all(tmp_path / "deleted").to_pylist() == [{"id": 2, "ts": 2}]
    again = apply_changes.prepare(options)
    assert isinstance(again, Mapping)
    assert again["version"] is None


def test_a_failure_of_a_later_batch_names_what_earlier_batches_have_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_BATCH_BYTES", 1)
    table, events = tmp_path / "t", tmp_path / "events"
    write_deltalake(events, pa.table({"id": [1], "ts": [1], "v": [10]}))
    operator = LakehouseApplyChangesOperator(
        task_id="a", table=str(table), events=str(events), keys=["id"], sequence_by="ts"
    )
    words = command_line_of(operator, tmp_path)
    assert run_in_process(apply_changes.arguments(), apply_changes.prepare, words, None) is not None
    write_deltalake(events, pa.table({"id": [2], "ts": [1], "v": [20]}), mode="append")
    write_deltalake(events, pa.table({"id": [3, 3], "ts": [1, 1], "v": [30, 31]}), mode="append")
    with pytest.raises(FailedAfterWork) as failed:
        run_in_process(apply_changes.arguments(), apply_changes.prepare, words, None)
    assert getattr(failed.value.error, "code", None) == "DELTA_AMBIGUOUS_SEQUENCE"
    result = failed.value.result
    assert (result["table"], result["metrics"]["numEvents"]) == (str(table), 1)
    assert result["version"] == DeltaTable(table).version() == result["read_version"] + 1
