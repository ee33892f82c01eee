"""Render templates as HTML, with values escaped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakehouse_airflow.pages.urls import Urls
from lakehouse_airflow.pages.views import texts

if TYPE_CHECKING:
    from starlette.requests import Request

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {
    "count": texts.count_text,
    "bytes": texts.bytes_text,
    "share": texts.share_text,
    "decimal": texts.decimal_text,
    "duration": texts.duration_text,
    "time": texts.time_text,
    "iso": texts.iso_text,
    "age": texts.age_text,
    "sentence": texts.sentence_text,
    "words": texts.name_text,
}


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template.

    Args:
        template: the name of a file in the folder ``templates``.
        status: the HTTP status of the response.
        values: the values of the template. ``urls`` and ``now`` (ms since the epoch) are added.
    """
    html = _templates.get_template(template).render(urls=Urls.of(request), now=time.time_ns() // 1_000_000, **values)
    return HTMLResponse(html, status)
