"""Erases a person: deletes the person's rows from every table, and the files on disk that still have these rows.

Trigger this DAG with the id of the person, such as `{"customer_id": 4711}`. The run finds the person's rows, puts the
plan into the ledger, and waits for the answer of one of the subject's approvers in the registry. After a rejection, the
run ends. After an approval, the run deletes the rows, child tables before their parent tables, and purges the files. If
rows with new keys have arrived since the plan, the run deletes nothing and fails. If the run fails, clear it from the
task `delete` on. The report counts the person's rows in every file on disk, fails if a row is left, and puts the record
into the ledger.

A quarantine may have records without a readable key. The question shows how many of these records mention the person.
They are kept. With `"erase_mentions": true`, the records that mention the person are erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow.sdk import DAG, Param, TriggerRule, chain

from lakehouse_airflow.factory.settings import COMMON, RETRIES, TAG, erasure_dag_id, table_assets
from lakehouse_airflow.operators.asset_events import LakehousePublishOperator
from lakehouse_airflow.operators.erasure.approval import LakehouseErasureApprovalOperator
from lakehouse_airflow.operators.erasure.erase import LakehouseEraseOperator, LakehousePurgeOperator
from lakehouse_airflow.operators.erasure.locate import (
    ERASE_MENTIONS,
    LakehouseLocateSubjectOperator,
    id_param,
    subject_param,
)
from lakehouse_airflow.operators.erasure.report import LakehouseErasureReportOperator
from lakehouse_lib.fleet.registry import Registry


def erasure_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The id and the factory of the DAG of each subject."""
    for subject in registry.subjects:
        yield erasure_dag_id(subject), partial(_erasure_dag, registry, subject)


def _erasure_dag(registry: Registry, subject: str) -> DAG:
    with DAG(
        erasure_dag_id(subject),
        schedule=None,
        **COMMON,
        max_active_runs=1000,  # a run is active while it waits for an answer
        default_args=RETRIES,
        params={
            id_param(subject): subject_param(subject),
            ERASE_MENTIONS: Param(
                False, type="boolean", title="Erase records without a readable key that mention the person, too"
            ),
        },
        doc_md=__doc__,
        tags=[TAG],
    ) as dag:
        tables = dict.fromkeys(rows.table for rows in registry.subjects[subject].rows)
        assets = table_assets(registry, tables)
        locate = LakehouseLocateSubjectOperator(task_id="locate", subject=subject, inlets=assets)
        approve = LakehouseErasureApprovalOperator(task_id="approve", subject=subject, located_by="locate")
        approved = {"subject": subject, "located_by": "locate", "approved_by": "approve"}
        # Two concurrent deletes may rewrite the same files, and one of them would then fail with a conflict.
        delete = LakehouseEraseOperator(task_id="delete", max_active_tis_per_dag=1, **approved)
        purge = LakehousePurgeOperator(task_id="purge", **approved)
        report = LakehouseErasureReportOperator(task_id="report", **approved)
        chain(locate, approve, delete, purge, report)

        # Runs also after a failed delete, which may have deleted rows of some tables.
        publish = LakehousePublishOperator(
            task_id="publish",
            versions=locate.output["versions"],
            assets=assets,
            trigger_rule=TriggerRule.ALL_DONE,
        )
        delete >> publish
    return dag
