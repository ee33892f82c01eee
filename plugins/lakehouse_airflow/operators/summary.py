"""The operator that summarizes a maintenance run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakehouseSummaryOperator(BaseOperator):
    """Returns and logs the numbers in each step's result, by table; null for a step without a result.

    The numbers are ``files_deleted`` and the metrics ``numAddedFiles`` and ``numRemovedFiles``.

    Args:
        tables: the tables over which the steps are mapped, in the same order (templated).
        steps: {name in the summary: task id}.
    """

    template_fields: Sequence[str] = ("tables",)

    def __init__(self, *, tables: Any, steps: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.steps = dict(steps)

    def execute(self, context: Context) -> dict[str, dict[str, dict[str, int] | None]]:
        if not isinstance(self.tables, Sequence) or isinstance(self.tables, str):
            raise AirflowFailException(
                "tables is not a list; expected the names of the run's tables; run the DAG again from the start"
            )
        done: dict[str, dict[str, dict[str, int] | None]] = {}
        for index, table in enumerate(self.tables):
            results = {
                step: context["ti"].xcom_pull(task_ids=task_id, map_indexes=index)
                for step, task_id in self.steps.items()
            }
            done[table] = {step: _numbers(result) for step, result in results.items()}
            self.log.info("%s: %s", table, "; ".join(_sentence(step, numbers) for step, numbers in done[table].items()))
        return done


def _numbers(result: Any) -> dict[str, int] | None:
    if not isinstance(result, Mapping):
        return None
    metrics = {**result, **(result.get("metrics") or {})}
    names = {
        "version": "version",
        "files_deleted": "files_deleted",
        "numRemovedFiles": "files_removed",
        "numAddedFiles": "files_added",
    }
    return {name: int(metrics[key]) for key, name in names.items() if metrics.get(key) is not None}


def _sentence(step: str, numbers: Mapping[str, int] | None) -> str:
    if numbers is None:
        return f"{step} has no result"
    if not numbers:
        return f"{step} committed nothing"
    return f"{step} " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items())
