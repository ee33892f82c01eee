"""The job that applies change events, from the arguments of its operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_airflow.operators.apply_changes import LakehouseApplyChangesOperator
from lakehouse_lib import write_deltalake
from spark_jobs import apply_changes
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
