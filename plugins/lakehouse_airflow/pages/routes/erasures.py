"""The page of all erasures, and the page of one erasure with its record. Both only read the ledger."""

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.factory.settings import erasure_dag_id
from lakehouse_airflow.pages.access import readable_dags
from lakehouse_airflow.pages.dag_state import newest_runs, runs_named
from lakehouse_airflow.pages.erasure_documents import MOST, documents_of, newest_documents
from lakehouse_airflow.pages.live_table import errors_as_http
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.views.erasure import erased_tables, erasure_rows, milliseconds_of, status_of
from lakehouse_airflow.registry import load_registry

router = APIRouter()


@router.get("/erasures", response_class=HTMLResponse)
def erasures_page(request: Request, user: GetUserDep) -> HTMLResponse:
    """The newest erasures of the subjects whose DAG the user may read."""
    with errors_as_http():
        registry = load_registry()
    dag_ids = {erasure_dag_id(subject): subject for subject in registry.subjects}
    subject_of = {dag_id: dag_ids[dag_id] for dag_id in sorted(readable_dags(dag_ids, user))}
    documents, problem = newest_documents(registry) if subject_of else ([], None)
    runs = newest_runs(subject_of, MOST)
    names = {(run.dag_id, run.run_id) for run in runs}
    older = {(entry.plan["dag_id"], entry.plan["run_id"]) for entry in documents} - names
    return page(
        request,
        "erasures.html",
        rows=erasure_rows(documents, [*runs, *runs_named(older)], subject_of)[:MOST],
        subject_of=subject_of,
        problem=problem,
    )


@router.get("/erasures/{subject}/{erasure}", response_class=HTMLResponse)
def erasure_page(request: Request, subject: str, erasure: str) -> HTMLResponse:
    """An erasure: its plan, its decision and its record.

    Args:
        erasure: the id of the request.
    """
    with errors_as_http():
        registry = load_registry()
        documents = documents_of(registry, subject, erasure)
    plan = documents.plan
    runs = runs_named([(plan["dag_id"], plan["run_id"])])
    run = runs[0] if runs else None
    return page(
        request,
        "erasure.html",
        plan=plan,
        decision=documents.decision,
        record=documents.record,
        state=status_of(documents, run),
        run=run,
        tables=erased_tables(documents),
        registered={entry["table"] for entry in plan["tables"] if registry.find(entry["table"]) is not None},
        moment_of=milliseconds_of,
    )
