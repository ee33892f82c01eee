"""The page of all tables, from the registry and the records. It opens no table."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from lakehouse_airflow.pages.access import MAINTENANCE_DAG
from lakehouse_airflow.pages.dag_state import dag_state
from lakehouse_airflow.pages.live_table import answered_errors
from lakehouse_airflow.pages.records import DAYS, newest_records
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.urls import Urls
from lakehouse_airflow.pages.views.fleet import COLUMNS, NUMBERS, matching_rows, sorted_rows, table_rows, totals
from lakehouse_airflow.registry import load_registry

router = APIRouter()

#: The worst tables are first.
_SORT, _ORDER = "score", "asc"


@router.get("/")
def start(request: Request) -> RedirectResponse:
    """The way to the page of all tables."""
    return RedirectResponse(Urls.of(request).tables())


@router.get("/tables", response_class=HTMLResponse)
def tables(request: Request, q: str = "", sort: str = _SORT, order: str = _ORDER) -> HTMLResponse:
    """All tables of the registry, with their health and what maintenance has done and will do.

    Args:
        q: words that a row has to have.
        sort: a column of ``COLUMNS``; another text: the score.
        order: ``desc``: the largest value first.
    """
    column = sort if sort in COLUMNS else _SORT
    with answered_errors():
        registry = load_registry()
        records = newest_records(registry)
    every_row = table_rows(registry.fleet(), records.looks, records.steps)
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
        dag_id=MAINTENANCE_DAG,
        dag=dag_state(MAINTENANCE_DAG),
    )
