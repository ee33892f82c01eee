"""Maintains tables: plans the steps that save more than they cost, and runs them within the registry's budget.

`plan` reads the logs of the tables. If nothing is due, `maintain` is skipped, and no Spark is started. `maintain` has
at most 32 tasks in workers and 2 tasks on Spark, for large tables; a task maintains one or several tables. The steps
are `optimize` or `z_order`, `compute_statistics`, `checkpoint`, `vacuum` and `cleanup`. `summary` logs the predicted
and the measured gain of each step.

Trigger this DAG with `{"tables": ["orders"]}` to maintain only some tables, and with `{"plan_only": true}` to see the
plan. If a table fails, the other tables are still maintained. No row changes, so no downstream DAG is triggered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.factory.settings import dag_arguments, dag_id_of, job_arguments, table_assets, valid_schedule
from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_airflow.operators.maintenance.summary import LakehouseSummaryOperator
from lakehouse_lib.fleet.registry import DagShare, Registry, dag_shares


def maintenance_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The id and the factory of each DAG that maintains tables.

    A table or a group may have a separate DAG (``airflow.per`` in the registry). The DAG ``lakehouse_maintenance``
    maintains all other tables. It exists even if there are no such tables.
    """
    for share in dag_shares(registry, registry.fleet()):
        yield dag_id_of("maintenance", share), partial(_maintenance_dag, registry, share)


def _maintenance_dag(registry: Registry, share: DagShare) -> DAG:
    settings = share.settings
    with DAG(
        dag_id_of("maintenance", share),
        schedule=valid_schedule(settings.maintenance),
        params={
            "tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables of this DAG"),
            "plan_only": Param(False, type="boolean", description="Show the plan, and run nothing"),
        },
        doc_md=__doc__,
        **dag_arguments(settings),
    ) as dag:
        plan = LakehousePlanOperator(
            task_id="plan",
            tables=share.tables,
            # A template and not dag.param, which Airflow 3.1 cannot serialize.
            only="{{ params.tables | tojson }}",
            plan_only="{{ params.plan_only }}",
            inlets=table_assets(registry, share.tables),
        )
        maintain = LakehouseMaintainOperator.partial(
            task_id="maintain",
            tables=share.tables,
            map_index_template="{{ task.label }}",
            max_active_tis_per_dagrun=2,
            **job_arguments(settings),
        ).expand(work=plan.output)

        # Runs even if a table failed, because the other tables were maintained.
        maintain >> LakehouseSummaryOperator(
            task_id="summary",
            maintained_by="maintain",
            trigger_rule=TriggerRule.ALL_DONE,
        )
        # This task makes the run fail if a table fails. Otherwise only the state of ``summary`` would decide.
        maintain >> EmptyOperator(task_id="all_maintained", trigger_rule=TriggerRule.NONE_FAILED)
    return dag
