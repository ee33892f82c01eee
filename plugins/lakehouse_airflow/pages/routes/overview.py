"""The page of all tables, from the registry and the records. It opens no table of the registry."""

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from lakehouse_airflow.pages.access import readable_dags
from lakehouse_airflow.pages.dag_state import dag_states
from lakehouse_airflow.pages.live_table import errors_as_http
from lakehouse_airflow.pages.records import DAYS, newest_records
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.table_dags import maintenance_dags
from lakehouse_airflow.pages.urls import Urls
from lakehouse_airflow.pages.views.fleet import COLUMNS, NUMBERS, matching_rows, sorted_rows, table_rows, totals
from lakehouse_airflow.registry import load_registry

router = APIRouter()

#: By default, the tables with the worst score are first.
_SORT, _ORDER = "score", "asc"


@router.get("/")
def start(request: Request) -> RedirectResponse:
    """Redirect to the page of all tables."""
    return RedirectResponse(Urls.of(request).tables())


@router.get("/tables", response_class=HTMLResponse)
def tables(request: Request, user: GetUserDep, q: str = "", sort: str = _SORT, order: str = _ORDER) -> HTMLResponse:
    """The tables of the registry whose DAG the user may read, with their health, their last and their next maintenance.

    Args:
        q: the words of a search. The page shows the rows that contain all words.
        sort: a column of ``COLUMNS``; for any other text, the rows are sorted by the score.
        order: ``desc``: the largest value is first; any other text: the smallest value is first.
    """
    column = sort if sort in COLUMNS else _SORT
    with errors_as_http():
        registry = load_registry()
        records = newest_records(registry)
        dags = maintenance_dags(registry, registry.fleet())
    readable = readable_dags(dags.values(), user)
    shown = {table: dag_id for table, dag_id in dags.items() if dag_id in readable}
    every_row = table_rows(shown, records.looks, records.steps)
    rows = sorted_rows(matching_rows(every_row, q), column, descending=order == "desc")
    return page(
        request,
        "tables.html",
        rows=rows,
        totals=totals(every_row),
        columns=COLUMNS,
        numbers=NUMBERS - {"score"},
        sort=column,
        descending=order == "desc",
        search=q,
        problem=records.problem,
        days=DAYS,
        invalid=sorted(registry.invalid_tables),
        dag_of=shown,
        subjects=list(registry.subjects),
        dags=dag_states(shown.values()),
    )
