"""Makes the report anew when its first table has new rows: one run for each new range of versions.

The table's asset releases it. What it has read up to is kept in the log of the table it writes, so a run that finds
nothing newer than that (an event that came twice, a trigger by hand) skips after half a minute. A store or table that
cannot be read is not a reason to skip: it fails.

Where the first table was deleted and made anew, its versions begin below what the report has read up to, and every run
fails and says so. Remove the report's table then: what it has read up to goes with it.
"""

from datetime import timedelta

from airflow.sdk import DAG

from lakehouse_airflow.assets import lakehouse_asset
from lakehouse_airflow.operators.report import LakehouseAggregateOperator, LakehouseReadCursorOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_airflow.sensors import LakehouseTableVersionSensor

# A lost race or executor passes; bad input fails at once all the same.
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
