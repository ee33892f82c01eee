"""The page of a table: its state now, its versions, and its maintenance. It opens the table and reads only its log."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.commit_info import shown_infos
from lakehouse_airflow.operators.maintenance.fleet import fleet_of
from lakehouse_airflow.pages.access import may_trigger
from lakehouse_airflow.pages.health_cache import HealthCache
from lakehouse_airflow.pages.live_table import answered_errors, open_table
from lakehouse_airflow.pages.records import DAYS_OF_A_TABLE, records_of
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.views.commit import commit_of
from lakehouse_airflow.pages.views.fleet import newest_look
from lakehouse_airflow.pages.views.histogram import histogram_of
from lakehouse_airflow.pages.views.run import EFFECTS, step_rows
from lakehouse_airflow.pages.views.schema import columns_of
from lakehouse_airflow.pages.views.trend import trend_of
from lakehouse_lib.fleet.health import score

router = APIRouter()
_cache = HealthCache()

#: The newest versions and the newest steps that the page lists.
_VERSIONS, _STEPS = 30, 30


@router.get("/tables/{table}", response_class=HTMLResponse)
def table_page(
    request: Request,
    table: str,
    triggers: Annotated[bool, Depends(may_trigger)],
    connection: str | None = None,
) -> HTMLResponse:
    """The page of a registered table.

    Conditions of commits are withheld if the table has rows of a subject.
    """
    with answered_errors():
        opened = open_table(table, connection)
        (maintained,) = fleet_of(opened.registry, [table], opened.hook)
        health = _cache.health(maintained, opened.table.metadata().id, opened.table.version())
        commits = shown_infos(opened.table.history(_VERSIONS), opened.entry.uri)
        schema = columns_of(opened.table.schema(), health)
        records = records_of(opened.registry, table)
        quarantine = f"{table}_quarantine" if opened.entry.quarantine is not None else None
        quarantined = None if quarantine is None else newest_look(records_of(opened.registry, quarantine).looks)
    return page(
        request,
        "table.html",
        name=table,
        entry=opened.entry,
        location=opened.table.table_uri,
        health=health,
        score=score(health),
        trend=trend_of(records.looks),
        histogram=histogram_of(health.size_histogram),
        commits=[commit_of(info) for info in commits],
        schema=schema,
        steps=step_rows(records.steps, _STEPS),
        problem=records.problem,
        effects=EFFECTS,
        days=DAYS_OF_A_TABLE,
        quarantine=quarantine,
        quarantined=quarantined,
        triggers=triggers,
    )
