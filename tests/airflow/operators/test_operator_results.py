"""The return values of operators have the keys that docs/operators.md lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.cleanup import LakehouseCleanupOperator
from lakehouse_airflow.operators.health import LakehouseHealthOperator
from lakehouse_airflow.operators.history import LakehouseHistoryOperator
from lakehouse_airflow.operators.metadata.alter import LakehouseAlterOperator
from lakehouse_airflow.operators.metadata.generate import LakehouseGenerateOperator
from lakehouse_airflow.operators.metadata.restore import LakehouseRestoreOperator
from lakehouse_airflow.operators.repair import LakehouseRepairOperator
from lakehouse_airflow.operators.report import LakehouseReadCursorOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_lib import write_deltalake

PAGE = (Path(__file__).parents[3] / "docs/operators.md").read_text()


def section_of(operator: type) -> str:
    section = re.search(rf"^### {operator.__name__}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    return section[1]


@pytest.fixture
def table(registry_file: Path) -> str:
    where = registry_file.parent / "tables" / "orders"
    write_deltalake(where, pa.table({"o_custkey": [1]}))
    return "orders"


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (LakehouseCheckpointOperator, {}),
        (LakehouseVacuumOperator, {}),
        (LakehouseCleanupOperator, {}),
        (LakehouseRepairOperator, {}),
        (LakehouseRestoreOperator, {"target": 0}),
        (LakehouseGenerateOperator, {}),
        (LakehouseAlterOperator, {"changes": [{"set_table_name": {"name": "a"}}]}),
    ],
)
def test_the_page_has_the_keys_of_a_result(table: str, operator: Any, arguments: dict[str, Any]) -> None:
    result = operator(task_id="t", table=table, **arguments).execute({})
    keys = re.search(r"Returns\s+`\{([^}]+)\}`", section_of(operator))
    assert keys is not None, f"docs/operators.md does not say what {operator.__name__} returns"
    assert re.findall(r'"(\w+)"', keys[1]) == list(result)


def test_the_other_operators_return_what_the_page_documents(table: str) -> None:
    history = LakehouseHistoryOperator(task_id="t", table=table).execute({})
    assert [commit["version"] for commit in history] == [0]
    assert isinstance(LakehouseHealthOperator(task_id="t", table=table).execute({}), dict)
    assert LakehouseReadCursorOperator(task_id="t", table=table, app_id="nobody").execute({}) == -1
