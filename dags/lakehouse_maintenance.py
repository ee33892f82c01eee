"""Keeps tables healthy: compacts or Z-orders small files, writes a checkpoint, and deletes expired files and versions.

Trigger it with `{"tables": ["orders"]}` to maintain some tables only. A table that fails does not stop the others. No
row changes, so no downstream DAG is triggered. The task `summary` logs the results of each table.
"""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule, chain, task_group

from lakehouse_airflow.operators.change_events import LakehouseSelectTablesOperator
from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.cleanup import LakehouseCleanupOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.summary import LakehouseSummaryOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_airflow.operators.z_order import LakehouseZOrderOperator
from lakehouse_airflow.registry import load_registry

# A retry helps after a lost race or a lost executor; an error in the input fails the task at once.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

# The names are from XCom, which any user may edit; a location there would be opened with the connection's keys.
NAMED = {"map_index_template": "{{ task.table }}", "max_active_tis_per_dagrun": 2, "registered_only": True}

with DAG(
    "lakehouse_maintenance",
    schedule=load_registry().schedules.maintenance,
    catchup=False,
    default_args=RETRIES,
    max_active_runs=1,
    params={"tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables that exist")},
    doc_md=__doc__,
    tags=["lakehouse"],
) as dag:

    @task_group
    def maintain(table):
        chain(
            # Only one of these two runs for a table: z_order if the registry has cluster_by, else optimize.
            LakehouseOptimizeOperator(task_id="optimize", table=table, skip_clustered=True, **NAMED),
            LakehouseZOrderOperator(task_id="z_order", table=table, trigger_rule=TriggerRule.NONE_FAILED, **NAMED),
            LakehouseCheckpointOperator(
                task_id="checkpoint", table=table, trigger_rule=TriggerRule.NONE_FAILED, **NAMED
            ),
            LakehouseVacuumOperator(task_id="vacuum", table=table, **NAMED),
            # After the checkpoint, because commits before it can be deleted. Skips a table that keeps its whole log.
            LakehouseCleanupOperator(task_id="cleanup", table=table, **NAMED),
        )

    tables = LakehouseSelectTablesOperator(task_id="tables", having="log", only=dag.param("tables"))
    maintained = maintain.expand(table=tables.output)

    # Also if a table failed, because the others were maintained.
    maintained >> LakehouseSummaryOperator(
        task_id="summary",
        tables=tables.output,
        steps={step: f"maintain.{step}" for step in ("optimize", "z_order", "checkpoint", "vacuum", "cleanup")},
        trigger_rule=TriggerRule.ALL_DONE,
    )
    # Makes the run fail if a table fails; the state of ``summary`` alone would decide otherwise.
    maintained >> EmptyOperator(task_id="all_maintained", trigger_rule=TriggerRule.NONE_FAILED)
