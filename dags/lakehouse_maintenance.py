"""Keeps tables healthy: compacts small files or clusters, writes a checkpoint, deletes files and versions past their
retention.

Each table goes its own way: one that fails does not stop the others. Trigger it with `{"tables": ["orders"]}` for some.
No row changes, so no DAG downstream is released. The last task says, table by table, what was done.
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

# A lost race or executor passes; bad input fails at once all the same.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

# The tables' names come from XCom, which any user may edit: a location would be opened by the connection's keys.
NAMED = {"map_index_template": "{{ task.table }}", "max_active_tis_per_dagrun": 2, "registered_only": True}

with DAG(
    "lakehouse_maintenance",
    schedule=load_registry().schedules.maintenance,
    catchup=False,
    default_args=RETRIES,
    max_active_runs=1,
    params={"tables": Param([], type="array", items={"type": "string"}, description="Empty for all that exist")},
    doc_md=__doc__,
    tags=["lakehouse"],
) as dag:

    @task_group
    def maintain(table):
        chain(
            # One of these two has work: a table that the registry clusters has its small files merged by z_order.
            LakehouseOptimizeOperator(task_id="optimize", table=table, skip_clustered=True, **NAMED),
            LakehouseZOrderOperator(task_id="z_order", table=table, trigger_rule=TriggerRule.NONE_FAILED, **NAMED),
            LakehouseCheckpointOperator(
                task_id="checkpoint", table=table, trigger_rule=TriggerRule.NONE_FAILED, **NAMED
            ),
            LakehouseVacuumOperator(task_id="vacuum", table=table, **NAMED),
            # After the checkpoint, from which on the log is kept; skips a table that keeps its log for ever.
            LakehouseCleanupOperator(task_id="cleanup", table=table, **NAMED),
        )

    tables = LakehouseSelectTablesOperator(task_id="tables", having="log", only=dag.param("tables"))
    maintained = maintain.expand(table=tables.output)

    # Also when a table failed: what was done for the others is done.
    maintained >> LakehouseSummaryOperator(
        task_id="summary",
        tables=tables.output,
        steps={step: f"maintain.{step}" for step in ("optimize", "z_order", "checkpoint", "vacuum", "cleanup")},
        trigger_rule=TriggerRule.ALL_DONE,
    )
    # The run is as good as its tables, and not as its last task.
    maintained >> EmptyOperator(task_id="all_maintained", trigger_rule=TriggerRule.NONE_FAILED)
