"""The page of a table version, served by Airflow's server to users who may read assets.

This module has no postponed annotations, because FastAPI resolves them at run time.
"""

from html import escape
from string import Template
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import requires_access_asset
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from fastapi import Depends, FastAPI, HTTPException, Path
from fastapi.responses import HTMLResponse

from lakehouse_airflow.commit_info import shown_info
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import RegistryError

app = FastAPI(title="Lakehouse", docs_url=None, redoc_url=None, openapi_url=None)

#: The page needs no scripts and loads nothing, so the headers forbid both.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$table, version $version</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1f2933 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .8rem .3rem 0;
border-bottom: 1px solid #e4e7eb; vertical-align: top; overflow-wrap: anywhere } th { font-weight: 600; width: 14rem }
</style></head><body>
<h1>$table, version $version</h1>
<table>$facts</table>
<h2>Commit</h2><table>$commit</table>
<h2>Schema</h2><table>$schema</table>
</body></html>
""")


@app.get(
    "/tables/{table}/versions/{version}",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_asset("GET"))],
)
def table_version(
    table: str, version: Annotated[int, Path(ge=0)], connection: str = LakehouseHook.default_conn_name
) -> HTMLResponse:
    """The page of one version of a registered table: its commit, files, size and schema.

    Conditions of the commit are withheld if the table has rows of a subject.

    Status 404: the table, version or connection does not exist; 503: the registry, the connection or the store cannot
    be used; 500: the table cannot be read. The text has the reason.
    """
    import pyarrow.compute as pc

    from lakehouse_lib.errors import DeltaError
    from lakehouse_lib.fleet.versions import commit_info

    try:
        # Names only: a location in the URL could open any folder of this machine.
        if load_registry().find(table) is None:
            raise HTTPException(status_code=404, detail=f"the registry has no table {table!r}")
        hook = _hook(connection)
        opened = hook.table(table, version)
        commit = shown_info(commit_info(opened.store, opened.version()), hook.uri(table))
        sizes = opened.files(columns=["size"])["size"]
        schema = {field.name: _type(field) for field in opened.schema().fields}
    except (RegistryError, AirflowException) as error:
        raise HTTPException(status_code=503, detail=str(error)) from error
    except DeltaError as error:
        raise HTTPException(status_code=_status(error), detail=str(error)) from error
    facts = {
        "Files": f"{len(sizes):,}",
        "Size": f"{pc.sum(sizes).as_py() or 0:,} bytes",
        "Location": opened.table_uri,
    }
    page = _PAGE.substitute(
        table=escape(table),
        version=version,
        facts=_rows(facts),
        commit=_rows(commit) or "<tr><td>The commit is no longer in the log.</td></tr>",
        schema=_rows(schema),
    )
    return HTMLResponse(page, headers=_HEADERS)


def _hook(connection: str) -> LakehouseHook:
    """The hook of a connection of type ``lakehouse``; the page's reader chooses it, so no other type is opened.

    A connection of another type gets the same answer as a missing one, so that the page does not reveal which exist.
    """
    hook = LakehouseHook(connection)
    if connection == LakehouseHook.default_conn_name:
        return hook
    try:
        stored_connection = hook.get_conn()
    except AirflowNotFoundException:
        stored_connection = None
    if stored_connection is None or stored_connection.conn_type != LakehouseHook.conn_type:
        raise HTTPException(
            status_code=404, detail=f"the connection {connection!r} of type {LakehouseHook.conn_type} does not exist"
        )
    return hook


def _status(error: Exception) -> int:
    from lakehouse_lib.errors import ObjectNotFoundError, StoreError, TableNotFoundError, VersionNotFoundError

    if isinstance(error, TableNotFoundError | VersionNotFoundError):
        return 404
    return 503 if isinstance(error, StoreError) and not isinstance(error, ObjectNotFoundError) else 500


def _rows(values: dict[str, Any]) -> str:
    return "".join(
        f"<tr><th>{escape(str(key))}</th><td>{escape(str(value))}</td></tr>" for key, value in values.items()
    )


def _type(field: Any) -> str:
    return f"{field.type}{'' if field.nullable else ', not null'}"
