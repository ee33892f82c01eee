"""What a maintenance run has done, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakehouseSummaryOperator(BaseOperator):
    """Returns and logs, for each table of a run, what each step has left as its result; null where it left none.

    Numbers only, of ``files_deleted`` and of the metrics ``numAddedFiles`` and ``numRemovedFiles``.

    Args:
        tables: the tables that the steps are mapped over, in that order (templated).
        steps: {name in the summary: task id}.
    """

    template_fields: Sequence[str] = ("tables",)

    def __init__(self, *, tables: Any, steps: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.steps = dict(steps)

    def execute(self, context: Context) -> dict[str, dict[str, dict[str, int] | None]]:
        if not isinstance(self.tables, Sequence) or isinstance(self.tables, str):
            raise AirflowFailException("which tables the run is about is not known; run it again from its first task")
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
        return f"{step} left nothing"
    if not numbers:
        return f"{step} committed nothing"
    return f"{step} " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items())
