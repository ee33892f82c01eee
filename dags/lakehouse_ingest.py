"""Loads new files from the landing folders, with a task for each table.

Trigger it with `{"tables": ["orders"]}` to load some tables only. Each file is loaded once, in however many runs. A
table that fails does not stop the others. Each table with new rows gets an asset event, which starts the DAGs that are
scheduled on it.
"""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.operators.change_events import LakehousePublishOperator, LakehouseSelectTablesOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.registry import load_registry

# A retry helps after a lost race or a lost executor; an error in the input fails the task at once.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "lakehouse_ingest",
    schedule=load_registry().schedules.ingest,
    catchup=False,
    default_args=RETRIES,
    max_active_runs=1,
    params={"tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables with a source")},
    doc_md=__doc__,
    tags=["lakehouse"],
) as dag:
    tables = LakehouseSelectTablesOperator(task_id="tables", having="source", only=dag.param("tables"))

    ingest = LakehouseIngestOperator.partial(
        task_id="ingest", map_index_template="{{ task.table }}", max_active_tis_per_dagrun=2
    ).expand(table=tables.output)

    # Also if a table failed, because the others have new rows.
    publish = LakehousePublishOperator(
        task_id="publish", versions=tables.output["versions"], trigger_rule=TriggerRule.ALL_DONE
    )
    ingest >> publish
    # Makes the run fail if a load fails; the state of ``publish`` alone would decide otherwise.
    ingest >> EmptyOperator(task_id="all_loaded")
