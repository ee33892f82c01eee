"""Computes the report again when its first table has new rows: a run for each new range of versions.

The asset of the first table triggers this DAG. The log of the report's table has a cursor: the version of the first
table from which the report was computed. If the first table has no later version (after a duplicate event, or a trigger
by hand), the tasks are skipped after half a minute. If the store or a table cannot be read, the run fails.

If the first table is recreated, its versions start below the cursor, and every run fails with this reason. In this
case, delete the report's table, which also deletes the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.sdk import DAG

from lakehouse_airflow.assets import lakehouse_asset
from lakehouse_airflow.factory.settings import COMMON, RETRIES, TAG, table_assets
from lakehouse_airflow.operators.report import LakehouseAggregateOperator, LakehouseReadCursorOperator
from lakehouse_airflow.sensors import LakehouseTableVersionSensor
from lakehouse_lib.fleet.registry import Registry, Report

#: The DAG's id, which is also the application id of its cursor.
_APP_ID = "lakehouse_report"


def report_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The id and the factory of the report's DAG; nothing if the registry has no report."""
    if registry.report is not None:
        yield _APP_ID, partial(_report_dag, registry, registry.report)


def _report_dag(registry: Registry, report: Report) -> DAG:
    inputs = table_assets(registry, report.tables)
    # By this name, the registry has the connection of the table.
    output = "report" if "report" not in registry.tables else report.output
    with DAG(
        _APP_ID,
        schedule=inputs[:1],
        **COMMON,
        default_args=RETRIES,
        max_active_runs=1,
        doc_md=__doc__,
        tags=[TAG],
    ) as dag:
        cursor = LakehouseReadCursorOperator(task_id="cursor", table=output, app_id=_APP_ID)

        new_version = LakehouseTableVersionSensor(
            task_id="new_version",
            table=report.tables[0],
            baseline_version=cursor.output,
            deferrable=True,
            poke_interval=5,
            timeout=30,
            soft_fail=True,
        )

        new_version >> LakehouseAggregateOperator(
            task_id="aggregate",
            table=output,
            inputs=report.tables,
            sql_file=report.sql,
            app_id=_APP_ID,
            app_version="{{ ti.xcom_pull('new_version')['version'] }}",
            inlets=inputs,
            outlets=[lakehouse_asset(report.output)],
        )
    return dag
