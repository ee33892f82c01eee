"""The operator that carries out the work orders of a maintenance plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.bases.xcom import BaseXCom

from lakehouse_airflow.errors import InvalidParameterError, as_task_failure, failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.jobs.supervisor import dying_with_supervisor
from lakehouse_airflow.operators.base.job_operator import SubmitOperator
from lakehouse_airflow.operators.maintenance.fleet import fleet_of, record_of
from lakehouse_airflow.registry import load_registry, require_registered
from lakehouse_airflow.task_metadata import task_metadata
from spark_jobs import maintain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.fleet.work_order import WorkOrder


class LakehouseMaintainOperator(SubmitOperator):
    """Carries out work orders of a LakehousePlanOperator: in the worker on Arrow, or in one Spark application.

    The orders are from XCom, which users may edit. Therefore an order contains only the name of a registered table, its
    verbs and a limit of bytes. The other arguments of the verbs are in the registry. Each table is planned again, so a
    retry runs only the steps that are still due.

    Args:
        work: an element of the plan's result (templated).
        tables: the names of the DAG's tables; other tables are refused. None: all tables of the registry.

    Returns:
        ``{"steps": [{"table", "verb", "status", "reason", "predicted", "measured", ...}]}``.

    Raises:
        AirflowFailException: steps have failed, and a retry helps none of them. The other steps were run.
        AirflowException: steps have failed, and a retry may help one of them. The other steps were run.
    """

    job = "maintain"
    job_parameters = maintain.PARAMETERS
    template_fields: Sequence[str] = (*SubmitOperator.template_fields, "work")

    def __init__(self, *, work: Any, tables: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.work = work
        self._orders: list[WorkOrder] = []

    @property
    def label(self) -> str:
        """The label of the tables, for ``map_index_template``."""
        orders = self.work.get("orders") if isinstance(self.work, Mapping) else None
        return label_of([str(order.get("table")) for order in orders or [] if isinstance(order, Mapping)])

    def opened_tables(self) -> list[str]:
        return [order.table for order in self._orders]

    def storage_options(self, hook: LakehouseHook) -> dict[str, dict[str, str] | None]:
        records, options = load_registry().records, super().storage_options(hook)
        if records is not None:
            options[records] = hook.opener_of_records().storage_options(records)
        return options

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:
        registry = load_registry()
        tables = fleet_of(registry, [order.table for order in self._orders], hook)
        body = {
            "records": registry.records,
            "tables": [
                {"name": table.name, "location": hook.uri(table.name), "policy": asdict(table.policy)}
                for table in tables
            ],
            "orders": [order.to_dict() for order in self._orders],
        }
        return {"orders_file": json.dumps(body)}

    def execute(self, context: Context) -> dict[str, Any]:
        from lakehouse_lib.fleet.work_order import WorkOrder

        work = self.work if isinstance(self.work, Mapping) else {}
        if work.get("engine") not in ("arrow", "spark") or not isinstance(work.get("orders"), list):
            raise InvalidParameterError("work is not an element of a plan's result; run the DAG again from the start")
        with as_task_failure():
            self._orders = [WorkOrder.of_dict(values) for values in work["orders"]]
            for order in self._orders:
                require_registered(order.table, self.tables)
        result = super().execute(context) if work["engine"] == "spark" else self._in_this_process(context)
        failed = [step for step in result["steps"] if step["status"] == "failed"]
        if failed:
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, result)
            raise _failure_of(failed)
        return result

    def _in_this_process(self, context: Context) -> dict[str, Any]:
        from lakehouse_lib import ArrowEngine, commit_metadata
        from lakehouse_lib.fleet.maintenance import carry_out
        from lakehouse_lib.progress import log_observer

        # The task dies with its supervisor, because the next try takes over the leases of this try.
        with as_task_failure(), dying_with_supervisor(), commit_metadata(task_metadata(context)):
            hook, registry = LakehouseHook(self.lakehouse_conn_id), load_registry()
            tables = fleet_of(registry, [order.table for order in self._orders], hook)
            steps = carry_out(
                self._orders,
                tables,
                ArrowEngine,
                record_of(registry, hook),
                on_step=lambda step: self.log.info("%s %s: %s", step.verb, step.table, step.status),
                observer=lambda step: log_observer(f"{step.verb} of {step.table}"),
            )
        return {"steps": [step.to_dict() for step in steps]}


def label_of(tables: Sequence[str]) -> str:
    """The first two names and the number of the others, at most 250 characters.

    Airflow stores the label of a mapped task in a column of 250 characters. PostgreSQL and MySQL refuse a longer text.
    """
    names = [name if len(name) <= 100 else f"{name[:99]}…" for name in tables[:2]]
    return ", ".join(names) + (f" and {len(tables) - 2} more" if len(tables) > 2 else "")


def _failure_of(failed: Sequence[Mapping[str, Any]]) -> AirflowException:
    """One exception for all failed steps. It allows a retry if a retry may help one of the steps."""
    errors = [failure(step["error_type"], f"{step['verb']} of {step['table']}: {step['error']}") for step in failed]
    is_final = all(isinstance(error, AirflowFailException) for error in errors)
    kind = AirflowFailException if is_final else AirflowException
    return kind("\n".join(str(error) for error in errors))
