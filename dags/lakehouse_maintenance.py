"""Maintains tables: plans the steps that pay within the registry's budget, and runs them.

`plan` looks at the logs of all tables. If nothing is due, the run ends there and starts no Spark. `maintain` has a
task for each table (or for several, if there are many), in the worker, or in Spark for large tables. Its steps are
`optimize` or `z_order`, `compute_statistics`, `checkpoint`, `vacuum` and `cleanup`. `summary` logs what each step was
predicted to gain, and what it gained.

Trigger it with `{"tables": ["orders"]}` to maintain some tables only, and with `{"plan_only": true}` to see the plan. A
table that fails does not stop the others. No row changes, so no downstream DAG is triggered.
"""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_airflow.operators.maintenance.summary import LakehouseSummaryOperator
from lakehouse_airflow.registry import load_registry

# A retry helps after a lost race or a lost executor; an error in the input fails the task at once.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "lakehouse_maintenance",
    schedule=load_registry().schedules.maintenance,
    catchup=False,
    default_args=RETRIES,
    max_active_runs=1,
    params={
        "tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables that exist"),
        "plan_only": Param(False, type="boolean", description="Show the plan, and run nothing"),
    },
    doc_md=__doc__,
    tags=["lakehouse"],
) as dag:
    plan = LakehousePlanOperator(task_id="plan", only=dag.param("tables"), plan_only=dag.param("plan_only"))
    maintained = LakehouseMaintainOperator.partial(
        task_id="maintain", map_index_template="{{ task.tables }}", max_active_tis_per_dagrun=2
    ).expand(work=plan.output)

    # Also if a table failed, because the others were maintained.
    maintained >> LakehouseSummaryOperator(
        task_id="summary", maintained_by="maintain", trigger_rule=TriggerRule.ALL_DONE
    )
    # Makes the run fail if a table fails; the state of ``summary`` alone would decide otherwise.
    maintained >> EmptyOperator(task_id="all_maintained", trigger_rule=TriggerRule.NONE_FAILED)
