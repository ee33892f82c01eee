"""The page of a version of a table: its commit, its size, its schema, and links to the previous and next version."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.commit_info import shown_info
from lakehouse_airflow.pages.live_table import errors_as_http, open_table
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.views.commit import fields_of, task_of
from lakehouse_airflow.pages.views.schema import columns_of
from lakehouse_lib.fleet.versions import commit_info, latest_version, oldest_version

router = APIRouter()


@router.get("/tables/{table}/versions/{version}", response_class=HTMLResponse)
def version_page(
    request: Request,
    table: str,
    version: Annotated[int, Path(ge=0)],
    connection: str | None = None,
) -> HTMLResponse:
    """The page of a version of a registered table.

    Conditions of the commit are withheld if the table has rows of a subject.
    """
    with errors_as_http():
        opened = open_table(table, connection, version)
        store = opened.table.store
        info = shown_info(commit_info(store, version), opened.entry.uri)
        detail = opened.table.detail()
        schema = columns_of(opened.table.schema())
        oldest, latest = oldest_version(store), latest_version(store)
    modified = detail["lastModified"]
    return page(
        request,
        "version.html",
        name=table,
        version=version,
        detail=detail,
        committed_at=None if modified is None else int(modified.timestamp() * 1000),
        commit=fields_of(info),
        task=task_of(info),
        schema=schema,
        previous=version - 1 if oldest is not None and oldest < version else None,
        following=version + 1 if latest is not None and version < latest else None,
        latest=latest,
    )
