"""Computes the report again when its first table has new rows: a run for each new range of versions.

The table's asset triggers it. The log of the report's table has a cursor: the version of the first table from which the
report was computed. If the first table has no later version (after a duplicate event, or a trigger by hand), the tasks
are skipped after half a minute. If the store or a table cannot be read, the run fails.

If the first table is recreated, its versions start below the cursor, and every run fails with this reason. Then delete
the report's table, which also deletes the cursor.
"""

from datetime import timedelta

from airflow.sdk import DAG

from lakehouse_airflow.assets import lakehouse_asset
from lakehouse_airflow.operators.report import LakehouseAggregateOperator, LakehouseReadCursorOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_airflow.sensors import LakehouseTableVersionSensor

# A retry helps after a lost race or a lost executor; an error in the input fails the task at once.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

APP_ID = "lakehouse_report"
REPORT = load_registry().report

if REPORT is not None:
    with DAG(
        "lakehouse_report",
        schedule=[lakehouse_asset(REPORT.tables[0])],
        catchup=False,
        default_args=RETRIES,
        max_active_runs=1,
        doc_md=__doc__,
        tags=["lakehouse"],
    ):
        cursor = LakehouseReadCursorOperator(task_id="cursor", table=REPORT.output, app_id=APP_ID)

        new_version = LakehouseTableVersionSensor(
            task_id="new_version",
            table=REPORT.tables[0],
            baseline_version=cursor.output,
            deferrable=True,
            poke_interval=5,
            timeout=30,
            soft_fail=True,
        )

        new_version >> LakehouseAggregateOperator(
            task_id="aggregate",
            table=REPORT.output,
            inputs=REPORT.tables,
            sql_file=REPORT.sql,
            app_id=APP_ID,
            app_version="{{ ti.xcom_pull('new_version')['version'] }}",
        )
