"""Maintains tables: plans the steps that pay within the registry's budget, and runs them.

`plan` looks at the logs of the tables. If nothing is due, the run ends there and starts no Spark. `maintain` has a
task for each table (or for several, if there are many), in the worker, or in Spark for large tables. Its steps are
`optimize` or `z_order`, `compute_statistics`, `checkpoint`, `vacuum` and `cleanup`. `summary` logs what each step was
predicted to gain, and what it gained.

Trigger it with `{"tables": ["orders"]}` to maintain some tables only, and with `{"plan_only": true}` to see the plan. A
table that fails does not stop the others. No row changes, so no downstream DAG is triggered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.factory.settings import dag_arguments, dag_id_of, job_arguments, store_arguments, table_assets
from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_airflow.operators.maintenance.summary import LakehouseSummaryOperator
from lakehouse_lib.fleet.registry import DagShare, Registry, dag_shares


def maintenance_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """A DAG for each share of the fleet; the DAG of all other tables always exists."""
    for share in dag_shares(registry, registry.fleet()):
        yield dag_id_of("maintenance", share), partial(_maintenance_dag, registry, share)


def _maintenance_dag(registry: Registry, share: DagShare) -> DAG:
    settings = share.settings
    with DAG(
        dag_id_of("maintenance", share),
        schedule=settings.maintenance,
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
            # Not dag.param, which Airflow 3.1 cannot serialize.
            only="{{ params.tables | tojson }}",
            plan_only="{{ params.plan_only }}",
            inlets=table_assets(registry, share.tables),
            **store_arguments(settings),
        )
        maintained = LakehouseMaintainOperator.partial(
            task_id="maintain",
            map_index_template="{{ task.tables }}",
            max_active_tis_per_dagrun=2,
            **job_arguments(settings),
        ).expand(work=plan.output)

        # Also if a table failed, because the others were maintained.
        maintained >> LakehouseSummaryOperator(
            task_id="summary",
            maintained_by="maintain",
            trigger_rule=TriggerRule.ALL_DONE,
            **store_arguments(settings),
        )
        # Makes the run fail if a table fails; the state of ``summary`` alone would decide otherwise.
        maintained >> EmptyOperator(task_id="all_maintained", trigger_rule=TriggerRule.NONE_FAILED)
    return dag
