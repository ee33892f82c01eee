"""The page of a table version, served by Airflow's own server to whoever may see assets there.

No postponed annotations in this module: FastAPI resolves them at run time.
"""

from html import escape
from string import Template
from typing import Any

from airflow.api_fastapi.core_api.security import requires_access_asset
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import RegistryError, load_registry

app = FastAPI(title="Lakehouse", docs_url=None, redoc_url=None, openapi_url=None)

#: The page runs no script and loads nothing, so it allows neither.
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
def table_version(table: str, version: int) -> HTMLResponse:
    """One version of a registered table: its commit, files, size and schema. 404 for what is not there."""
    import pyarrow.compute as pc

    from lakehouse_lib.errors import DeltaError

    try:
        # By name only: a location in the URL would open any folder of the machine.
        load_registry().table(table)
        opened = LakehouseHook().table(table, version)
        commit = _commit(opened)
        sizes = opened.files(columns=["size"])["size"]
        schema = {field.name: _type(field) for field in opened.schema().fields}
    except (RegistryError, DeltaError) as error:
        raise HTTPException(status_code=404, detail=str(error)) from error
    facts = {
        "Files": f"{len(sizes):,}",
        "Size": f"{pc.sum(sizes).as_py() or 0:,} bytes",
        "Location": opened.table_uri,
    }
    page = _PAGE.substitute(
        table=escape(table),
        version=version,
        facts=_rows(facts),
        commit=_rows(commit) or "<tr><td>No longer in the log.</td></tr>",
        schema=_rows(schema),
    )
    return HTMLResponse(page, headers=_HEADERS)


def _commit(table: Any) -> dict[str, Any]:
    from lakehouse_lib.errors import VersionNotFoundError
    from lakehouse_lib.log.commit import read_commit

    try:
        return dict(read_commit(table.store, table.version()).info)
    except VersionNotFoundError:  # the version can be built from its checkpoint, its commit is cleaned up
        return {}


def _rows(values: dict[str, Any]) -> str:
    return "".join(
        f"<tr><th>{escape(str(key))}</th><td>{escape(str(value))}</td></tr>" for key, value in values.items()
    )


def _type(field: Any) -> str:
    return f"{field.type}{'' if field.nullable else ', not null'}"
