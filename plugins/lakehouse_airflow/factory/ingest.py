"""Loads new files from the landing folders, with a task for each table.

Trigger it with `{"tables": ["orders"]}` to load some tables only. Each file is loaded once, and later runs skip it. A
table that fails does not stop the others. Each table with new rows gets an asset event, which starts the DAGs that are
scheduled on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.factory.settings import dag_arguments, dag_id_of, job_arguments, store_arguments, table_assets
from lakehouse_airflow.operators.change_events import LakehousePublishOperator, LakehouseSelectTablesOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_lib.fleet.registry import DagShare, Registry, dag_shares


def ingest_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """A DAG for each share of the tables that have a source; the DAG of all other tables always exists."""
    for share in dag_shares(registry, registry.loaded_tables()):
        yield dag_id_of("ingest", share), partial(_ingest_dag, registry, share)


def _ingest_dag(registry: Registry, share: DagShare) -> DAG:
    settings = share.settings
    store = store_arguments(settings)
    with DAG(
        dag_id_of("ingest", share),
        schedule=settings.ingest,
        params={
            "tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables of this DAG")
        },
        doc_md=__doc__,
        **dag_arguments(settings),
    ) as dag:
        tables = LakehouseSelectTablesOperator(
            # Not dag.param, which Airflow 3.1 cannot serialize.
            task_id="tables",
            having="source",
            tables=share.tables,
            only="{{ params.tables | tojson }}",
            **store,
        )

        ingest = LakehouseIngestOperator.partial(
            task_id="ingest",
            map_index_template="{{ task.table }}",
            max_active_tis_per_dagrun=2,
            **job_arguments(settings),
        ).expand(table=tables.output)

        # Also if a table failed, because the others have new rows.
        publish = LakehousePublishOperator(
            task_id="publish",
            versions=tables.output["versions"],
            assets=table_assets(registry, share.tables),
            trigger_rule=TriggerRule.ALL_DONE,
            **store,
        )
        ingest >> publish
        # Makes the run fail if a load fails; the state of ``publish`` alone would decide otherwise.
        ingest >> EmptyOperator(task_id="all_loaded")
    return dag
