"""Erases a customer: the rows in every table, and the files on disk that still hold them.

Trigger it with `{"customer_id": 4711}`. It finds the customer's rows and waits until a person approves; rejecting ends
the run. Rows go from what hangs on the customer to the customer, so a run that breaks off can be cleared and finished:
the keys it found are kept. Where rows with other keys have come meanwhile, it deletes nothing and says so. The report
counts the customer's rows in every file on disk and fails when one is left.

Quarantine may hold records of which no key says whose they are. They stay, and are counted; the approval names those
that mention the customer. With `"erase_mentions": true` these are erased too.
"""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, TriggerRule, chain

from lakehouse_airflow.operators.change_events import LakehousePublishOperator
from lakehouse_airflow.operators.erasure import (
    LakehouseEraseOperator,
    LakehouseErasureReportOperator,
    LakehouseLocateSubjectOperator,
    LakehousePurgeOperator,
    subject_param,
)
from lakehouse_airflow.registry import load_registry

# A lost race or executor passes; bad input fails at once all the same.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

REGISTRY = load_registry()
SUBJECT = "customer"
ERASURE = {"located_by": "locate", "approved_by": "approve"}

if SUBJECT in REGISTRY.subjects:
    with DAG(
        "lakehouse_erasure",
        schedule=None,
        catchup=False,
        default_args=RETRIES,
        max_active_runs=1,
        params={
            "customer_id": subject_param(SUBJECT),
            "erase_mentions": Param(False, type="boolean", title="Erase unattributed records that mention them, too"),
        },
        doc_md=__doc__,
        tags=["lakehouse"],
    ):
        locate = LakehouseLocateSubjectOperator(
            task_id="locate",
            subject=SUBJECT,
            subject_id="{{ params.customer_id }}",
            erase_mentions="{{ params.erase_mentions }}",
        )

        approve = ApprovalOperator(
            task_id="approve",
            subject="Erase customer {{ params.customer_id }}?",
            body="""Deleted for good, on disk too, and with them the versions that hold them:
{% for table, found in ti.xcom_pull('locate')['tables'].items() %}
* {{ table }}: {{ found.rows }} rows in {{ found.files }} files
{%- endfor %}
{% for table, found in ti.xcom_pull('locate')['tables'].items() if found.unattributed %}
{% set unknown = found.unattributed -%}
* {{ table }} also has {{ unknown.records }} records of which no key says whose they are: WHERE {{ unknown.predicate }}.
{{ unknown.mentions }} of them hold the customer's keys as a field
{%- if unknown.mentions %}: {{ unknown.places | join(', ') }}; {{ 'erased too' if unknown.erased else 'kept' }}
{%- endif %}.
{%- endfor %}""",
        )

        delete = LakehouseEraseOperator(task_id="delete", tables=REGISTRY.subject(SUBJECT).tables(), **ERASURE)
        purge = LakehousePurgeOperator(task_id="purge", **ERASURE)
        report = LakehouseErasureReportOperator(task_id="report", located_by="locate")
        chain(locate, approve, delete, purge, report)

        # Also when the delete failed: the rows that are gone by then are gone.
        publish = LakehousePublishOperator(
            task_id="publish", versions=locate.output["versions"], trigger_rule=TriggerRule.ALL_DONE
        )
        delete >> publish
