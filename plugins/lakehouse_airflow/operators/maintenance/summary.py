"""The operator that summarizes a maintenance run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.maintenance.fleet import fleet_of, health_record_of
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import RegistryError

if TYPE_CHECKING:
    from airflow.sdk import Context

_NUMBERS = ("files_removed", "files_added", "bytes_written", "bytes_freed", "query_bytes")


class LakehouseSummaryOperator(BaseOperator):
    """Returns and logs the predicted and the measured effects of a maintenance run, by table and verb.

    If the registry has ``records``, the health of the maintained tables is appended to the history of health, so that
    the newest score in the history is the score after the run.

    Args:
        maintained_by: task id of the mapped LakehouseMaintainOperator.

    Returns:
        ``{table: {verb: {"status", "reason", "version", "predicted", "measured", "prediction_error"}}}``; ``measured``
        and ``prediction_error`` are null for a step that has failed or could not be measured.
    """

    template_fields = ("lakehouse_conn_id",)

    def __init__(self, *, maintained_by: str, lakehouse_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.maintained_by = maintained_by
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, dict[str, dict[str, Any]]]:
        results = context["ti"].xcom_pull(task_ids=self.maintained_by) or []
        if isinstance(results, Mapping):  # Airflow returns the result of a single task as it is
            results = [results]
        from lakehouse_lib.fleet.planner.step import Effect
        from lakehouse_lib.fleet.prediction_error import error_text, prediction_error

        summary: dict[str, dict[str, dict[str, Any]]] = {}
        effects: list[tuple[Effect, Effect]] = []
        for result in results:
            for step in result["steps"] if isinstance(result, Mapping) else []:
                names = ("status", "reason", "version", "predicted", "measured", "prediction_error")
                summary.setdefault(step["table"], {})[step["verb"]] = {name: step[name] for name in names}
                self.log.info("%s", _sentence(step))
                if step["measured"] is not None:
                    effects.append((Effect(**step["predicted"]), Effect(**step["measured"])))
        if not summary:
            self.log.info("nothing was done")
        else:
            self.log.info("all predictions: %s", error_text(prediction_error(effects)))
            self._record_health(summary)
        return summary

    def _record_health(self, names: Iterable[str]) -> None:
        """Record the health of the registered tables among ``names``, which are from XCom. Users may edit XCom."""
        from lakehouse_lib.fleet.health.fleet_health import record_health

        hook = LakehouseHook(self.lakehouse_conn_id)
        try:
            registry = load_registry()
        except RegistryError as error:  # the maintenance has ended, and a missing record does not fail the run
            self.log.warning("the health after the run is not recorded: %s", error)
            return
        history = health_record_of(registry, hook)
        if history is not None:
            registered_names = [name for name in names if isinstance(name, str) and registry.find(name)]
            record_health(fleet_of(registry, registered_names, hook), history)


def _sentence(step: Mapping[str, Any]) -> str:
    from lakehouse_lib.fleet.prediction_error import error_text

    if step["measured"] is None:
        return f"{step['table']}: {step['verb']} {step['status']}: {step['error'] or 'the effect was not measured'}"
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {step['measured'][name]} (predicted {step['predicted'][name]})"
        for name in _NUMBERS
        if step["measured"][name] or step["predicted"][name]
    )
    error = error_text(step["prediction_error"])
    return f"{step['table']}: {step['verb']}, because {step['reason']}: {numbers}; prediction: {error}"
