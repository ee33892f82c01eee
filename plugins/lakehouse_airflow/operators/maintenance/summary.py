"""The operator that summarizes a maintenance run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_NUMBERS = ("files_removed", "files_added", "bytes_written", "bytes_freed", "query_bytes")


class LakehouseSummaryOperator(BaseOperator):
    """Returns and logs the predicted and the measured effects of a maintenance run, by table and verb.

    Args:
        maintained_by: task id of the mapped LakehouseMaintainOperator.

    Returns:
        ``{table: {verb: {"status", "reason", "version", "predicted", "measured"}}}``; ``measured`` is null for a step
        that has failed.
    """

    def __init__(self, *, maintained_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.maintained_by = maintained_by

    def execute(self, context: Context) -> dict[str, dict[str, dict[str, Any]]]:
        results = context["ti"].xcom_pull(task_ids=self.maintained_by) or []
        if isinstance(results, Mapping):  # Airflow returns the result of a single task as it is
            results = [results]
        summary: dict[str, dict[str, dict[str, Any]]] = {}
        for result in results:
            for step in result["steps"] if isinstance(result, Mapping) else []:
                names = ("status", "reason", "version", "predicted", "measured")
                summary.setdefault(step["table"], {})[step["verb"]] = {name: step[name] for name in names}
                self.log.info("%s", _sentence(step))
        if not summary:
            self.log.info("nothing was done")
        return summary


def _sentence(step: Mapping[str, Any]) -> str:
    if step["measured"] is None:
        return f"{step['table']}: {step['verb']} {step['status']}: {step['error']}"
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {step['measured'][name]} (predicted {step['predicted'][name]})"
        for name in _NUMBERS
        if step["measured"][name] or step["predicted"][name]
    )
    return f"{step['table']}: {step['verb']}, because {step['reason']}: {numbers}"
