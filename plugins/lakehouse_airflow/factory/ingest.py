"""Loads new files from the landing folders, with a task for each table.

Trigger this DAG with `{"tables": ["orders"]}` to load only some tables. Each file is loaded once, and later runs skip
the file. If a table fails, the other tables are still loaded. Each table with new rows gets an asset event, which
starts the DAGs that are scheduled on the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.providers.common.compat.sdk import conf
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from lakehouse_airflow.factory.settings import dag_arguments, dag_id_of, job_arguments, table_assets, valid_schedule
from lakehouse_airflow.operators.asset_events import LakehousePublishOperator, LakehouseSelectTablesOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_lib.fleet.registry import DagShare, Registry, dag_shares


def ingest_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The id and the factory of each DAG that loads tables.

    A table or a group may have a separate DAG (``airflow.per`` in the registry). The DAG ``lakehouse_ingest`` loads all
    other tables that have a source. It exists even if there are no such tables.
    """
    for share in dag_shares(registry, registry.loaded_tables()):
        yield dag_id_of("ingest", share), partial(_ingest_dag, registry, share)


def _ingest_dag(registry: Registry, share: DagShare) -> DAG:
    settings = share.settings
    with DAG(
        dag_id_of("ingest", share),
        schedule=valid_schedule(settings.ingest),
        params={
            "tables": Param([], type="array", items={"type": "string"}, description="Empty: all tables of this DAG")
        },
        doc_md=__doc__,
        **dag_arguments(settings),
    ) as dag:
        all_loaded = EmptyOperator(task_id="all_loaded")
        # A mapped task has at most this number of task instances, so many tables are loaded by several mapped tasks.
        most = conf.getint("core", "max_map_length", fallback=1024)
        selections, loads = [], []
        for number, skip in enumerate(range(0, max(len(share.tables), 1), most), start=1):
            suffix = "" if number == 1 else f"_{number}"
            tables = LakehouseSelectTablesOperator(
                task_id=f"tables{suffix}",
                having="source",
                tables=share.tables,
                # A template and not dag.param, which Airflow 3.1 cannot serialize.
                only="{{ params.tables | tojson }}",
                skip=skip,
                most=most,
                trigger_rule=TriggerRule.ALL_DONE,
            )
            ingest = LakehouseIngestOperator.partial(
                task_id=f"ingest{suffix}",
                tables=share.tables,
                map_index_template="{{ task.table }}",
                max_active_tis_per_dagrun=2,
                **job_arguments(settings),
            ).expand(table=tables.output)

            # Runs even if the load of a table failed, because the other tables have new rows.
            publish = LakehousePublishOperator(
                task_id=f"publish{suffix}",
                versions=tables.output["versions"],
                assets=table_assets(registry, share.tables[skip : skip + most]),
                trigger_rule=TriggerRule.ALL_DONE,
            )
            ingest >> publish
            # This task makes the run fail if a load fails. Otherwise only the state of ``publish`` would decide.
            ingest >> all_loaded
            selections.append(tables)
            loads.append(ingest)
        for load, next_selection in zip(loads, selections[1:], strict=False):
            load >> next_selection  # so that at most two tables are loaded at the same time
    return dag
