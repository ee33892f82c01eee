"""Loads what has landed, a task a table.

Trigger it with `{"tables": ["orders"]}` to load only some. A file is loaded once, however often this runs, and a table
that fails does not stop the others. Tables that got rows are published as assets, and DAGs that wait for them start.
"""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.operators.change_events import LakehousePublishOperator, LakehouseSelectTablesOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.registry import load_registry

# A lost race or executor passes; bad input fails at once all the same.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "lakehouse_ingest",
    schedule=load_registry().schedules.ingest,
    catchup=False,
    default_args=RETRIES,
    max_active_runs=1,
    params={"tables": Param([], type="array", items={"type": "string"}, description="Empty for all with a source")},
    doc_md=__doc__,
    tags=["lakehouse"],
) as dag:
    tables = LakehouseSelectTablesOperator(task_id="tables", having="source", only=dag.param("tables"))

    ingest = LakehouseIngestOperator.partial(
        task_id="ingest", map_index_template="{{ task.table }}", max_active_tis_per_dagrun=2
    ).expand(table=tables.output)

    # Also when a table failed: what the others have loaded is there.
    publish = LakehousePublishOperator(
        task_id="publish", versions=tables.output["versions"], trigger_rule=TriggerRule.ALL_DONE
    )
    ingest >> publish
    # The run is as good as its loads, and not as its last task.
    ingest >> EmptyOperator(task_id="all_loaded")
