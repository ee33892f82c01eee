"""Erases a person: the rows in every table, and the files on disk that still hold them.

Trigger it with the id of the person, such as `{"customer_id": 4711}`. It finds the person's rows, puts the plan into
the ledger, and waits until one of the registry's approvers answers; rejecting ends the run. Rows go from what hangs on
the person to the person, so a run that breaks off can be cleared from its delete on and finished. Where rows with other
keys have arrived meanwhile, it deletes nothing and fails. The report counts the person's rows in every file on disk,
fails when one is left, and puts the record into the ledger.

Quarantine may hold records without a readable key. They stay, and are counted; the approval says how many
of them mention the person. With `"erase_mentions": true` these are erased too.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param, TriggerRule, chain

from lakehouse_airflow.operators.change_events import LakehousePublishOperator
from lakehouse_airflow.operators.erasure.approval import LakehouseErasureApprovalOperator
from lakehouse_airflow.operators.erasure.erase import LakehouseEraseOperator, LakehousePurgeOperator
from lakehouse_airflow.operators.erasure.locate import (
    ERASE_MENTIONS,
    LakehouseLocateSubjectOperator,
    id_param,
    subject_param,
)
from lakehouse_airflow.operators.erasure.report import LakehouseErasureReportOperator
from lakehouse_airflow.registry import load_registry

# A lost race or executor passes; bad input fails at once all the same.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

for subject in load_registry().subjects:
    with DAG(
        f"lakehouse_erasure_{subject}",
        schedule=None,
        catchup=False,
        max_active_runs=1000,  # a run is active as long as its question is open
        default_args=RETRIES,
        params={
            id_param(subject): subject_param(subject),
            ERASE_MENTIONS: Param(False, type="boolean", title="Erase unattributed records that mention them, too"),
        },
        doc_md=__doc__,
        tags=["lakehouse"],
    ):
        locate = LakehouseLocateSubjectOperator(task_id="locate", subject=subject)
        approve = LakehouseErasureApprovalOperator(task_id="approve", subject=subject, located_by="locate")
        approved = {"subject": subject, "located_by": "locate", "approved_by": "approve"}
        # Two runs would rewrite the same files, and one of them would do so in vain.
        delete = LakehouseEraseOperator(task_id="delete", max_active_tis_per_dag=1, **approved)
        purge = LakehousePurgeOperator(task_id="purge", **approved)
        report = LakehouseErasureReportOperator(task_id="report", **approved)
        chain(locate, approve, delete, purge, report)

        # Also when the delete failed: the rows that are gone by then are gone.
        publish = LakehousePublishOperator(
            task_id="publish", versions=locate.output["versions"], trigger_rule=TriggerRule.ALL_DONE
        )
        delete >> publish
