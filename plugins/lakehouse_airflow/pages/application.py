"""The app of the pages, which Airflow's server mounts.

The app has only GET routes. Each route requires the rights in ``access.REQUIRED``. Files of the folder ``static`` have
a route, too, because a mounted folder would not require the rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lakehouse_airflow.pages.access import REQUIRED
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.routes import erasures, loads, maintenance, overview, static_file, table, version
from lakehouse_airflow.pages.urls import Urls

#: Scripts, styles and images are files on this server, never inline. Only pages of this server may frame a page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

app = FastAPI(title="Lakehouse", dependencies=list(REQUIRED), docs_url=None, redoc_url=None, openapi_url=None)
for _module in (overview, table, version, maintenance, loads, erasures, static_file):
    app.include_router(_module.router)


@app.middleware("http")
async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Add the headers to each response, errors included."""
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


@app.exception_handler(HTTPException)
def explain(request: Request, error: HTTPException) -> Response:
    """The response to an error. A browser gets a page, or a redirect to the login; a program gets JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        return RedirectResponse(Urls.of(request).login(request), HTTPStatus.SEE_OTHER.value)
    title = HTTPStatus(error.status_code).phrase
    return page(request, "error.html", error.status_code, title=title, detail=str(error.detail))


@app.exception_handler(RequestValidationError)
def explain_value(request: Request, error: RequestValidationError) -> Response:
    """The response to a value in the URL that is not valid: status 422."""
    detail = "; ".join(f"{problem['loc'][-1]}: {problem['msg']}" for problem in error.errors())
    return explain(request, HTTPException(422, detail))
