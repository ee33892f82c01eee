"""The job that adds constraints, and the command line that its operator writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_airflow.operators.metadata.constraints import LakehouseAddConstraintOperator
from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import ConstraintViolatedError
from spark_jobs import add_constraint
from tests.spark_jobs.command_lines import command_line_of


@pytest.mark.slow
def test_constraints_are_added_if_all_rows_satisfy_them(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, pa.table({"id": [1, 2], "code": ["A", "b"]}))

    def add(**constraints: str) -> dict[str, Any]:
        operator = LakehouseAddConstraintOperator(task_id="c", table=str(table), constraints=constraints)
        run: Any = add_constraint.prepare(add_constraint.arguments().parse_args(command_line_of(operator, tmp_path)))
        result: dict[str, Any] = run(spark)
        return result

    with pytest.raises(ConstraintViolatedError, match="1 row"):
        add(upper="upper(code) = code")
    assert deltalake.DeltaTable(table).version() == 0
    assert add(positive="id > 0", known="upper(code) IS NOT NULL") == {
        "table": str(table),
        "read_version": 0,
        "version": 1,
    }
    assert deltalake.DeltaTable(table).metadata().configuration == {
        "delta.constraints.positive": "id > 0",
        "delta.constraints.known": "upper(code) IS NOT NULL",
    }
