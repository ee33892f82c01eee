"""The page of a table: its state, its versions and its maintenance. It reads the table's log and no data files."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.commit_info import shown_infos
from lakehouse_airflow.operators.maintenance.fleet import fleet_of
from lakehouse_airflow.pages.access import may_trigger
from lakehouse_airflow.pages.health_cache import HealthCache
from lakehouse_airflow.pages.live_table import LiveTable, errors_as_http, open_table
from lakehouse_airflow.pages.records import DAYS_OF_A_TABLE, records_of
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.views.commit import commit_of
from lakehouse_airflow.pages.views.condition import measured_condition, recorded_condition
from lakehouse_airflow.pages.views.fleet import newest_look
from lakehouse_airflow.pages.views.histogram import histogram_of
from lakehouse_airflow.pages.views.partitions import partition_lists
from lakehouse_airflow.pages.views.quality import Quality, quality_of
from lakehouse_airflow.pages.views.run import EFFECTS, error_of, step_rows
from lakehouse_airflow.pages.views.schema import change_rows, columns_of
from lakehouse_airflow.pages.views.time_line import time_line_of
from lakehouse_airflow.pages.views.trend import trend_of
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.registry import Registry
from lakehouse_lib.ingestion.batches.reports import newest_batches
from lakehouse_lib.store import open_store

router = APIRouter()
_cache = HealthCache()

#: The numbers of newest versions, steps, batches and commits that the page reads, and of schema changes that it lists.
_VERSIONS, _STEPS, _BATCHES, _COMMITS, _CHANGES = 30, 30, 20, 100, 50


@router.get("/tables/{table}", response_class=HTMLResponse)
def table_page(
    request: Request,
    table: str,
    triggers: Annotated[bool, Depends(may_trigger)],
    connection: str | None = None,
    measure: bool = False,
) -> HTMLResponse:
    """The page of a registered table.

    Conditions of commits are withheld if the table has rows of a subject. Values of a partition column are withheld if
    the column is a key of a subject.

    Args:
        connection: the connection that opens the table; None: the connection in the registry.
        measure: measure the table even if it is large. Otherwise, the page of a large table has the numbers of the
            newest record.
    """
    with errors_as_http():
        opened = open_table(table, connection)
        (maintained,) = fleet_of(opened.registry, [table], opened.hook)
        measured = _cache.measurement(maintained, opened.table, partial(_quality, opened), waits=measure)
        infos = shown_infos(opened.table.history(_VERSIONS), opened.entry.uri)
        schema_changes = opened.table.schema_changes(_COMMITS)
        records = records_of(opened.registry, table)
        quarantine = f"{table}_quarantine" if opened.entry.quarantine is not None else None
        quarantined = None if quarantine is None else newest_look(records_of(opened.registry, quarantine).looks)
    condition = recorded_condition(records.looks) if measured is None else measured_condition(measured.health)
    commits = [commit_of(info) for info in infos]
    partition_columns = opened.table.metadata().partition_columns
    steps = step_rows(records.steps, _STEPS)
    return page(
        request,
        "table.html",
        name=table,
        entry=opened.entry,
        location=opened.table.table_uri,
        version=opened.table.version(),
        condition=condition,
        is_measured=measured is not None,
        trend=trend_of(records.looks),
        histogram=None if condition is None else histogram_of(condition.histogram),
        partition_columns=partition_columns,
        partitions={}
        if measured is None
        else partition_lists(measured.partitions, measured.health.bytes, _keys(opened.registry, table)),
        commits=commits,
        time_line=time_line_of(commits),
        schema=columns_of(opened.table.schema(), condition, partition_columns),
        schema_changes=change_rows(schema_changes, commits, _CHANGES),
        searched=_COMMITS,
        steps=steps,
        error=error_of(steps),
        problem=records.problem,
        effects=EFFECTS,
        days=DAYS_OF_A_TABLE,
        quality=None if measured is None else measured.quality,
        quarantine=quarantine,
        quarantined=quarantined,
        triggers=triggers,
    )


def _quality(opened: LiveTable) -> Quality | None:
    """The quality of the newest loads, or the reason why they cannot be read; None: the table has no source."""
    source, quarantine = opened.entry.source, opened.entry.quarantine
    if source is None:
        return None
    rejects = None if quarantine is None else open_store(quarantine, opened.hook.storage_options(quarantine))
    try:
        return quality_of(newest_batches(opened.table.store, source.name, rejects, most=_BATCHES))
    except DeltaError as error:
        return Quality(problem=str(error))


def _keys(registry: Registry, table: str) -> set[str]:
    """The columns of a table that identify a person, in lower case."""
    places = [rows for subject in registry.subjects.values() for rows in subject.rows]
    keys = {rows.key for rows in places if rows.table == table}
    for through in (rows.through for rows in places if rows.through is not None and rows.through.table == table):
        keys |= {through.key, through.select}
    return {key.lower() for key in keys}
