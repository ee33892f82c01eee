"""The page of the loads of a table: the batches of its source. The page reads logs and no data files."""

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.pages.live_table import errors_as_http, registered_table
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.views.loads import load_rows
from lakehouse_lib.ingestion.batches.reports import newest_batches
from lakehouse_lib.store import open_store

router = APIRouter()

#: The number of newest batches that the page lists.
_BATCHES = 50


@router.get("/tables/{table}/loads", response_class=HTMLResponse)
def loads_page(request: Request, table: str) -> HTMLResponse:
    """The loads of a registered table that has a source."""
    with errors_as_http():
        _, entry = registered_table(table)
        if entry.source is None:
            raise HTTPException(404, f"the table {table!r} has no source in the registry, so nothing loads it")
        hook = LakehouseHook().opener(table)
        store = open_store(entry.uri, hook.storage_options(entry.uri))
        quarantine = entry.quarantine
        rejects = None if quarantine is None else open_store(quarantine, hook.storage_options(quarantine))
        batches = newest_batches(store, entry.source.name, rejects, most=_BATCHES)
    return page(
        request,
        "loads.html",
        name=table,
        source=entry.source,
        quarantine=None if quarantine is None else f"{table}_quarantine",
        rows=load_rows(batches),
        loaded_rows=sum(batch.commit.rows or 0 for batch in batches if batch.commit is not None),
        rejected_rows=sum(batch.rejected_rows for batch in batches),
    )
