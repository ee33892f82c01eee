"""The operator that plans a maintenance run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, timezone

from lakehouse_airflow.errors import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.asset_events import table_names
from lakehouse_airflow.operators.base.rendered import read_rendered
from lakehouse_airflow.operators.maintenance.fleet import fleet_of, health_record_of, record_of
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.catalogue.operation import Parameter

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.fleet.maintenance import FleetPlan


_PARAMETERS = (
    Parameter("plan_only", "flag", "write the plan to the log and run nothing", default=False),
    Parameter("spark_from_bytes", "bytes", "the number of bytes from which Spark maintains a table", default=2**30),
    Parameter("workers", "count", "the largest number of tasks in workers", default=32),
    Parameter("spark_jobs", "count", "the largest number of Spark applications", default=2),
)


class LakehousePlanOperator(BaseOperator):
    """Plans a maintenance run of the registry's tables, within the registry's budget. Reads only logs of tables.

    The log of the task shows every step with its reason, its predicted gain and its cost. If the registry has
    ``records``, the health of each table is appended to the history of health. All arguments are templated.

    Args:
        tables: the names of the DAG's tables; None: all tables of the registry and their quarantines.
        only: the names of tables or quarantines to plan; empty: all tables of the DAG that exist.
        plan_only: write the plan to the log and return no tasks.
        spark_from_bytes: Spark maintains a table if the steps read and write at least this number of bytes; otherwise
            Airflow's worker does. A table's ``engine`` in the registry overrides this.
        workers: the largest number of tasks in Airflow's workers. If there are more tables, a task maintains several
            tables.
        spark_jobs: the largest number of Spark applications. An application maintains several tables, because its start
            takes seconds.

    Returns:
        The tasks of the run: ``[{"engine": "arrow" or "spark", "orders": [...]}]``. A table that cannot be planned has
        an order, too, so that its own task fails.

    Raises:
        AirflowFailException: the registry or the DAG does not have a name, or the budget is too small for any step.
    """

    template_fields: Sequence[str] = (
        *("tables", "only", "plan_only", "spark_from_bytes", "workers", "spark_jobs", "lakehouse_conn_id"),
    )
    ui_color = "#e6f4ea"

    def __init__(
        self,
        *,
        tables: Sequence[str] | None = None,
        only: Any = (),
        plan_only: Any = False,
        spark_from_bytes: int = 2**30,
        workers: int = 32,
        spark_jobs: int = 2,
        lakehouse_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.only = only
        self.plan_only = plan_only
        self.spark_from_bytes = spark_from_bytes
        self.workers = workers
        self.spark_jobs = spark_jobs
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002
        from lakehouse_lib.fleet.health.fleet_health import record_health
        from lakehouse_lib.fleet.maintenance import plan_fleet
        from lakehouse_lib.fleet.planner.budget import Budget
        from lakehouse_lib.fleet.table_run import append
        from lakehouse_lib.fleet.work_order import shares

        hook = LakehouseHook(self.lakehouse_conn_id)
        with as_task_failure():
            read_rendered(self, _PARAMETERS)
            registry = load_registry()
            only = table_names(self.only, self.tables)
            every = registry.fleet() if self.tables is None else self.tables
            tables = fleet_of(registry, sorted(set(only)) or sorted(every), hook)
            record = record_of(registry, hook)
            most_bytes, seconds = registry.budget.limits(timezone.utcnow())
            if seconds == 0:
                self.log.info("nothing to do: the window of the budget is closed")
                return []
            fleet = plan_fleet(tables, Budget(most_bytes, seconds), record, skip_missing=not only)
            history = health_record_of(registry, hook)
            if history is not None:
                record_health(tables, history)
        self._show(fleet)
        if self.plan_only:
            self.log.info("plan_only: nothing is run")
            return []
        append(record, fleet.deferred())
        orders = fleet.orders()
        engines = [
            registry.table(order.table).maintenance.engine
            or ("spark" if order.bytes >= self.spark_from_bytes else "arrow")
            for order in orders
        ]
        return [
            {"engine": engine, "orders": [order.to_dict() for order in share]}
            for engine, most in (("arrow", self.workers), ("spark", self.spark_jobs))
            for share in shares([order for order, name in zip(orders, engines, strict=True) if name == engine], most)
        ]

    def _show(self, fleet: FleetPlan) -> None:
        for step in fleet.plan.steps:
            self.log.info(
                "%s %s: %s%s. A query reads %d bytes less, %d bytes are freed; %d bytes are read and written",
                *(step.verb, step.table, step.reason, "" if step.partitions is None else f"; {step.partitions.text}"),
                *(step.predicted.query_bytes, step.predicted.bytes_freed, step.bytes),
            )
        for step in fleet.plan.deferred:
            self.log.info("deferred by the budget: %s %s: %s", step.verb, step.table, step.reason)
        for table, error in fleet.errors.items():
            self.log.warning("%s cannot be planned: %s", table, error)
        if not fleet.plan.steps and not fleet.errors:
            self.log.info("nothing to do")
